"""Small helpers for the terminal: colours, timed messages, questions, command-line overrides."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

color2num = {
    "gray": 30,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "white": 37,
    "crimson": 38,
}


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """``string`` between the ANSI codes of a colour and of its end.

    Args:
        string: text to colour.
        color: a key of ``color2num``.
        bold: in bold face.
        highlight: colour the background.

    Raises:
        ValueError: if there is no such colour.
    """
    if color not in color2num:
        raise ValueError(f"Unknown color {color!r}: use one of {', '.join(color2num)}.")
    codes = [str(color2num[color] + (10 if highlight else 0))]
    if bold:
        codes.append("1")
    return f"\x1b[{';'.join(codes)}m{string}\x1b[0m"


def mkdir_p(path: str | os.PathLike[str]) -> None:
    """Create a directory and its parents, if they are not there yet."""
    os.makedirs(path, exist_ok=True)


def log(s: str) -> None:
    """Print ``s`` at once."""
    print(s, flush=True)


class SimpleMessage:
    """Says when a ``with`` block begins, and when it ends how long it took.

    Args:
        msg: what the block does.
        logger: receives the lines.
    """

    def __init__(self, msg: str, logger: Callable[[str], Any] = log) -> None:
        self.msg = msg
        self.logger = logger

    def __enter__(self) -> SimpleMessage:
        self.logger(self.msg)
        self.tstart = time.perf_counter()
        return self

    def __exit__(
        self,
        etype: type[BaseException] | None,
        *args: BaseException | TracebackType | None,
    ) -> None:
        outcome = "done" if etype is None else "failed"
        self.logger(f"{outcome} in {time.perf_counter() - self.tstart:.3f} seconds")


MESSAGE_DEPTH = 0


class Message:
    """A ``SimpleMessage`` in magenta, indented by the number of messages around it."""

    def __init__(self, msg: str) -> None:
        self.msg = msg

    def __enter__(self) -> Message:
        global MESSAGE_DEPTH
        indent = "\t" * MESSAGE_DEPTH
        self._message = SimpleMessage(self.msg, lambda s: log(colorize(indent + s, "magenta")))
        self._message.__enter__()
        MESSAGE_DEPTH += 1
        return self

    def __exit__(
        self,
        etype: type[BaseException] | None,
        *args: BaseException | TracebackType | None,
    ) -> None:
        global MESSAGE_DEPTH
        MESSAGE_DEPTH -= 1
        self._message.__exit__(etype, *args)


def prefix_log(prefix: str, logger: Callable[[str], Any] = log) -> Callable[[str], None]:
    """A function which hands its text, after ``prefix``, to ``logger``."""
    return lambda s: logger(prefix + s)


def tee_log(file_name: str | os.PathLike[str]) -> Callable[[str], None]:
    """A function which prints its text and appends it to a file, as one line."""

    def tee(s: str) -> None:
        log(s)
        with open(file_name, "a", encoding="utf-8") as file:
            file.write(s + "\n")

    return tee


def collect_args() -> dict[str, str]:
    """The options of the command line, ``--name value`` or ``--name=value``, by name.

    A flag, which is an option without value, has an empty one; ``tweak`` takes it as true.
    """
    args: dict[str, str] = {}
    words = sys.argv[1:]
    for word, following in zip(words, [*words[1:], "--"]):
        if word.startswith("--"):
            name, is_joined, value = word[2:].partition("=")
            has_next = not (is_joined or following.startswith("--"))
            args[name.replace("-", "_")] = following if has_next else value
    return args


def type_hint(
    arg_name: str, arg_type: Callable[[str], Any]
) -> Callable[[AnyFunction], AnyFunction]:
    """Decorate a function: ``tweakfun`` converts its argument ``arg_name`` by ``arg_type``."""

    def decorate(function: AnyFunction) -> AnyFunction:
        hints = {**getattr(function, "_tweak_type_hints", {}), arg_name: arg_type}
        setattr(function, "_tweak_type_hints", hints)  # noqa: B010 (a function has no such field)
        return function

    return decorate


def tweak(fun_or_val: Any, identifier: str | None = None) -> Any:
    """``tweakfun`` of a function or class, ``tweakval`` of anything else."""
    if callable(fun_or_val):
        return tweakfun(fun_or_val, identifier)
    return tweakval(fun_or_val, identifier)


def tweakval(val: Any, identifier: str | None) -> Any:
    """``val``, or what the command line gives for ``--identifier``, in the type of ``val``.

    Raises:
        ValueError: without an identifier.
    """
    if not identifier:
        raise ValueError("tweakval needs an identifier: the name of the command-line option.")
    args = collect_args()
    return _convert(args[identifier], _type_of(val)) if identifier in args else val


def tweakfun(fun: Callable[..., Any], alt: str | None = None) -> Callable[..., Any]:
    """``fun`` with keyword arguments from the command line, ``--name value``.

    Only parameters which the caller does not give are looked up; the text becomes the type of a
    ``type_hint``, else that of the default.

    Args:
        fun: function or class.
        alt: looked up as ``--<alt>_<name>`` instead.
    """
    hints: Mapping[str, Callable[[str], Any]] = getattr(fun, "_tweak_type_hints", {})
    start = f"{alt}_" if alt else ""

    @functools.wraps(fun)
    def tweaked(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(fun).bind_partial(*args, **kwargs).arguments
        options = collect_args()
        for name, parameter in inspect.signature(fun).parameters.items():
            if start + name in options and name not in given:
                arg_type = hints.get(name) or _type_of(parameter.default)
                kwargs[name] = _convert(options[start + name], arg_type)
        return fun(*args, **kwargs)

    return tweaked


def query_yes_no(question: str, default: str | None = "yes") -> bool:
    """Ask until the answer is yes or no.

    Args:
        question: printed before the choice.
        default: ``yes`` or ``no``, which an empty answer means; ``None`` takes no empty answer.

    Raises:
        ValueError: for another default.
    """
    choices = {None: "[y/n]", "yes": "[Y/n]", "no": "[y/N]"}
    if default not in choices:
        raise ValueError(f"default must be 'yes', 'no' or None, but is {default!r}.")
    while True:
        answer = input(f"{question} {choices[default]} ").strip().lower() or default or ""
        if answer in ("y", "ye", "yes", "n", "no"):
            return answer.startswith("y")
        log("Please answer yes or no (y or n).")


def _type_of(val: Any) -> Callable[[str], Any]:
    return str if val is None or val is inspect.Parameter.empty else type(val)


def _convert(text: str, arg_type: Callable[[str], Any]) -> Any:
    if arg_type is not bool:
        return arg_type(text)
    if text.lower() not in ("", "true", "false", "1", "0"):
        raise ValueError(f"Expected true or false on the command line, but got {text!r}.")
    return text.lower() in ("", "true", "1")
