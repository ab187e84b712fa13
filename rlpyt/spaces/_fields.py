"""Names of record fields for the keys of a dictionary."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

# Methods of records and of tuples, which a field of the same name would hide.
_METHODS = ("get", "items", "index", "count")


def field_names(keys: Iterable[object]) -> tuple[str, ...]:
    """Return one valid and unique field name per key, its own name where that is possible.

    Any other key is rewritten: ``ale.lives`` becomes ``ale_lives``, ``class`` becomes ``class_``;
    a number is appended if the name is taken.
    """
    texts = [str(key) for key in keys]
    names = [text if _is_valid(text) else _rewritten(text) for text in texts]
    taken = {text for text in texts if _is_valid(text)}
    for i, (text, name) in enumerate(zip(texts, names)):
        if name == text:
            continue
        number = 2
        while names[i] in taken:
            names[i] = f"{name}_{number}"
            number += 1
        taken.add(names[i])
    return tuple(names)


def _is_valid(name: str) -> bool:
    hidden = name.startswith("_") or keyword.iskeyword(name) or name in _METHODS
    return name.isidentifier() and not hidden


def _rewritten(text: str) -> str:
    name = re.sub(r"\W", "_", text).lstrip("_")
    if not name or name[0].isdigit():
        name = f"item_{name}"
    name = name.rstrip("_") or "item"
    return name if _is_valid(name) else f"{name}_"
