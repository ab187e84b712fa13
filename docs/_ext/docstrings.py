"""Shows docstrings as they are meant: formulas as blocks, records with the shape of every field."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

SECTION = re.compile(r"^[A-Z][A-Za-z ]*:$")
LIST_ITEM = re.compile(r"^([*-]|\d+\.|:|\.\.) ?")
MARKUP = re.compile(
    r"\[[^\][`\n]*\*[^\][`\n]*\]|\|[\w.]+\||\*{1,2}\w+\b(?!\*)|\b[a-zA-Z]\w*_(?=\W|$)"
)
FIELD = re.compile(r"^    (?P<name>\w+): [^#]+?(?:  # (?P<comment>.*))?$")


def mark_formulas(lines: list[str]) -> Iterator[str]:
    """Put ``::`` before every indented paragraph that is not part of a list or of a section.

    In the source a formula simply stands indented after an empty line; reStructuredText would take
    it for a quotation and its operators for markup.
    """
    head = ""  # The last line without indentation.
    in_formula = False
    for i, line in enumerate(lines):
        if line and not line.startswith("    "):
            head, in_formula = line, False
        elif line and i > 0 and not lines[i - 1] and not in_formula:
            in_formula = not (SECTION.match(head) or LIST_ITEM.match(head) or head.endswith("::"))
            if in_formula:
                yield from ("::", "")
        yield line if in_formula else as_literals(line)


def as_literals(line: str) -> str:
    """Show ``[*shape]``, ``|x|`` and ``return_`` as code; otherwise they would be markup."""
    parts = re.split(r"(``.+?``|`[^`]+`)", line)
    parts[::2] = [MARKUP.sub(r"``\g<0>``", text) for text in parts[::2]]
    return "".join(parts)


def is_inherited_from_elsewhere(obj: Any) -> bool:
    """Whether a method has no docstring of its own, nor any class of this library has one."""
    name = getattr(obj, "__name__", "")
    owner: Any = sys.modules.get(getattr(obj, "__module__", None) or "")
    for part in getattr(obj, "__qualname__", "").split(".")[:-1]:
        owner = getattr(owner, part, None)
    if getattr(obj, "__doc__", None) or not inspect.isclass(owner):
        return False
    documented = (c for c in owner.__mro__ if getattr(vars(c).get(name), "__doc__", None))
    return not any(c.__module__.startswith("rlpyt.") for c in documented)


def field_lines(record: Any) -> Iterator[str]:
    """One line per field of a record class; its comment if it was written as a class."""
    try:
        source = inspect.getsource(record)
    except (OSError, TypeError):
        source = ""
    comments = {m["name"]: m["comment"] for m in map(FIELD.match, source.splitlines()) if m}
    yield from ("", ":Fields:", "")
    for name in record._fields:
        comment = comments.get(name)
        yield f"    * ``{name}``" + (f": {comment}" if comment else "")
    yield ""


def is_record(obj: Any) -> bool:
    """Whether ``obj`` is a class of named tuples of any kind."""
    return inspect.isclass(obj) and issubclass(obj, tuple) and hasattr(obj, "_fields")


def process_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Rewrite one docstring in place (before napoleon reads its sections)."""
    if is_inherited_from_elsewhere(obj):
        lines.clear()
    if is_record(obj):
        written = [] if lines and lines[0].startswith(f"{obj.__name__}(") else lines[:]
        lines[:] = [*written, *field_lines(obj)]
    lines[:] = list(mark_formulas(lines))


def skip_member(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> Any:
    """Leave out attributes of classes; their docstrings list the ones that matter."""
    is_described = inspect.isroutine(obj) or inspect.isclass(obj)
    is_described = is_described or isinstance(obj, (property, functools.cached_property))
    return True if what == "class" and not is_described else None


def name_aliases(app: Sphinx, domain: str, kind: str, content: Any) -> None:
    """Write ``NDArray`` where Sphinx writes its own wrapper of an alias inside another type."""
    document = getattr(app.env, "current_document", None)
    for hints in getattr(document, "autodoc_annotations", {}).values():
        for name, hint in hints.items():
            if "TypeAliasForwardRef" not in hint:  # All hints of a page, for each of its objects.
                continue
            hints[name] = re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", hint)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", process_docstring, priority=100)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("object-description-transform", name_aliases, priority=100)
    return {"parallel_read_safe": True}
