"""Runs as objects of a program, made by name (:func:`train`) or read (:class:`Run`)."""

from __future__ import annotations

import csv
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path, PosixPath
from signal import SIGINT
from typing import Any

import gymnasium

from rlpyt.core.protocols import RunnerLike
from rlpyt.experiments import evaluation
from rlpyt.experiments.catalog import located
from rlpyt.experiments.program import source
from rlpyt.experiments.results.runs import read_columns, read_params
from rlpyt.experiments.settings import ROLES, SECTIONS, checked, with_settings
from rlpyt.experiments.start import (
    check_same_run,
    origin_of,
    recorded,
    run_calls,
    run_name,
    train_run,
)
from rlpyt.experiments.train import check_environment, check_steps, starting_point, with_steps
from rlpyt.experiments.trained import TrainedAgent, load
from rlpyt.runners.callbacks import Callback
from rlpyt.runners.checkpointing import StopSignals
from rlpyt.utils.files import make_parent
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.quick_args import whole_number
from rlpyt.utils.seed import make_seed
from rlpyt.utils.types import NDArray


def train(
    algorithm: str,
    environment: Any = None,
    steps: float | None = None,
    seed: int | None = None,
    log_dir: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Any] = (),
    init: str | Path | None = None,
    **settings: Any,
) -> Run:
    """Train an algorithm on an environment, as the command ``rlpyt train`` does.

    ::

        run = rlpyt.train("ppo", "CartPole-v1", steps=1e5, learning_rate=3e-4, seed=0)
        run = rlpyt.train("sac", MyEnv, sampler="cpu", algo={"replay_ratio": 128})

    An interrupt (Ctrl-C) ends the run after its present iteration; what it has is returned.

    Args:
        algorithm: algorithm, or entry of a table, such as "atari_dqn/double".
        environment: id of gymnasium, name of an Atari game, or a class of gymnasium or of this
            library; None for the environment of the entry.
        steps: environment steps of the run; None for the number in the entry.
        seed: seed for all random numbers; drawn if None.
        log_dir: directory of the log; None for a new one, named after the time.
        resume: whether to save checkpoints in ``log_dir``, and to continue from the latest.
        callbacks: callbacks of the runner.
        init: run, snapshot or ``zoo:NAME`` to start with the weights of; None for random ones.
        **settings: settings by name: of one part, such as ``learning_rate``; of a section, as in
            ``model={"hidden_sizes": [64]}``; or a role, as in ``sampler="cpu"``, or a class of your
            own: ``algo=MyPPO``.

    Raises:
        ValueError: if a name is unknown, with the closest ones, or a value has the wrong type, or
            ``log_dir`` has the log of another run.
    """
    if not isinstance(callbacks, Sequence):
        raise TypeError(f"callbacks={callbacks!r} is no list: give [{type(callbacks).__name__}()]")
    name = None if environment is None else _environment_name(environment)
    config = starting_point(algorithm, name)
    if steps is not None:
        config = with_steps(config, steps)
    config = with_settings(config, _pairs(settings))
    check_environment(algorithm, config)
    config = checked(config)
    check_steps(config, steps)
    if seed is not None:
        seed = whole_number("seed", seed, at_least=-(2**63), rounds_down=False)
    if resume and log_dir is None:
        raise ValueError("resume=True needs the log_dir of the run")
    directory = None if log_dir is None else str(log_dir)
    earlier, origin = recorded(directory, 0), {} if init is None else {"init": str(init)}
    if earlier is not None:
        run_dir = Path(str(directory), "run_0")
        check_same_run({**config, **origin}, earlier, run_dir, resume, seed)
        seed, origin = earlier["seed"], origin_of(earlier)
    seed = make_seed() if seed is None else seed
    runner, log = run_calls(config, seed, directory, resume=resume, more_params=origin)
    # With checkpoints the runner itself ends at an interrupt, and leaves by SystemExit.
    further = [*callbacks, *([] if resume else [_StopOnInterrupt()])]
    saving: dict[str, Any] = {"resume": "auto"} if resume else {}
    try:
        return Run(train_run(runner, log, further, **saving))
    except SystemExit as end:
        if end.code != 128 + SIGINT:
            raise
        return Run(Path(str(directory), "run_0"))


