"""Verification of a run: intervals between its checkpoints are computed again, and compared.

A checkpoint holds everything that a run continues from. A run that restarts from it must write the
same rows and arrive at the same next checkpoint, to the last digit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from rlpyt.checkpoints.arrays import as_stored, describe, read_array
from rlpyt.checkpoints.files import CheckpointError, read_manifest, verify as verify_files
from rlpyt.checkpoints.store import Checkpoints, step_of
from rlpyt.checkpoints.tree import encode
from rlpyt.experiments.evaluation import configuration_in, find_snapshot, load_snapshot
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.results.runs import number, read_params, read_rows
from rlpyt.experiments.settings import checked
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.runners.checkpointing import RunCheckpoints, open_checkpoints
from rlpyt.runners.sync_rl import SyncRlMixin
from rlpyt.utils.files import replacing
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context, versions
from rlpyt.utils.logging.log import Logger
from rlpyt.utils.seed import make_seed

RECORD = "verify.json"
# Relative difference of values in the log, and of the agent's arrays, where last digits differ.
TOLERANCE = 1e-3
# What is not compared: columns of times, by words in their names; clocks and callbacks.
COLUMNS_OF_TIME = ("Time", "PerSecond")
OTHER_PARTS = ("cum_time", "time_since_log", "cum_eval_time", "callbacks", "callback_classes")


@dataclass
class Verdict:
    """Result of a verification."""

    intervals: list[tuple[int, int]] = field(default_factory=list)  # steps of those computed again
    n_intervals: int = 0  # between checkpoints
    n_rows: int = 0  # log rows that were compared
    tolerance: float = 0.0  # relative difference that was allowed; 0 for none
    differences: list[str] = field(default_factory=list)  # none if verified
    # What was not compared, or not to the last digit.
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the verdict in one line, and the notes."""
        done = f"{len(self.intervals)} of {self.n_intervals} intervals, {self.n_rows} log rows"
        line = f"verified: {done} and the state after each"
        if self.differences:
            more = f", and {len(self.differences) - 1} more" if self.differences[1:] else ""
            word = "not equal" if self.tolerance else "REFUSED"
            line = f"{word}: {self.differences[0]}{more} ({done})"
        return "\n".join([line, *self.notes])

    def write(self, run_dir: Path) -> None:
        """Record the verdict, and which log it is about."""
        log = hashlib.sha256((run_dir / "progress.csv").read_bytes()).hexdigest()
        record = {"verified": not self.differences, **asdict(self), "progress_sha256": log}
        with replacing(run_dir / RECORD) as file:
            json.dump({**record, "versions": versions()}, file, indent=1)


def verify(run_dir: str | Path, n_intervals: int = 3, seed: int | None = None) -> Verdict:
    """Compute intervals of a run again, and record the verdict beside it, in ``verify.json``.

    Intervals between the checkpoints that the run has kept are drawn at random.
    """
    run_dir, verdict = Path(run_dir), Verdict()
    config, params = checked(configuration_in(run_dir)), read_params(run_dir / "params.json")
    rows = read_rows(run_dir / "progress.csv")
    try:
        complete = Checkpoints(run_dir / "checkpoints").complete()
        paths = [path for _, path in sorted({step_of(path): path for path in complete}.items())]
        if len(paths) < 2:
            raise ValueError(
                f"{run_dir} has {len(paths)} checkpoints, and verify computes what lies between "
                "two: train in one process, with --checkpoint-steps and --keep-checkpoints"
            )
        pairs: list[tuple[Path | None, Path]] = list(zip(paths, paths[1:]))
        verdict.n_intervals = len(pairs)
        generator = np.random.default_rng(make_seed() if seed is None else seed)
        drawn = generator.choice(len(pairs), min(n_intervals, len(pairs)), replace=False)
        chosen = [pairs[i] for i in sorted(drawn)]
        verdict.intervals = [(step_of(paths[i]), step_of(paths[i + 1])) for i in sorted(drawn)]
        verdict.differences += _differences_of_snapshot(run_dir, paths)
        begin = None if step_of(paths[0]) == 0 else paths[0]
        if begin is None and "init" not in params:
            chosen.insert(0, (None, paths[0]))
        for first, last in chosen:
            reasons = _reasons_for_other_digits(config, last)
            tolerance = TOLERANCE if reasons else 0.0
            notes = [f"Compared within {tolerance:g}: {reason}" for reason in reasons]
            verdict.notes += [note for note in notes if note not in verdict.notes]
            verdict.tolerance = max(verdict.tolerance, tolerance)
            again, of_state = _compute_again(config, params["seed"], first, last, tolerance)
            written = _rows_between(rows, first, last)
            verdict.n_rows += len(written)
            again = _rows_between(again, first, last)
            verdict.differences += [*_differences_of_rows(written, again, tolerance), *of_state]
        n_outside = len(rows) - len(_rows_between(rows, begin, paths[-1]))
        if n_outside:
            verdict.notes.append(f"Not compared: {n_outside} log rows outside of all checkpoints")
    except (CheckpointError, RuntimeError) as error:  # The second is torch's, of sizes.
        verdict.differences.append(str(error))
    verdict.write(run_dir)
    return verdict


def _rows_between(
    rows: Sequence[dict[str, str]], first: Path | None, last: Path
) -> list[dict[str, str]]:
    """Return the rows after a checkpoint, or from the start, up to another."""
    low = -1 if first is None else step_of(first)
    return [row for row in rows if low < number(row.get("CumSteps")) <= step_of(last)]


