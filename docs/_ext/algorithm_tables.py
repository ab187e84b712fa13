"""Fills the tables of settings and log columns in ``docs/algorithms`` from the classes.

    python docs/_ext/algorithm_tables.py

The tables stand in the pages, so that they read well without the site; a test compares them. Each
follows a comment ``<!-- settings: CLASS -->`` or ``<!-- columns: CLASS -->``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from rlpyt.algos.replay import ReplayAlgorithm

PAGES = Path(__file__).resolve().parents[1] / "algorithms"
TABLE = re.compile(r"<!-- (settings|columns): (\S+) -->\n\n(?:\|.*\n)*\n?")
ARGUMENT = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
# An alias of a setting, or the settings of a base class that a class refuses.
LEFT_OUT = re.compile(r"``\w+`` is another\s+name|but not(?:(?:,|\s+and)?\s+``\w+``)+")

MEANINGS = {
    "alpha": "temperature",
    "approxKL": "estimated divergence of the policy from the one that acted",
    "clipFraction": "fraction of likelihood ratios outside the clipping range",
    "edgeMass": "probability of the two outermost returns in the targets",
    "entropy": "entropy of the policy",
    "explainedVariance": "fraction of the variance of returns that the values explain: 1 is "
    "perfect, below 0 is worse than a constant",
    "gradNorm": "norm of the gradient before clipping",
    "loss": "minimized value",
    "maskedFraction": "fraction of samples left out of the loss, because a time limit truncated "
    "their return; only if `bootstrap_timelimit` has an effect",
    "muGradNorm": "norm of the policy's gradient before clipping",
    "muLoss": "loss of the policy",
    "perplexity": "exponential of the entropy: effective number of actions to choose from",
    "piGradNorm": "norm of the policy's gradient before clipping",
    "piLogStd": "logarithms of the policy's standard deviations",
    "piLoss": "loss of the policy",
    "piMu": "means of the policy, before the tanh",
    "priority": "new priorities of the sequences",
    "q1": "values by the first critic",
    "q1GradNorm": "norm of the first critic's gradient before clipping",
    "q1Loss": "loss of the first critic",
    "q2": "values by the second critic",
    "q2GradNorm": "norm of the second critic's gradient before clipping",
    "q2Loss": "loss of the second critic",
    "qGradNorm": "norm of the critic's gradient before clipping",
    "qLoss": "loss of the critic",
    "qMean": "mean Q-value of the actions taken",
    "qMeanDiff": "mean absolute difference of the two critics",
    "rhoMean": "mean of the importance weights rho, after clipping",
    "tdAbsErr": "absolute TD errors, or the divergences that replace them as priorities",
    "v": "state values",
    "vGradNorm": "norm of the state value's gradient before clipping",
    "vLoss": "loss of the state value",
    "valueLoss": "loss of the values",
}


def settings(AlgoCls: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield name, default and meaning of every setting, those of the class itself first."""
    seen = set()
    for base in AlgoCls.__mro__:
        text = inspect.cleandoc(vars(base).get("__doc__") or "")
        seen.update(re.findall(r"``(\w+)``", " ".join(LEFT_OUT.findall(text))))
        arguments = text.partition("\nArgs:\n")[2]
        parameters = inspect.signature(base.__init__).parameters
        for name, meaning in ARGUMENT.findall(re.split(r"\n\S", arguments)[0]):
            if name not in seen:
                seen.add(name)
                yield name, parameters[name].default, " ".join(meaning.split())
        kinds = {parameter.kind for parameter in parameters.values()}
        if "__init__" in vars(base) and inspect.Parameter.VAR_KEYWORD not in kinds:
            return  # It takes no settings of base classes.


def as_code(default: Any) -> str:
    """Return a default as it would be written in a program."""
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, str):
        return f'`"{default}"`'
    is_number = isinstance(default, (int, float)) and not isinstance(default, bool)
    return f"`{getattr(default, '__name__', f'{default:g}' if is_number else default)}`"


def as_markdown(text: str) -> str:
    """Return a sentence of a docstring in Markdown."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`").replace("|", r"\|").removesuffix(".")


def table(kind: str, AlgoCls: Any) -> str:
    """Return the table of one class, ``kind`` "settings" or "columns"."""
    if kind == "settings":
        lines = ["| setting | default | meaning |", "|---|---|---|"]
        for name, default, meaning in settings(AlgoCls):
            lines.append(f"| `{name}` | {as_code(default)} | {as_markdown(meaning)} |")
    else:
        names = list(AlgoCls.opt_info_fields)
        if issubclass(AlgoCls, ReplayAlgorithm):
            names.append("maskedFraction")
        lines = ["| column | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {MEANINGS[name]} |" for name in names]
    return "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """Return the text of a page with current tables."""
    return TABLE.sub(
        lambda m: f"<!-- {m[1]}: {m[2]} -->\n\n{table(m[1], resolve_name(m[2]))}\n", text
    )


if __name__ == "__main__":
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(filled(page.read_text()))
