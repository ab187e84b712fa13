"""Arguments of samplers which are typed wrong, seen before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def whole(name: str, number: Any) -> int:
    """``number`` as an integer; scripts give floats as well.

    Raises:
        ValueError: if it is none; ``name`` is that of the argument.
    """
    if int(number) != number:
        raise ValueError(f"{name} is {number}: give a whole number")
    return int(number)


def check_env_arguments(EnvCls: Any, env_kwargs: Any, eval_env_kwargs: Any) -> None:
    """Raise ``TypeError`` if no environment could be made from these arguments of a sampler."""
    if not callable(EnvCls):
        raise TypeError(
            f"EnvCls is {EnvCls!r}: give the class of the environments, or a function which makes "
            "one from env_kwargs"
        )
    _check_env_kwargs("env_kwargs", env_kwargs)
    if eval_env_kwargs is not None:
        _check_env_kwargs("eval_env_kwargs", eval_env_kwargs)


def _check_env_kwargs(name: str, env_kwargs: Any) -> None:
    if isinstance(env_kwargs, Mapping) or callable(env_kwargs):
        return
    is_list = isinstance(env_kwargs, (list, tuple)) and len(env_kwargs) > 0
    if not is_list or not all(isinstance(kwargs, Mapping) for kwargs in env_kwargs):
        raise TypeError(
            f"{name} is {env_kwargs!r}: give a dict of keyword arguments ({{}} for none), a list "
            "of such with one for each environment, or a function of the environment's index"
        )