def _reasons_for_other_digits(config: Config, checkpoint: Path) -> list[str]:
    """Return what keeps this process from computing the last digits of a checkpoint."""
    here, there = versions(), read_manifest(checkpoint).get("versions", {})
    reasons = [
        f"{name} was {there.get(name, 'not recorded')}, and is {here.get(name, 'missing')} here"
        for name in {**there, **here}
        if there.get(name) != here.get(name)
    ]
    if config["affinity"].get("gpus") is not None:
        reasons.append("sums on a GPU have no fixed order")
    return reasons


# --- Computing again -----------------------------------------------------------------------------


def _compute_again(
    config: Config, seed: int, first: Path | None, last: Path, tolerance: float
) -> tuple[list[dict[str, str]], list[str]]:
    """Return the rows that a run writes between two checkpoints, and what differs at the second.

    Without the first checkpoint the run begins anew.
    """
    runner = runner_call(config, seed).make()
    if not runner.can_go_back or isinstance(runner, SyncRlMixin):
        raise ValueError(
            f"a run of {type(runner).__name__} cannot be computed again: verify runs that train in "
            "one process, with runner=minibatch"
        )
    with TemporaryDirectory() as directory, logger.using(Logger(sinks=[])):
        with logger_context(directory, 0, "verify", override_prefix=True):
            opened = open_checkpoints(runner.checkpoint_configuration(), None, None, first or last)
            assert opened is not None
            state = None if first is None else opened.load()
            if state is not None:
                runner.load_state_dict(state)
            runner.checkpoints = end = _End(opened.plan, runner, state, last, tolerance)
            runner.train()
        rows = read_rows(Path(directory, "run_0", "progress.csv"))
    if end.differences is None:
        return rows, [f"with these settings, the run ends before step {step_of(last)}"]
    return rows, end.differences


class _End(RunCheckpoints):
    """Checkpoints of a run that ends at an earlier run's checkpoint, and is compared with it."""

    differences: list[str] | None = None

    def __init__(self, plan: Any, runner: Any, state: Any, last: Path, tolerance: float) -> None:
        super().__init__(plan)
        self._runner, self._last, self._tolerance = runner, last, tolerance
        self._begins_with = state and state["sampler"]

    def is_due(self, cum_steps: int) -> bool:
        return cum_steps >= step_of(self._last)

    def save(
        self, collect_state: Callable[[], Any], cum_steps: int, n_updates: int, group: Any = None
    ) -> None:
        if self._begins_with is not None:
            lost = self._runner.sampler.envs_without_state(self._begins_with)
            if lost:
                raise ValueError(f"the run cannot be verified: {next(iter(lost.values()))}")
        if self.differences is None and self.is_due(cum_steps):
            state = {name: x for name, x in collect_state().items() if name not in OTHER_PARTS}
            self.differences = list(_differences_of_state(state, self._last, self._tolerance))
            self._runner.stop()


# --- Differences ---------------------------------------------------------------------------------


def _differences_of_rows(
    written: Sequence[Mapping[str, str]], again: Sequence[Mapping[str, str]], tolerance: float
) -> Iterator[str]:
    """Yield step, column and values wherever two parts of a log differ."""
    steps = [", ".join(row["CumSteps"] for row in rows) for rows in (written, again)]
    if steps[0] != steps[1]:
        yield f"the log has rows at the steps {steps[0]}, and must have them at {steps[1]}"
        return
    for one, other in zip(written, again):
        for name in {**one, **other}:
            # A log gets a column with the first value, and nan in earlier rows.
            text, expected = one.get(name) or "nan", other.get(name) or "nan"
            x, y = number(text), number(expected)
            is_near = tolerance and np.isclose(x, y, tolerance, 1e-3 * tolerance, equal_nan=True)
            is_of_time = any(word in name for word in COLUMNS_OF_TIME)
            if not (text == expected or is_near or is_of_time):
                yield f"step {one['CumSteps']}, {name}: {text} in the log, {expected} computed"


def _differences_of_state(state: dict[str, Any], path: Path, tolerance: float) -> Iterator[str]:
    """Yield the name of each part of a state that differs from a checkpoint.

    With a tolerance only arrays of the agent are compared, since replay buffers and random numbers
    follow the actions.
    """
    manifest = read_manifest(path)
    verify_files(path, manifest)
    tree, arrays = encode(state)
    saved = manifest["state"]["dict"]
    if not tolerance:
        plain = json.loads(json.dumps(tree))["dict"]
        names = [name for name in plain if plain[name] != saved.get(name)]
        yield from (f"step {step_of(path)}, {name}: not that of {path}" for name in names)
    for name, array in arrays.items():
        entry = manifest["arrays"].get(name, {})
        if tolerance and not name.startswith("agent."):
            continue
        if any(entry.get(key) != value for key, value in describe(array).items()) or not _is_equal(
            array, read_array(path, entry), tolerance
        ):
            yield f"step {step_of(path)}, {name}: not that of {path}"


def _differences_of_snapshot(run_dir: Path, paths: Sequence[Path]) -> Iterator[str]:
    """Yield the name of the last snapshot if it is not the agent of the checkpoint at its step."""
    try:
        file = find_snapshot(run_dir)
    except FileNotFoundError:
        return
    snapshot = load_snapshot(file)
    state = {"agent": snapshot["agent_state_dict"]}
    for path in paths:
        if step_of(path) == snapshot.get("cum_steps"):
            for text in _differences_of_state(state, path, tolerance=0):
                yield f"{file.name}: {text}"


def _is_equal(array: Any, saved: Any, tolerance: float) -> bool:
    x, y = (
        as_stored(each if isinstance(each, torch.Tensor) else np.asarray(each))
        for each in (array, saved)
    )
    if tolerance:
        x, y = x.double(), y.double()
        return bool((x - y).norm() <= tolerance * y.norm() + 1e-3 * tolerance)
    return torch.equal(x.reshape(-1).view(torch.uint8), y.reshape(-1).view(torch.uint8))
