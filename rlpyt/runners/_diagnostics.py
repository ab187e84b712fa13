"""What the runner counts and times between two log rows: pure functions of counters and clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAN = float("nan")


@dataclass(frozen=True)
class Interval:
    """What happened since the last log row; steps over all processes.

    Args:
        steps: environment steps for training.
        updates: of the algorithm.
        train_time_s: wall-clock time without evaluation.
        samples_used: steps which the updates were made from, replayed ones counted each time.
    """

    steps: int
    updates: int
    train_time_s: float
    samples_used: float

    def rates(self) -> dict[str, float]:
        """Speeds and replay ratio; NaN where nothing happened yet."""
        if self.steps == 0 or self.train_time_s <= 0:
            return {"StepsPerSecond": NAN, "UpdatesPerSecond": NAN, "ReplayRatio": NAN}
        return {
            "StepsPerSecond": self.steps / self.train_time_s,
            "UpdatesPerSecond": self.updates / self.train_time_s,
            "ReplayRatio": self.samples_used / self.steps,
        }


def opt_values(value: Any) -> list[Any]:
    """A field of an OptInfo as a list: algorithms hand out lists or single values."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def logged_fields(traj_infos: list[Any]) -> dict[str, list[Any]]:
    """The values of every public field of trajectory infos, by name."""
    if not traj_infos:
        return {}
    names = [name for name in traj_infos[0] if not name.startswith("_")]
    return {name: [info[name] for info in traj_infos] for name in names}