class _StopOnInterrupt(Callback):
    """Callback that ends the run at the first interrupt, with a log row and a snapshot."""

    _signals = StopSignals(())

    def on_start(self, runner: RunnerLike) -> None:
        supervisor = getattr(runner, "supervisor", None)
        self._signals = StopSignals(
            (SIGINT,),
            is_failure=lambda: supervisor is not None and supervisor.has_interrupted,
            on_request=lambda: "Ending the run after the current iteration.",
        )
        self._signals.__enter__()

    def on_itr(
        self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        if self._signals.received is not None:
            runner.stop()

    def on_end(self, runner: RunnerLike) -> None:
        self._signals.__exit__()


def _pairs(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if name in SECTIONS and isinstance(value, Mapping):
            yield from ((f"{name}.{key}", part) for key, part in value.items())
        elif name == "env":
            yield name, _environment_name(value)
        elif name in ROLES and isinstance(value, type):
            yield name, f"{value.__module__}.{value.__qualname__}"
        elif name in ROLES and not isinstance(value, (str, Mapping)):
            raise TypeError(
                f"{name}={value!r} is an object: give its class or name, and its arguments as "
                "settings; objects are for runners, as in print(run.program())"
            )
        else:
            yield name, value


def _environment_name(environment: Any) -> str:
    """Return the name of an environment.

    A class of gymnasium has the name ``module:Class``; one that other programs cannot import is
    registered under a name of this program.
    """
    if isinstance(environment, str):
        return environment
    if not hasattr(environment, "__qualname__"):
        raise TypeError(
            f"environment={environment!r} is an object, but every process makes its own: give the "
            "id or the class"
        )
    if not isinstance(environment, type) or not issubclass(environment, gymnasium.Env):
        return f"{environment.__module__}.{environment.__qualname__}"
    EnvCls: Any = environment
    module, name = EnvCls.__module__, EnvCls.__name__
    if module != "__main__" and getattr(sys.modules[module], name, None) is EnvCls:
        return f"{module}:{name}"
    env_id = f"program/{name}-v0"
    if env_id in gymnasium.registry:
        del gymnasium.registry[env_id]  # A notebook defines its classes again and again.
    gymnasium.register(env_id, entry_point=EnvCls)
    return env_id


def _png(figure: Any) -> bytes:
    """Return a figure as a notebook shows it."""
    picture = BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


class Video(PosixPath):
    """Path of a video, which a notebook shows."""

    def _repr_html_(self) -> str:
        data = b64encode(self.read_bytes()).decode()
        if self.suffix == ".gif":
            return f'<img src="data:image/gif;base64,{data}">'
        return f'<video controls src="data:video/mp4;base64,{data}"></video>'


class Run:
    """A run: its log, its agent, and what they are good for.

    Args:
        directory: directory of the run, which has ``progress.csv`` and ``params.json``; or
            ``zoo:NAME``.

    Attributes:
        directory: the directory, as a ``Path``.

    Raises:
        FileNotFoundError: if there is no such run.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = located(directory)
        if not (self.directory / "params.json").is_file():
            raise FileNotFoundError(
                f"directory={str(directory)!r} has no params.json: give the directory of a run"
            )

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r})"

    @property
    def progress(self) -> dict[str, NDArray]:
        """The columns of the log so far, by name: arrays [rows], nan where there is no number."""
        file = self.directory / "progress.csv"
        with file.open(newline="", encoding="utf-8") as opened:
            names = next(csv.reader(opened), [])
        return dict(zip(names, read_columns(file, *names)))

    @cached_property
    def agent(self) -> TrainedAgent:
        """The trained agent, whose method ``act`` chooses actions in your own loop."""
        return load(self.directory)

    def plot(self, y: str = "ReturnAverage", file: str | Path | None = None) -> Any:
        """Draw a column of the log against environment steps.

        Args:
            y: column of the vertical axis.
            file: picture to write; None to leave it out.

        Returns:
            A figure of matplotlib, which a notebook shows.
        """
        from rlpyt.experiments.results.comparison import Comparison
        from rlpyt.experiments.results.pictures import draw_curves
        from rlpyt.experiments.results.runs import LoggedRun

        csv_file, label = self.directory / "progress.csv", self.params["name"]
        figure = draw_curves(Comparison([LoggedRun(csv_file, label)], y), show_runs=True)
        if file is not None:
            figure.savefig(make_parent(file))
        figure._repr_png_ = partial(_png, figure)
        return figure

    def evaluate(self, n_episodes: int = 100, seed: int | None = None) -> dict[str, Any]:
        """Return mean, std, min, median and max of each statistic, such as ``"Return"``.

        Args:
            n_episodes: number of episodes.
            seed: seed for all random numbers; drawn if None.
        """
        infos = evaluation.evaluate(evaluation.load_agent(self.directory), n_episodes, seed)
        return evaluation.statistics(infos)

    def video(self, file: str | Path, n_episodes: int = 1, seed: int | None = None) -> Path:
        """Write episodes of the agent to ``file``, .mp4 or .gif.

        Returns:
            The path of the file, which a notebook shows as the video.
        """
        evaluation.watch(evaluation.load_agent(self.directory), n_episodes, file, seed)
        return Video(file)

    def export(self, file: str | Path) -> Any:
        """Write the policy as one graph, .onnx or .pt2; see :mod:`rlpyt.experiments.export`."""
        return self.agent.export(file)

    @cached_property
    def params(self) -> dict[str, Any]:
        """The parameters that the run recorded."""
        return read_params(self.directory / "params.json")

    def program(self) -> str:
        """Return the program that makes the same run of roles and constructors."""
        config, seed = checked(evaluation.configuration_in(self.directory)), self.params["seed"]
        if "branch" in self.params:
            raise ValueError(
                f"{self.directory} is a branch, which continues {self.params['branch']['run']}: "
                "take the program of that run"
            )
        log_dir, origin = get_log_dir(run_name(config)), origin_of(self.params)
        runner, log = run_calls(config, seed, log_dir, more_params=origin)
        return source(runner, log.kwargs, {}, f"The program of {self}.")
