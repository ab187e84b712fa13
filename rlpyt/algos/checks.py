"""Checks of settings, made at set-up; each error names the setting, its value and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlpyt.utils.quick_args import whole_number

if TYPE_CHECKING:
    from rlpyt.algos.base import RlAlgorithm


def make_whole(algo: RlAlgorithm, *names: str) -> None:
    """Make these settings of ``algo`` integers of at least 1; a JSON configuration has floats.

    Raises:
        ValueError: if a setting is less than 1.
    """
    for name in names:
        value = getattr(algo, name)
        number = whole_number(name, value)
        if number is not value:  # A subclass may compute it in a property.
            setattr(algo, name, number)


def check_positive(algo: RlAlgorithm, name: str, remedy: str = "make it positive") -> None:
    """Raise ``ValueError`` if the setting of ``algo`` is not positive; it may be None."""
    value = getattr(algo, name)
    if value is not None and not value > 0:
        raise ValueError(f"{name} is {value}: {remedy}")


def check_fraction(algo: RlAlgorithm, *names: str) -> None:
    """Raise ``ValueError`` if one of these settings of ``algo`` is outside [0, 1]."""
    for name in names:
        value = getattr(algo, name)
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}: choose a number in [0, 1]")
