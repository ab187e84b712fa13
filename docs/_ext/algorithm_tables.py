"""Fills the tables of the pages on algorithms from the classes and the catalog.

    python docs/_ext/algorithm_tables.py

The tables stand in the pages, so that they read well without the site; a test compares them. Each
follows a comment::

    <!-- settings: CLASS -->
    <!-- settings: CLASS TABLE/ENTRY -->   with a column of the values of an entry
    <!-- keywords: CLASS -->               only the keyword-only arguments
    <!-- columns: CLASS -->                of the log
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.algos.replay import ReplayAlgorithm
from rlpyt.experiments.catalog import ALGORITHMS, Algorithm, entries, load

DOCS = Path(__file__).resolve().parents[1]
PAGES = [DOCS / "algorithms.md", *sorted((DOCS / "algorithms").glob("*.md"))]
TABLE = re.compile(
    r"(<!-- (settings|keywords|columns|family): (\S+)(?: (\S+))? -->\n)\n(?:\|.*\n)*\n?"
)
ARGUMENT = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
# An alias of a setting, or the settings of a base class that a class refuses.
LEFT_OUT = re.compile(r"``\w+`` is another\s+name|but not(?:(?:,|\s+and)?\s+``\w+``)+")

MEANINGS = {
    "alpha": "temperature",
    "approxKL": "estimated KL divergence from the policy that acted",
    "clipFraction": "fraction of likelihood ratios outside the clipping range",
    "edgeMass": "total probability of the two outermost returns in the targets",
    "entropy": "entropy of the policy",
    "explainedVariance": "fraction of the returns' variance that the values explain: 1 is perfect, "
    "below 0 is worse than a constant",
    "gradNorm": "gradient norm before clipping",
    "loss": "minimized loss",
    "maskedFraction": "fraction of samples left out of the loss because a time limit truncated "
    "their return; only with `bootstrap_timelimit` and `env_info.timeout`",
    "muGradNorm": "gradient norm of the policy before clipping",
    "muLoss": "policy loss",
    "perplexity": "exponential of the entropy: effective number of actions to choose from",
    "piGradNorm": "gradient norm of the policy before clipping",
    "piLogStd": "log standard deviations of the policy",
    "piLoss": "policy loss",
    "piMu": "means of the policy, before the tanh",
    "priority": "new priorities of sequences",
    "q1": "Q-values from the first critic",
    "q1GradNorm": "gradient norm of the first critic before clipping",
    "q1Loss": "loss of the first critic",
    "q2": "Q-values from the second critic",
    "q2GradNorm": "gradient norm of the second critic before clipping",
    "q2Loss": "loss of the second critic",
    "qGradNorm": "gradient norm of the critic before clipping",
    "qLoss": "critic loss",
    "qMean": "mean Q-value of the actions taken",
    "qMeanDiff": "mean absolute difference between the two critics",
    "rhoMean": "mean of the importance weights rho, after clipping",
    "tdAbsErr": "absolute TD errors, at most `delta_clip`",
    "v": "state values",
    "vGradNorm": "gradient norm of the state-value network before clipping",
    "vLoss": "loss of the state-value network",
    "valueLoss": "value loss",
}

# Where a class records something else under a name that others use too.
OWN_MEANINGS = {
    CategoricalDQN: {
        "tdAbsErr": "Kullback-Leibler divergences, used as priorities instead of TD errors"
    },
    PQN: {"tdAbsErr": "absolute TD errors"},
    TD3: {
        "qLoss": "sum of the losses of both critics",
        "qGradNorm": "joint gradient norm of both critics before clipping",
    },
}


def settings(classes: Sequence[Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield name, default and meaning of every setting of a class and its bases, in this order."""
    seen, defaults = set(), inspect.signature(classes[0]).parameters
    for base in classes:
        text = inspect.cleandoc(vars(base).get("__doc__") or "")
        seen.update(re.findall(r"``(\w+)``", " ".join(LEFT_OUT.findall(text))))
        arguments = text.partition("\nArgs:\n")[2]
        for name, meaning in ARGUMENT.findall(re.split(r"\n\S", arguments)[0]):
            if name not in seen:
                seen.add(name)
                yield name, defaults[name].default, " ".join(meaning.split())
        kinds = {p.kind for p in inspect.signature(base.__init__).parameters.values()}
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


