"""The search for the fastest settings, which measures candidates in turn and drops slow ones.

The machine may become faster or slower meanwhile; measurements in turn, in short slices, stay
comparable. The search begins with two sizes of each sampler, and adds neighbours of the fastest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import product
from typing import Any

import torch

from rlpyt.experiments import settings
from rlpyt.experiments.catalog import ENVIRONMENTS, SAMPLERS, load, targets, vector_sampler
from rlpyt.experiments.doctor.trials import (
    Candidate,
    Measurement,
    RunTime,
    StepTime,
    Trial,
    sampling,
    stepping,
    training,
)
from rlpyt.experiments.sweeps.variant import Config, changed
from rlpyt.processes.machine import look_at_machine
from rlpyt.processes.supervisor import WorkerError

PARALLEL = ("cpu", "gpu", "alternating")
# Few environments have a form for the device sampler; those of simulators have no other.
ON_ONE_MACHINE = [name for name in SAMPLERS if name not in ("ray", "device")]


class Search:
    """Search for the settings with which a run is fastest on this machine.

    ``batch_T * batch_B``, the number of steps trained on per iteration, stays fixed. With a replay
    buffer only ``batch_T`` does, since the replay ratio sets the updates per step. Given settings
    are not changed.

    Args:
        config: checked configuration.
        given: names of the settings that may not change, such as "sampler" and "sampler.batch_B".
        seconds: approximate seconds of measurement in all, without the start of processes.
        report: function that prints the progress.

    Attributes:
        step: time and memory of the environment alone, after :meth:`measure_environment`.
        times: measured times of each candidate, slice by slice.
        left_out: reasons why candidates cannot be measured.

    Raises:
        ValueError: if ``seconds`` is not positive, or the sampler is not from the library.
    """

    def __init__(
        self,
        config: Config,
        given: Iterable[str] = (),
        seconds: float = 60.0,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        sampler = config["roles"].get("sampler", "serial")
        if sampler not in ON_ONE_MACHINE:
            raise ValueError(f"sampler={sampler}: the doctor compares {', '.join(ON_ONE_MACHINE)}")
        if getattr(load(targets(config)["algo"]), "only_async", False):
            raise ValueError(
                f"algo={config['roles']['algo']} trains while another process samples: the doctor "
                "times runs that sample and train in turn; use one such as algo=a2c"
            )
        if not seconds > 0:
            raise ValueError(f"seconds={seconds}: give more than 0, such as 60")
        self.config, self.given, self._report = config, set(given), report
        self.slice_s, self.limit_s = seconds / 150, max(20.0, seconds / 2)
        self.machine = look_at_machine()
        # One process, without work that occurs only at the start or at log rows.
        affinity = {k: v for k, v in config["affinity"].items() if k not in ("processes", "gpus")}
        kept = ("n_steps", "log_interval_steps")
        runner = {k: v for k, v in config["runner"].items() if k in kept}
        self._base = {
            **changed(
                config,
                roles={"runner": "minibatch"},
                sampler={"eval_n_envs": 0, "max_decorrelation_steps": 0},
            ),
            "runner": runner,
            "affinity": affinity,
        }
        self._gpus: list[int | None] = [None, 0] if self.machine.n_gpus else [None]
        gpus = config["affinity"].get("gpus")
        gpus = [gpus] if isinstance(gpus, int) else gpus
        if "affinity.gpus" in self.given:
            self._gpus = (gpus or [None])[:1]
        threads = config["affinity"].get("threads")
        default = torch.get_num_threads()
        self._threads = sorted({1, default}) if threads is None else [threads]
        self.as_given = self._as_given(sampler, threads or default)
        self.has_replay = "replay_ratio" in settings.parameters(targets(config)["algo"])[0]
        self.step: StepTime
        self.times: dict[Candidate, list[RunTime]] = {}
        self.left_out: dict[Candidate, str] = {}

    def _as_given(self, sampler: str, threads: int) -> Candidate:
        given, batch = self._base["affinity"], self._base["sampler"]
        workers = given.get("workers") or len(given.get("cpus") or ()) or self.machine.n_cpus
        workers = min(workers, batch["batch_B"]) if sampler in PARALLEL else 0
        workers += workers % 2 if sampler == "alternating" else 0
        sizes = int(batch["batch_T"]), int(batch["batch_B"])
        return Candidate(sampler, workers, *sizes, threads, self._gpus[0])

    # --- Candidates ------------------------------------------------------------------------------

    def candidates(self) -> list[Candidate]:
        """Return all combinations of samplers, workers and ``batch_B``; some may be impossible."""
        samplers = [self.as_given.sampler] if "sampler" in self.given else list(ON_ONE_MACHINE)
        # Waiting torch threads slow down workers, so the search tries threads only for the best.
        return [
            Candidate(sampler, workers, T, B, self._threads[0], gpu)
            for T, B in self._sizes()
            for sampler in samplers
            for workers in (self._workers(B) if sampler in PARALLEL else [0])
            for gpu in (self._gpus[:1] if sampler == "cpu" else self._gpus)  # Its workers act.
        ]

    def _sizes(self) -> list[tuple[int, int]]:
        """Return the values of ``batch_T`` and ``batch_B`` that are comparable."""
        T, B = self.as_given.batch_T, self.as_given.batch_B
        if "sampler.batch_B" in self.given:
            return [(T, B)]
        if self.has_replay:
            largest = max(4 * B, 4 * self.machine.n_cpus)
            return [(T, B << k) for k in range(20) if B << k <= largest]
        is_recurrent = load(targets(self.config)["agent"]).recurrent
        if "sampler.batch_T" in self.given or is_recurrent:
            return [(T, B)]
        sizes = [int(B * factor) for factor in (0.25, 0.5, 1, 2, 4)]
        return [(T * B // size, size) for size in sizes if size and T * B % size == 0]

    def _workers(self, B: int) -> list[int]:
        affinity = self._base["affinity"]
        if "affinity.workers" in self.given or affinity.get("cpus"):
            return [min(affinity.get("workers") or len(affinity["cpus"]), B)]
        powers = {2**k for k in range(1, 12)} | {self.machine.n_cpus}
        return sorted(n for n in powers if 2 <= n <= B) or [1]

    def configuration(self, candidate: Candidate) -> Config:
        """Return the configuration to measure a candidate with.

        Raises:
            ValueError: if the settings do not fit each other, or the memory.
        """
        words = list(candidate.words().values())
        settings.checked(settings.overridden(self.config, words))
        needed = max(candidate.workers, 1) * self.step.memory
        if needed > 0.8 * self.machine.memory:
            raise ValueError(f"needs about {needed / 2**30:.1f} GiB of memory")
        base = settings.with_roles(self._base, sampler=candidate.sampler)
        return settings.checked(settings.overridden(base, words))

    # --- Samplers --------------------------------------------------------------------------------

    def measure_environment(self) -> None:
        """Measure the environment alone, for the length of batches and the memory of workers.

        Raises:
            TimeoutError: if it takes too long.
        """
        # A class of the user may make only vectors.
        role = self.config["roles"].get("env", "gym")
        in_vectors = role not in ENVIRONMENTS or vector_sampler(role) is not None
        sampler = "vector" if in_vectors and self.as_given.sampler == "vector" else "serial"
        alone = settings.checked(settings.with_roles(self._base, sampler=sampler))
        self._report("The environment alone")
        with Trial(stepping, alone) as trial:
            trial.result(self.limit_s)
            self.step = trial.measure(self.slice_s, self.limit_s)

    def start(self, candidate: Candidate, stack: ExitStack) -> Trial | None:
        """Start a sampling candidate; return None if it is left out, see ``left_out``."""
        at_once = max(1, min(candidate.workers, self.machine.n_cpus))
        per_row = self.step.seconds * candidate.batch_B / at_once
        batch_T = max(1, min(candidate.batch_T, round(self.slice_s / per_row)))
        return self._start(candidate, stack, self.limit_s, sampling, batch_T)

    def _start(
        self,
        candidate: Candidate,
        stack: ExitStack,
        limit_s: float,
        measurement: Callable[..., Measurement],
        *args: Any,
    ) -> Trial | None:
        try:
            with ExitStack() as started:  # Ends candidates at once that do not become ready.
                trial = Trial(measurement, self.configuration(candidate), *args)
                started.enter_context(trial).result(limit_s)
                stack.push(started.pop_all())
        except (ValueError, TypeError, WorkerError, OSError) as error:
            self.left_out[candidate] = _last_line(error)
            return None
        return trial

    def compare(self, trials: dict[Candidate, Trial], n_rounds: int) -> None:
        """Measure candidates in turn, several times; candidates that fail are taken out."""
        self._in_turn(trials, n_rounds, self.times, self.slice_s, self.limit_s)

    def _in_turn(
        self,
        trials: dict[Candidate, Trial],
        n_rounds: int,
        times: dict[Candidate, list[RunTime]],
        seconds: float,
        limit_s: float,
    ) -> None:
        """Add results to ``times``, and take out the candidates that fail."""
        for _ in range(n_rounds):
            for candidate, trial in list(trials.items()):
                try:
                    time = trial.measure(seconds, limit_s)
                except (WorkerError, TimeoutError) as error:
                    self.left_out[candidate] = _last_line(error)
                    times.pop(candidate, None)
                    trials.pop(candidate).close()
                else:
                    times.setdefault(candidate, []).append(time)

    def sampling_time(self, candidate: Candidate) -> float:
        """Return the median measured time of an environment step, in seconds."""
        return statistics.median(time.sampling for time in self.times[candidate])

    def batch_time(self, candidate: Candidate) -> float:
        """Return the seconds in which one batch is sampled."""
        return self.sampling_time(candidate) * candidate.batch_T * candidate.batch_B

    def search(self) -> list[Candidate]:
        """Return the candidates that were not dropped, the fastest first."""
        everything = self.candidates()
        everything.sort(key=lambda each: (-each.batch_B, abs(each.workers - self.machine.n_cpus)))
        chosen = [self.as_given]
        for sampler, gpu in product(ON_ONE_MACHINE, self._gpus):
            of_kind = [each for each in everything if (each.sampler, each.gpu) == (sampler, gpu)]
            chosen += of_kind[:1]
            # Environments that sleep need more workers than there are CPUs.
            chosen += sorted(of_kind[1:], key=lambda each: -each.workers)[:1]
        with ExitStack() as stack:
            trials: dict[Candidate, Trial] = {}
            self._run(trials, dict.fromkeys(chosen), 3, stack)
            for factor in (2.0, 1.5):
                self._keep_best(trials, factor, 8)
                best = list(trials)[:2]
                near = [each for each in everything if any(self._is_near(each, b) for b in best)]
                for each in best:
                    if each.sampler != "cpu" and each.gpu is None:
                        near += [each._replace(threads=threads) for threads in self._threads]
                self._run(trials, [each for each in near if each not in self.times], 3, stack)
            self._keep_best(trials, 1.3, 4)
            self._run(trials, (), 8, stack)
            self._keep_best(trials, 1.3, 3)
            return list(trials)

    def _run(
        self,
        trials: dict[Candidate, Trial],
        new: Iterable[Candidate],
        n_rounds: int,
        stack: ExitStack,
    ) -> None:
        """Compare the candidates that run already, and new ones."""
        for candidate in new:
            if candidate in self.left_out:
                continue
            self._report(f"Starting {candidate.describe()}")
            trial = self.start(candidate, stack)
            if trial is not None:
                trials[candidate] = trial
        self._report(f"Measuring {len(trials)} in turn")
        self.compare(trials, n_rounds)
        if not trials:
            reasons = "; ".join(dict.fromkeys(self.left_out.values()))
            raise ValueError(
                f"no sampler can run this task here, with the settings that were given: {reasons}"
            )

    def _keep_best(self, trials: dict[Candidate, Trial], factor: float, n: int) -> None:
        """Order the candidates, fastest first, and end candidates that are slower by a factor.

        Args:
            trials: measurements of the candidates.
            factor: largest ratio to the fastest time for a candidate to be kept.
            n: number of candidates to keep at most.
        """
        ranked = sorted(trials, key=self.sampling_time)
        limit = factor * self.sampling_time(ranked[0])
        for rank, candidate in enumerate(ranked):
            trial = trials.pop(candidate)
            if rank < n and self.sampling_time(candidate) <= limit:
                trials[candidate] = trial  # After the faster ones.
            else:
                trial.close()

    def _is_near(self, candidate: Candidate, best: Candidate) -> bool:
        """Return whether a candidate is a neighbour of the best one in workers and ``batch_B``."""
        if candidate.sampler != best.sampler:
            return False
        pairs = ((candidate.workers, best.workers), (candidate.batch_B, best.batch_B))
        ratios = [max(pair) / max(1, min(pair)) for pair in pairs]
        return max(ratios) <= 2 and candidate != best

    # --- Whole runs ------------------------------------------------------------------------------

    def train(self, candidates: Sequence[Candidate], n_rounds: int = 3) -> dict[Candidate, RunTime]:
        """Measure whole runs in turn; return the median times of an environment step.

        Runs that fail, or take much longer than the first one to start, are left out.
        """
        times: dict[Candidate, list[RunTime]] = {}
        limit_s = 3 * self.limit_s
        torch.optim.SGD([torch.zeros(1)])  # Imports take seconds, which forked processes save.
        with ExitStack() as stack:
            trials: dict[Candidate, Trial] = {}
            for candidate in candidates:
                self._report(f"Training with {candidate.describe()}")
                begin = time.monotonic()
                trial = self._start(candidate, stack, limit_s, training)
                if trial is not None:
                    trials[candidate] = trial
                    limit_s = min(limit_s, max(3.0, 4 * (time.monotonic() - begin)))
            self._in_turn(trials, n_rounds, times, 2 * self.slice_s, 3 * self.limit_s)
        return {
            candidate: RunTime(*(statistics.median(part) for part in zip(*each)))
            for candidate, each in times.items()
        }

    def variants(self, candidate: Candidate) -> list[Candidate]:
        """Return the candidate, and the same on every other device."""
        found = [
            candidate._replace(threads=threads, gpu=gpu)
            for gpu in self._gpus
            for threads in self._threads
        ]
        return list(dict.fromkeys([candidate, *found]))


def _last_line(error: BaseException) -> str:
    """Return the last line of a message: after a traceback, the error itself."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
