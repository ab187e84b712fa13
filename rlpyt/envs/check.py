"""Test of an environment against the rules of samplers and replay buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from rlpyt.checkpoints.tree import decode, encode
from rlpyt.core.protocols import EnvLike, Stateful
from rlpyt.core.records import trajectory_end
from rlpyt.core.rows import as_element, warn_of_unscaled_images
from rlpyt.utils.seed import set_envs_seeds
from rlpyt.utils.types import NDArray, Nested

WRAPPED = "for one of gymnasium, call check_env(lambda: GymEnvWrapper(MyEnv()))"


def check_env(make_env: Callable[[], Any], n_steps: int = 200, seed: int = 0) -> None:
    """Play random episodes and check the results against the rules of ``Env``.

    The rules: observations are in their space; shapes, types and fields never change; ``done`` is a
    bool and the reward a number; ``traj_done`` and ``timeout`` come only with ``done``; later steps
    do not write into an observation; the same seed gives the same episodes, regardless of numpy's
    global generator; and a restored state, if there is one, continues exactly.

    Args:
        make_env: function that makes the environment; it is called several times.
        n_steps: number of steps of each test, with resets between episodes.
        seed: seed of the environment and of the actions.

    Raises:
        TypeError: if ``make_env`` is an environment.
        ValueError: if a rule is broken; the message names it.
    """
    if not callable(make_env):
        raise TypeError(f"make_env={make_env!r} is no function: {WRAPPED}")
    global_state = np.random.get_state()
    try:
        with closing(make_env()) as env:
            _check_spaces(env)
            warn_of_unscaled_images(
                as_element(env.reset(), env.observation_space), env.observation_space
            )
        with _seeded(make_env, seed) as env:
            first = _play(env, _actions(make_env, seed, n_steps))
        np.random.seed(seed + 1)  # Exposes environments that use the global generator.
        with _seeded(make_env, seed) as env:
            again = _play(env, _actions(make_env, seed, n_steps))
        _compare(first, again, "the same seed must give the same episodes")
        _check_state(make_env, seed, n_steps)
    finally:
        np.random.set_state(global_state)


@contextmanager
def _seeded(make_env: Callable[[], Any], seed: int) -> Iterator[Any]:
    with closing(make_env()) as env:
        set_envs_seeds([env], seed)
        yield env


def _actions(make_env: Callable[[], Any], seed: int, n_steps: int) -> list[Any]:
    with closing(make_env()) as env:
        env.action_space.seed(seed)
        return [env.action_space.sample() for _ in range(n_steps)]


def _check_spaces(env: EnvLike) -> None:
    """Check that samples and null values have one signature, and null values draw no numbers."""
    if not hasattr(env, "spaces"):
        raise ValueError(f"{type(env).__name__} is no environment of the library: {WRAPPED}")
    for space in env.spaces:
        if space is env.observation_space and _is_unbounded(space):
            continue  # Observations are never sampled.
        space.seed(3)
        first, second = space.sample(), space.sample()
        space.seed(3)
        space.null_value()
        _require(_is_equal(space.sample(), first), f"{space}: null_value() must not draw")
        _require(_is_equal(space.sample(), second), f"{space}: seed() must fix all samples")
        _require(space.contains(first), f"{space}: contains() must be true of its sample")
        same = _signature(space.null_value()) == _signature(first)
        _require(same, f"{space}: null_value() must have shape and type of sample()")


def _is_unbounded(space: Any) -> bool:
    bounds = (getattr(space, "low", 0), getattr(space, "high", 0))
    is_infinite = not all(np.all(np.isfinite(bound)) for bound in bounds)
    return is_infinite or any(_is_unbounded(part) for part in getattr(space, "spaces", ()))


def _play(env: EnvLike, actions: list[Any]) -> list[Nested]:
    """Return the results of consecutive episodes, after checking each of them."""
    observation = env.reset()
    looks = _Looks(env)
    looks.check_observation(observation)
    kept, copies = [observation], [deepcopy(observation)]
    for action in actions:
        step = env.step(action)
        looks.check_step(step)
        ended = trajectory_end(step.env_info, step.done)
        kept.append((step, env.reset()) if ended else step)
        copies.append(deepcopy(kept[-1]))
    _compare(kept, copies, "an observation must not be written to later: return a copy")
    return copies


class _Looks:
    """Signatures of the first observation and info, required of all later ones."""

    def __init__(self, env: EnvLike) -> None:
        self._space = env.observation_space
        self._observation: list[Any] | None = None
        self._info: list[Any] | None = None

    def check_observation(self, observation: Nested) -> None:
        signature = _signature(observation)
        self._observation = self._observation or signature
        _require(
            signature == self._observation,
            f"observations must keep shape and type: {self._observation} became {signature}",
        )
        _require(
            self._space.contains(observation),
            f"observation {observation} must be in the observation space {self._space}",
        )

    def check_step(self, step: Any) -> None:
        _require(
            getattr(step, "_fields", None) == ("observation", "reward", "done", "env_info"),
            f"step() must return an EnvStep, not {type(step).__name__}",
        )
        self.check_observation(step.observation)
        reward = np.asarray(step.reward)
        _require(
            reward.shape == () and reward.dtype.kind in "fiu",
            f"the reward must be one number, not {step.reward!r}",
        )
        done = np.asarray(step.done)
        _require(done.shape == () and done.dtype == bool, f"done must be a bool, not {step.done!r}")
        for name in ("traj_done", "timeout"):
            is_set = bool(getattr(step.env_info, name, False))
            _require(bool(done) or not is_set, f"{name} must come with done")
        signature = _signature(step.env_info)
        self._info = signature if self._info is None else self._info
        _require(
            signature == self._info,
            f"env_info must keep fields, shapes and types: {self._info} became {signature}",
        )


def _check_state(make_env: Callable[[], Any], seed: int, n_steps: int) -> None:
    """Check that a state continues exactly in another environment, random resets included."""
    actions = _actions(make_env, seed, n_steps)
    half = n_steps // 2
    with _seeded(make_env, seed) as env:
        has_state = isinstance(env, Stateful)
        if not has_state:
            return
        _continue(env, actions[:half], env.reset())
        try:
            # Copied, since the arrays may be those that the environment goes on with.
            tree, arrays = deepcopy(encode(env.state_dict(), "state_dict()"))
        except NotImplementedError:
            return
        except TypeError as error:
            raise ValueError(str(error)) from error
        expected = _continue(env, actions[half:])
    with _seeded(make_env, seed + 1) as env:
        _continue(env, actions[: half // 2], env.reset())
        env.load_state_dict(decode(tree, arrays.__getitem__))
        _compare(_continue(env, actions[half:]), expected, "load_state_dict must continue exactly")


def _continue(env: EnvLike, actions: list[Any], *start: Nested) -> list[Nested]:
    results = [deepcopy(observation) for observation in start]
    for action in actions:
        step = env.step(action)
        results.append(deepcopy(step))
        if trajectory_end(step.env_info, step.done):
            results.append(deepcopy(env.reset()))
    return results


def _leaves(value: Nested, path: str = "") -> Iterator[tuple[str, NDArray]]:
    if isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", range(len(value)))
        for name, part in zip(names, value):
            yield from _leaves(part, f"{path}.{name}")
    elif value is not None:
        yield path, np.asarray(value)


def _signature(value: Nested) -> list[Any]:
    """Return path, shape and type of every array."""
    return [(path, leaf.shape, leaf.dtype.str) for path, leaf in _leaves(value)]


def _is_equal(a: Nested, b: Nested) -> bool:
    pairs = zip(_leaves(a), _leaves(b))
    return _signature(a) == _signature(b) and all(
        np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for (_, x), (_, y) in pairs
    )


def _compare(a: list[Nested], b: list[Nested], rule: str) -> None:
    for i, (x, y) in enumerate(zip(a, b)):
        _require(_is_equal(x, y), f"{rule} (result {i}: {x} and {y})")
    _require(len(a) == len(b), f"{rule} ({len(a)} and {len(b)} results)")


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)