def of_settings(Cls: Any, only_keywords: bool, entry: str | None) -> Iterator[Sequence[str]]:
    """Yield the rows of a table of settings."""
    yield "setting", "default", *([f"entry `{entry}`"] if entry else []), "meaning"
    values = entries()[entry]["algo"] if entry else {}
    parameters = inspect.signature(Cls.__init__).parameters
    keywords = {name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    for name, default, meaning in settings([Cls] if only_keywords else Cls.__mro__):
        if name in keywords or not only_keywords:
            value = values.get(name, default)
            of_entry = ["" if value == default else as_code(value)] if entry else []
            yield f"`{name}`", as_code(default), *of_entry, as_markdown(meaning)


def of_columns(AlgoCls: Any) -> Iterator[Sequence[str]]:
    """Yield the rows of a table of log columns."""
    yield "column", "meaning"
    masked = ["maskedFraction"] if issubclass(AlgoCls, ReplayAlgorithm) else []
    meanings = {**MEANINGS, **OWN_MEANINGS.get(AlgoCls, {})}
    for name in [*AlgoCls.opt_info_fields, *masked]:
        yield f"`{name}`", meanings[name]


# Sections of pages that describe more than one algorithm.
SECTIONS = {
    "munchausen_dqn": "dqn.md#munchausen-dqn",
    "munchausen_iqn": "iqn.md#munchausen-iqn",
    "ppo_rnd": "rnd.md",
    "redq": "sac.md#redq",
    "tqc": "sac.md#tqc",
    "crossq": "sac.md#crossq",
}


def of_family(package: Any) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of all algorithms in a package."""
    yield "name", "discrete", "continuous", "memory", "masks", "async", "compiled", "runs"
    for name, algorithm in ALGORITHMS.items():
        if algorithm.name.startswith(f"{package.__name__}."):
            can = ("yes" if each else "-" for each in abilities(algorithm))
            AlgoCls = load(algorithm.name)
            page = SECTIONS.get(name, f"{name}.md")
            link = f"[`{name}`](algorithms/{page})"
            yield link, *can, evidence(AlgoCls.__name__, page)


def abilities(algorithm: Algorithm) -> Sequence[bool]:
    """Return what an algorithm can do, with one of its agents: six of the columns of a family."""
    AlgoCls, agents = load(algorithm.name), [load(name) for name in algorithm.agents.values()]
    modules = {Agent.__module__ for Agent in agents}
    is_gradient = all(module.startswith("rlpyt.agents.pg.") for module in modules)
    is_discrete = is_gradient or all(
        module.startswith("rlpyt.agents.dqn.") or "discrete" in module for module in modules
    )
    return (
        is_discrete,
        is_gradient or not is_discrete,
        any(Agent.recurrent for Agent in agents),
        is_discrete and all(Agent.mask_field is not None for Agent in agents),
        issubclass(AlgoCls, ReplayAlgorithm) or getattr(AlgoCls, "only_async", False),
        any(not Agent.recurrent for Agent in agents),  # Sequences are cut where episodes end.
    )


def evidence(name: str, page: str) -> str:
    """Return a link to the evidence on an algorithm: its section, or one that its page names."""
    index = DOCS / "evidence" / "index.md"
    if re.search(rf"^##+ {name}$", index.read_text(), re.M):
        return f"[yes](evidence/index.md#{name.lower()})"
    file, _, section = page.partition("#")
    text = (DOCS / "algorithms" / file).read_text()
    for part in re.split(r"^##+ ", text, flags=re.M):
        if section and part.partition("\n")[0].lower().replace(" ", "-") == section:
            text = part
    found = re.search(r"\(\.\./(evidence/index\.md#[\w-]+)\)", text)
    return f"[yes]({found[1]})" if found else "-"


def table(kind: str, Cls: Any, entry: str | None = None) -> str:
    """Return the table of one class or package, of a kind that the head of this file lists."""
    if kind == "family":
        head, *rows = of_family(Cls)
    elif kind == "columns":
        head, *rows = of_columns(Cls)
    else:
        head, *rows = of_settings(Cls, kind == "keywords", entry)
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    return "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """Return the text of a page with current tables."""
    return TABLE.sub(lambda m: f"{m[1]}\n{table(m[2], resolve_name(m[3]), m[4])}\n", text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text()))
