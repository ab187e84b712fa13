"""The search for the fastest settings, which measures candidates in turn and drops slow ones.

The machine may become faster or slower meanwhile; measurements in turn, in short slices, stay
comparable. The search begins with two sizes of each sampler, and adds neighbours of the fastest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from itertools import product

import torch

from rlpyt.experiments import settings
from rlpyt.experiments.catalog import ENVIRONMENTS, SAMPLERS, load, targets, vector_sampler
from rlpyt.experiments.doctor.trials import Candidate, RunTime, StepTime, Trial, step_time
from rlpyt.experiments.program import make_affinity
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
        step: time and memory of the environment alone.
        times: measured times of each candidate, slice by slice.
        left_out: reasons why candidates cannot be measured.
    """

    step: StepTime

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
        kept = ("n_steps", "log_interval_steps")
        runner = {name: x for name, x in config["runner"].items() if name in kept}
        affinity = dict(config["affinity"])
        affinity.pop("processes", None)
        gpus = affinity.pop("gpus", None)
        self._base = changed(
            {**config, "runner": runner, "affinity": affinity},
            roles={"runner": "minibatch"},
            sampler={"eval_n_envs": 0, "max_decorrelation_steps": 0},
        )
        self._gpus: list[int | None] = [None, 0] if self.machine.n_gpus else [None]
        if "affinity.gpus" in self.given:
            self._gpus = [gpus] if isinstance(gpus, int) else (gpus or [None])[:1]
        threads = affinity.get("threads")
        self._threads = [threads] if threads else sorted({1, torch.get_num_threads()})
        sizes = int(config["sampler"]["batch_T"]), int(config["sampler"]["batch_B"])
        n_workers = 0
        if sampler in PARALLEL:
            found = make_affinity("minibatch", sampler, sizes[1], **affinity)["workers_cpus"]
            n_workers = len(found) if isinstance(found, list) else found
        self.as_given = Candidate(sampler, n_workers, *sizes, self._threads[-1], self._gpus[0])
        self.has_replay = "replay_ratio" in settings.parameters(targets(config)["algo"])[0]
        self.times: dict[Candidate, list[RunTime]] = {}
        self.left_out: dict[Candidate, str] = {}

    # --- Candidates ------------------------------------------------------------------------------

    def candidates(self) -> list[Candidate]:
        """Return all combinations of samplers, workers and ``batch_B``; some may be impossible."""
        samplers = [self.as_given.sampler] if "sampler" in self.given else ON_ONE_MACHINE
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
        if "sampler.batch_T" in self.given or load(targets(self.config)["agent"]).recurrent:
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
        """Return the configuration to measure a candidate with."""
        words = list(candidate.words().values())
        settings.checked(settings.overridden(self.config, words))
        needed = max(candidate.workers, 1) * self.step.memory
        if needed > 0.8 * self.machine.memory:
            raise ValueError(f"needs about {needed / 2**30:.1f} GiB of memory")
        base = settings.with_roles(self._base, sampler=candidate.sampler)
        return settings.checked(settings.overridden(base, words))

    # --- Measurements ----------------------------------------------------------------------------

    def measure_environment(self) -> None:
        """Measure the environment alone, for the length of batches and the memory of workers."""
        # A class of the user may make only vectors.
        role = self.config["roles"].get("env", "gym")
        in_vectors = role not in ENVIRONMENTS or vector_sampler(role) is not None
        sampler = "vector" if in_vectors and self.as_given.sampler == "vector" else "serial"
        self._report("The environment alone")
        alone = settings.checked(settings.with_roles(self._base, sampler=sampler))
        self.step = step_time(alone, self.slice_s)

    def start(
        self,
        candidate: Candidate,
        stack: ExitStack,
        trains: bool = False,
        limit_s: float | None = None,
    ) -> Trial | None:
        """Start a candidate, and wait until it is ready; None if it is left out."""
        batch_T = None
        if not trains:  # A batch may be shorter than in the run.
            at_once = max(1, min(candidate.workers, self.machine.n_cpus))
            per_row = self.step.seconds * candidate.batch_B / at_once
            batch_T = max(1, min(candidate.batch_T, round(self.slice_s / per_row)))
        try:
            with ExitStack() as started:  # Ends candidates at once that do not become ready.
                trial = Trial(self.configuration(candidate), batch_T)
                started.enter_context(closing(trial))
                trial.measure(0, limit_s or self.limit_s)  # The first iteration, of no account.
                stack.push(started.pop_all())
        except (ValueError, TypeError, WorkerError, OSError) as error:
            self._leave_out(candidate, error)
            return None
        return trial

    def compare(
        self,
        trials: dict[Candidate, Trial],
        n_rounds: int,
        times: dict[Candidate, list[RunTime]] | None = None,
        n_slices: int = 1,
    ) -> None:
        """Measure candidates in turn, several times; candidates that fail are taken out."""
        times = self.times if times is None else times
        for _ in range(n_rounds):
            for candidate, trial in list(trials.items()):
                try:
                    time = trial.measure(n_slices * self.slice_s, n_slices * self.limit_s)
                except (WorkerError, TimeoutError) as error:
                    self._leave_out(candidate, error)
                    times.pop(candidate, None)
                    trials.pop(candidate).close()
                else:
                    times.setdefault(candidate, []).append(time)

    def _leave_out(self, candidate: Candidate, error: BaseException) -> None:
        """Note the last line of a message: after a traceback, the error itself."""
        self.left_out[candidate] = (str(error).strip() or type(error).__name__).splitlines()[-1]

    def sampling_time(self, candidate: Candidate) -> float:
        """Return the median measured time of an environment step, in seconds."""
        return statistics.median(time.sampling for time in self.times[candidate])

    # --- The search ------------------------------------------------------------------------------

    def search(self) -> list[Candidate]:
        """Return the candidates that were not dropped, the fastest first."""
        everything = self.candidates()
        everything.sort(key=lambda each: (-each.batch_B, abs(each.workers - self.machine.n_cpus)))
        new = [self.as_given]
        for sampler, gpu in product(ON_ONE_MACHINE, self._gpus):
            of_kind = [each for each in everything if (each.sampler, each.gpu) == (sampler, gpu)]
            new += of_kind[:1]
            # Environments that sleep need more workers than there are CPUs.
            new += sorted(of_kind[1:], key=lambda each: -each.workers)[:1]
        trials: dict[Candidate, Trial] = {}
        with ExitStack() as stack:
            for factor in (2.0, 1.5):
                self._narrow(trials, new, factor, 8, 3, stack)
                best = list(trials)[:2]
                new = [each for each in everything if any(_are_near(each, b) for b in best)]
                for each in best:
                    if each.sampler != "cpu" and each.gpu is None:
                        new += [each._replace(threads=threads) for threads in self._threads]
            self._narrow(trials, new, 1.3, 4, 3, stack)
            self._narrow(trials, (), 1.3, 3, 8, stack)
        return list(trials)

    def _narrow(
        self,
        trials: dict[Candidate, Trial],
        new: Iterable[Candidate],
        factor: float,
        n: int,
        n_rounds: int,
        stack: ExitStack,
    ) -> None:
        """Compare those that run, and new ones; keep ``n`` within a factor of the best."""
        for candidate in dict.fromkeys(new):
            if candidate not in self.times and candidate not in self.left_out:
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
        ranked = sorted(trials, key=self.sampling_time)
        limit = factor * self.sampling_time(ranked[0])
        for rank, candidate in enumerate(ranked):
            trial = trials.pop(candidate)
            if rank < n and self.sampling_time(candidate) <= limit:
                trials[candidate] = trial  # After the faster ones.
            else:
                trial.close()

    def train(self, candidates: Sequence[Candidate], n_rounds: int = 3) -> dict[Candidate, RunTime]:
        """Measure whole runs in turn; return the median times of an environment step.

        Runs that fail, or take much longer than the first one to start, are left out.
        """
        times: dict[Candidate, list[RunTime]] = {}
        trials: dict[Candidate, Trial] = {}
        limit_s = 3 * self.limit_s
        torch.optim.SGD([torch.zeros(1)])  # Imports take seconds, which forked processes save.
        with ExitStack() as stack:
            for candidate in candidates:
                self._report(f"Training with {candidate.describe()}")
                begin = time.monotonic()
                trial = self.start(candidate, stack, True, limit_s)
                if trial is not None:
                    trials[candidate] = trial
                    limit_s = min(limit_s, max(3.0, 4 * (time.monotonic() - begin)))
            self.compare(trials, n_rounds, times, n_slices=2)
        return {
            candidate: RunTime(*(statistics.median(part) for part in zip(*each)))
            for candidate, each in times.items()
        }

    def variants(self, candidate: Candidate) -> list[Candidate]:
        """Return the candidate, and the same on every other device."""
        pairs = product(self._threads, self._gpus)
        return [candidate, *(candidate._replace(threads=n, gpu=gpu) for n, gpu in pairs)]


def _are_near(candidate: Candidate, best: Candidate) -> bool:
    """Return whether a candidate is a neighbour of the best one in workers and ``batch_B``."""
    pairs = ((candidate.workers, best.workers), (candidate.batch_B, best.batch_B))
    return candidate.sampler == best.sampler and all(
        max(pair) <= 2 * max(1, min(pair)) for pair in pairs
    )
