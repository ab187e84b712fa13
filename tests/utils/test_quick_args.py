"""Which constructor arguments become attributes."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch

from rlpyt.utils.quick_args import ConstructorSignature, save__init__args, whole_number


class Base:
    """Stores its arguments first."""

    blocked = "class attribute"

    def __init__(self, a: int, b: int = 2, *args: int, c: int = 3, blocked: int = 4, **kw: int):
        local = 5  # noqa: F841
        save__init__args(locals())


def test_positional_arguments_are_stored() -> None:
    x = Base(1, 7, 8, 9, c=10, e=11)
    assert vars(x) == {"a": 1, "b": 7}


class PositionalBlocked:
    """Has an attribute and a property with the names of arguments."""

    mode = "class"

    def __init__(self, mode: str, size: int, other: int, overwrite: bool = False):
        save__init__args(locals(), overwrite=overwrite)

    @property
    def size(self) -> int:
        return 100


def test_an_attribute_or_property_of_the_class_blocks() -> None:
    x = PositionalBlocked("arg", 3, 4)
    assert (x.mode, x.size, x.other) == ("class", 100, 4)


class Settings:
    rate: float = 0.5
    size: int = 3

    def __init__(self, rate: float = 0.5, size: int = 3) -> None:
        save__init__args(locals())


def test_an_annotated_attribute_is_the_default_of_a_setting() -> None:
    class Instead(Settings):
        def __init__(self, rate: float = 0.25) -> None:
            save__init__args(locals())

    assert vars(Settings(1.0)) == {"rate": 1.0, "size": 3}
    assert (Instead(2.0).rate, Instead(2.0).size) == (2.0, 3)


def test_overwrite_stores_in_any_case() -> None:
    class Overwriting:
        mode = "class"

        def __init__(self, mode: str) -> None:
            save__init__args(locals(), overwrite=True)

    assert Overwriting("arg").mode == "arg"
    with pytest.raises(AttributeError):
        PositionalBlocked("arg", 3, 4, overwrite=True)


def test_options_and_changed_variables() -> None:
    class Child(Base):
        def __init__(self, kept: int, gone: int, changed: int) -> None:
            del gone
            changed = 2 * changed
            a = b = 0  # noqa: F841
            save__init__args(locals(), underscore=True, subclass_only=True)

    assert vars(Child(1, 2, 3)) == {"_kept": 1, "_changed": 6}


def decorate(init: Any) -> Any:
    @functools.wraps(init)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        init(*args, **kwargs)

    return wrapper


def test_a_decorated_constructor_keeps_its_arguments() -> None:
    """A wrapper hid the parameters, and the attributes were silently lost."""

    class Decorated(Base):
        @decorate
        def __init__(self, d: int = 4) -> None:
            super().__init__(1)
            save__init__args(locals())

    assert vars(Decorated()) == {"a": 1, "b": 2, "d": 4}


def test_torch_modules_and_builtin_bases() -> None:
    class Model(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            save__init__args(locals())

    class Table(dict):
        def __init__(self, name: str) -> None:
            save__init__args(locals())

    assert Model(3).width == 3
    assert Table("t").name == "t"


def test_whole_numbers() -> None:
    assert whole_number("n", 1e6) == 1_000_000
    assert whole_number("n", 2.5) == 2
    assert whole_number("n", 0, at_least=0, rounds_down=False) == 0


class Rated:
    __signature__ = ConstructorSignature()

    def __init__(self, rate: float, size: int | None = None, name: str = "") -> None:
        save__init__args(locals())


class Passing(Rated):
    def __init__(self, **kwargs: Any) -> None:
        self.own = kwargs.pop("own", None)
        super().__init__(**kwargs)


def test_constructors_with_a_signature_of_their_own() -> None:
    assert Rated(1, 2).size == 2
    assert Passing(rate=1, own=2).own == 2, "what a constructor takes out is no fault"
    assert copy.copy(Rated(3)).rate == 3
