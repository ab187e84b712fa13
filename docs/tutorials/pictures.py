"""Draw the pictures of the tutorials: ``python docs/tutorials/pictures.py``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
# Text stays text, and the same program writes the same file.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rlpyt", "font.size": 11})

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402

INK, LINE = "#1d2733", "#44546a"
BLUE, GREEN, ORANGE, GREY, WHITE = "#cfe2f7", "#cdebd8", "#fbe0b5", "#e4e7eb", "#ffffff"


def canvas(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure of this size in cells, without axes."""
    figure, ax = plt.subplots(figsize=(width * 0.55, height * 0.55))
    figure.subplots_adjust(0, 0, 1, 1)
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    ax.axis("off")
    return figure, ax


def cells(ax: Any, x: float, y: float, colors: Sequence[str], labels: Sequence[Any] = ()) -> None:
    """Draw a row of cells to the right of ``x``, below ``y``."""
    for i, color in enumerate(colors):
        ax.add_patch(Rectangle((x + i, y), 1, 1, facecolor=color, edgecolor=LINE, linewidth=1.2))
    for i, label in enumerate(labels):
        word(ax, x + i + 0.5, y + 0.5, label)


def word(ax: Any, x: float, y: float, text: Any, align: str = "center", **style: Any) -> None:
    """Write ``text``, centered at its height."""
    ax.text(x, y, str(text), ha=align, va="center", **{"color": INK, **style})


def code(ax: Any, x: float, y: float, text: str, align: str = "center") -> None:
    """Write ``text`` as code."""
    word(ax, x, y, text, align, family="monospace")


def arrow(ax: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow."""
    style = {"arrowstyle": "-|>", "color": LINE, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=style)


def bracket(ax: Any, x: float, width: float, y: float, text: str, below: bool = True) -> None:
    """Draw a bracket over or under cells, with code."""
    side = 0.2 if below else -0.2
    ax.plot([x, x, x + width, x + width], [y, y + side, y + side, y], color=LINE, linewidth=1.2)
    code(ax, x + width / 2, y + 3 * side, text)


def record() -> Any:
    """One step, written into row t of every field."""
    figure, ax = canvas(17.2, 6.4)
    fields = [("observation", 3, BLUE), ("reward", 1, GREEN), ("done", 1, ORANGE)]
    code(ax, 4.2, 0.5, "step")
    code(ax, 12.2, 0.5, "samples[t] = step")
    for row, (name, depth, color) in enumerate(fields):
        y = 1.2 + 1.7 * row
        code(ax, 0.1, y + 0.5, name, "left")
        for d in reversed(range(depth)):
            cells(ax, 3.6 + 0.18 * d, y - 0.18 * d, [color])
            cells(ax, 7.6 + 0.18 * d, y - 0.18 * d, [color if t == 4 else WHITE for t in range(9)])
        arrow(ax, (5.3, y + 0.5), (7.4, y + 0.5))
    word(ax, 12.1, 5.95, "t", style="italic")
    return figure


def views() -> Any:
    """Action and previous action as two views of one array."""
    figure, ax = canvas(12, 4.6)
    cells(ax, 2.5, 1.8, [GREY] + [BLUE] * 6, ["0", *(f"a{t}" for t in range(6))])
    bracket(ax, 3.55, 5.9, 1.65, "action", below=False)
    bracket(ax, 2.55, 5.9, 2.95, "prev_action")
    word(ax, 0.2, 2.3, "rows 0 to T", "left")
    word(ax, 6, 4.3, "What is written to action[t] appears as prev_action[t + 1].")
    return figure


def ring() -> Any:
    """Rows of a full buffer around its cursor."""
    figure, ax = canvas(16.4, 5.4)
    colors = [GREEN] * 5 + [ORANGE] * 3 + [GREY] + [GREEN] * 7
    ages = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]
    word(ax, 0.2, 0.5, "age of each row, in steps:", "left")
    cells(ax, 0.2, 1, colors, ages)
    arrow(ax, (8.7, 3.1), (8.7, 2.1))
    word(ax, 8.7, 3.5, "t, written next")
    legend = [
        (0.2, GREEN, "may be drawn"),
        (4.6, ORANGE, "waits for three rewards"),
        (11, GREY, "has lost its past"),
    ]
    for x, color, text in legend:
        cells(ax, x, 4.3, [color])
        word(ax, x + 1.2, 4.8, text, "left")
    return figure


def frames() -> Any:
    """Stacks of frames, read from frames that are stored once."""
    figure, ax = canvas(13, 4.6)
    cells(ax, 2.5, 2, [BLUE] * 5 + [GREEN] * 5, [f"f{i}" for i in (*range(5), *range(5))])
    bracket(ax, 2.55, 3.9, 1.85, "observation at f3", below=False)
    bracket(ax, 3.55, 3.9, 3.15, "observation at f4")
    bracket(ax, 7.55, 1.9, 1.85, "observation at f1", below=False)
    word(ax, 0.2, 2.5, "frames", "left")
    ax.plot([7.5, 7.5], [1.5, 3.5], color=INK, linewidth=2.5)
    word(ax, 7.6, 4.0, "a new episode", "left")
    word(ax, 8.5, 0.6, "two frames of zeros, f0 and f1")
    return figure


def tree() -> Any:
    """A draw from a sum tree."""
    figure, ax = canvas(13, 7.2)
    leaves, names = [3, 1, 4, 2], ["row 0", "row 1", "row 2", "row 3"]
    xs = [1.5, 4.5, 7.5, 10.5]
    edges = [((6, 1.6), (3, 2.6)), ((6, 1.6), (9, 2.6))]
    edges += [((3, 3.6), (x, 4.6)) for x in xs[:2]] + [((9, 3.6), (x, 4.6)) for x in xs[2:]]
    for start, end in edges:
        is_path = end in {(9, 2.6), (7.5, 4.6)}
        color, width = ("#3f76b8", 3.0) if is_path else (LINE, 1.2)
        ax.plot(*zip(start, end), color=color, linewidth=width)
    cells(ax, 5.5, 0.6, [BLUE], [sum(leaves)])
    for x, parts in ((3, leaves[:2]), (9, leaves[2:])):
        cells(ax, x - 0.5, 2.6, [BLUE if x == 9 else WHITE], [sum(parts)])
    for x, value, name in zip(xs, leaves, names):
        cells(ax, x - 0.5, 4.6, [BLUE if value == 4 else WHITE], [value])
        word(ax, x, 6.0, name)
    word(ax, 6.8, 1.1, "a random number below 10: 6.5", "left")
    word(ax, 9.7, 3.1, "6.5 - 4 = 2.5", "left")
    word(ax, 6, 6.8, "priorities at the leaves, their sums above")
    return figure


def main() -> None:
    """Write all pictures beside this file."""
    for draw in (record, views, ring, frames, tree):
        file = Path(__file__).with_name(f"{draw.__name__}.svg")
        draw().savefig(file, facecolor=WHITE, metadata={"Date": None})


if __name__ == "__main__":
    main()
