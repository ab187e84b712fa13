"""Commands on finished runs: evaluate, watch, verify, diagnose, export, plot and compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from tabulate import tabulate

from rlpyt.experiments import evaluation
from rlpyt.experiments.cli import COUNT, is_given, main, without_traceback
from rlpyt.experiments.health import report
from rlpyt.experiments.results.comparison import number_text
from rlpyt.experiments.results.pictures import plot_results
from rlpyt.experiments.results.runs import write_rows
from rlpyt.experiments.results.statistics import STATISTICS
from rlpyt.experiments.results.suites import SUITES


@main.command()
@click.argument("path", metavar="RUN|SNAPSHOT|zoo:NAME", type=click.Path())
@click.option("--episodes", type=COUNT, default=10, help="Exact number of episodes.")
@click.option("--seed", type=int, help="Seed for all random numbers; drawn by default.")
@click.option(
    "--csv", "file", type=click.Path(), help="Table of the episodes; else beside a run's snapshot."
)
def evaluate(path: str, episodes: int, seed: int | None, file: str | None) -> None:
    """Play episodes with a trained agent and print their statistics."""
    with without_traceback():
        saved = evaluation.load_agent(path)
        infos = evaluation.evaluate(saved, episodes, seed)
        click.echo(_table(infos))
        if file is None and not path.startswith("zoo:"):
            file = str(saved.file.with_name(f"{saved.file.stem}_evaluation.csv"))
        if file is not None:
            names = [name for name in infos[0] if not name.startswith("_")]
            write_rows(file, names, ([info[name] for name in names] for info in infos))
    click.echo(f"\n{len(infos)} episodes of {saved.file}" + (f": {file}" if file else ""))


@main.command()
@click.argument("path", metavar="RUN|SNAPSHOT|zoo:NAME", type=click.Path())
@click.option("--video", type=click.Path(), help="File, .mp4 or .gif; else a window.")
@click.option("--episodes", type=COUNT, default=1, help="Number of episodes.")
@click.option("--seed", type=int, help="Seed for all random numbers; drawn by default.")
@click.option("--max-frames", type=COUNT, default=10_000, help="Largest number of pictures.")
@click.option("--shrink", type=COUNT, default=1, help="Divide height and width by this number.")
def watch(
    path: str, video: str | None, episodes: int, seed: int | None, max_frames: int, shrink: int
) -> None:
    """Show a trained agent in a window, or write a video of it.

    \b
    rlpyt watch runs/cartpole/run_0
    rlpyt watch runs/cartpole/run_0 --video cartpole.gif --max-frames 100 --shrink 3
    """
    with without_traceback():
        given = [f"--{x}" for x in ("max-frames", "shrink") if is_given(x.replace("-", "_"))]
        if given and video is None:
            raise ValueError(f"{' and '.join(given)}: this is for videos, so add --video FILE.gif")
        saved = evaluation.load_agent(path)
        infos = evaluation.watch(saved, episodes, video, seed, max_frames, shrink)
    click.echo(_table(infos) if infos else "No episode has ended.")
    if video is not None:
        click.echo(f"\nVideo: {video}")


@main.command()
@click.argument("run", type=click.Path())
@click.option("--intervals", type=COUNT, default=3, help="Number of intervals to compute again.")
@click.option("--seed", type=int, help="Seed that chooses them; drawn by default.")
def verify(run: str, intervals: int, seed: int | None) -> None:
    """Compute parts of RUN again; if they differ from its log, the exit code is 1.

    \b
    rlpyt train ppo CartPole-v1 --log-dir runs/ppo --checkpoint-steps 1e4 --keep-checkpoints
    rlpyt verify runs/ppo/run_0

    A part is what lies between two checkpoints. Its log rows, but for times, and the whole state
    after it must be equal to the last digit. RUN/verify.json records the verdict.
    """
    from rlpyt.experiments import verification

    with without_traceback():
        verdict = verification.verify(run, intervals, seed)
    click.echo(verdict.text())
    if verdict.differences:
        raise SystemExit(1)


@main.command()
@click.argument("run", metavar="RUN|zoo:NAME", type=click.Path())
def diagnose(run: str) -> None:
    """Say what is wrong with RUN, since when, and what to try, in at most ten lines.

    \b
    rlpyt diagnose runs/ppo/run_0
    """
    with without_traceback():
        click.echo(report(run))


@main.command()
@click.argument("path", metavar="RUN|SNAPSHOT|zoo:NAME", type=click.Path())
@click.argument("file", type=click.Path(dir_okay=False))
def export(path: str, file: str) -> None:
    """Write the policy of a trained agent to FILE, as one graph.

    \b
    rlpyt export runs/cartpole/run_0 cartpole.onnx   # for ONNX Runtime
    rlpyt export runs/cartpole/run_0 cartpole.pt2    # for torch.export.load
    """
    from rlpyt.experiments.trained import load

    with without_traceback():
        graph = load(path).export(file)
    rows = [
        (kind, name, str(example.dtype).removeprefix("torch."), graph.shape(name))
        for kind, examples in (("input", graph.inputs), ("output", graph.outputs))
        for name, example in examples.items()
    ]
    click.echo(tabulate(rows, headers=("", "name", "type", "shape")))
    click.echo(f"\nPolicy: {file}")


@main.command()
@click.argument("directories", nargs=-1, required=True)
@click.option("--output", default="plots", help="Directory of the pictures.")
@click.option("--by", multiple=True, help="Parameter that distinguishes curves; may be repeated.")
@click.option("--task", help="Parameter that names the task; the environment by default.")
@click.option("--suite", type=click.Choice(list(SUITES)), help="Suite with published scores.")
@click.option("--column", "y", help="Column of the log to plot; ReturnAverage by default.")
@click.option("--smooth", type=COUNT, default=1, help="Number of log rows in the moving mean.")
@click.option("--baseline", help="Label to compare the others with; by default the first.")
@click.option("--x", help="Column of the horizontal axis; by default environment steps.")
@click.option("--statistic", type=click.Choice(list(STATISTICS)), help="Of the runs; else iqm.")
@click.option("--confidence", type=float, help="Probability of the intervals; 0.95 by default.")
@click.option("--min-steps", type=float, help="Leave out runs that end earlier.")
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="TASK=LOW:HIGH",
    help="Scores of a task that become 0 and 1 when tasks are compared together.",
)
@click.option("--title", default="", show_default=False, help="Title of the pictures.")
@click.option("--runs", is_flag=True, help="Draw single runs too.")
def plot(
    directories: tuple[str, ...],
    output: str,
    by: tuple[str, ...],
    task: str | None,
    ranges: tuple[str, ...],
    title: str,
    runs: bool,
    **options: Any,
) -> None:
    """Compare runs, settings or sweeps in pictures: curves over seeds, profiles, improvement.

    \b
    rlpyt plot data/my_sweep --smooth 3
    rlpyt plot PPO=runs/ppo A2C=runs/a2c --output figures
    rlpyt plot DER=runs/der --suite atari_100k
    """
    with without_traceback():
        given = {name: value for name, value in options.items() if value is not None}
        for word in ranges:
            name, _, limits = word.rpartition("=")
            try:
                low, high = map(float, limits.split(":"))
            except ValueError as error:
                example = "as in pong=-20.7:14.6"
                raise ValueError(f"--range {word}: give TASK=LOW:HIGH, {example}") from error
            given.setdefault("score_ranges", {})[name] = low, high
        comparison, files = plot_results(
            directories, output, by, task, ("png", "svg"), title, runs, **given
        )
    click.echo(comparison.table())
    click.echo("\n" + "\n".join(str(file) for file in files))


@main.command()
@click.argument("runs", type=click.Path())
@click.argument("baseline", type=click.Path())
@click.option("--tolerance", default=0.1, help="Loss that does not matter, as part of the range.")
@click.option("--column", "y", default="ReturnAverage", help="Column of the log to compare.")
@click.option("--score-fraction", default=0.5, help="Last part of steps, to average scores over.")
@click.option("--confidence", default=0.95, help="Probability of all intervals together.")
@click.option("--paired", is_flag=True, help="Compare runs of equal seed, such as branches.")
@click.option("--until", type=float, help="Train further seeds until the test has this confidence.")
@click.option("--max-seeds", type=COUNT, default=20, help="Largest number of seeds with --until.")
def compare(runs: str, baseline: str, until: float | None, max_seeds: int, **options: Any) -> None:
    """Find out whether RUNS learn worse than BASELINE; if they do, the exit code is 1.

    \b
    rlpyt compare runs/new runs/old          # the same settings, before and after a change
    rlpyt compare runs/new runs/old --until 0.95   # with as many seeds as it takes

    Runs are compared on each task, which is the path below the directory, and on all tasks. They
    are worse if the interval of P(improvement), the probability that a run scores more than one of
    the baseline, lies below 0.5, and the effect (the difference of interquartile means, in units of
    the range of the baseline's curve) is below -TOLERANCE. Few seeds reveal only large losses.
    With --paired each run is compared with the run of its seed, and the effect is the interquartile
    mean of the differences. With --until, seeds are trained one by one, with the settings in both
    directories, until the scores differ; without a difference that happens with a probability of 1
    - UNTIL at most, over all seeds. Finished runs are not repeated.
    """
    from rlpyt.experiments import gate

    if until is not None:
        from rlpyt.experiments.until import compare_until

        given = [name for name in ("tolerance", "confidence", "paired") if is_given(name)]
        with without_traceback():
            if given:
                raise ValueError(f"--until has its own test: leave out --{', --'.join(given)}")
            if "zoo:" in (runs[:4], baseline[:4]):
                raise ValueError("--until trains further seeds: give runs of your own, no zoo:NAME")
            kept = {name: options[name] for name in ("y", "score_fraction")}
            verdict = compare_until(runs, baseline, until, max_seeds, **kept, tell=click.echo)
        click.echo(verdict)
        raise SystemExit(int(verdict == "worse"))
    with without_traceback():
        lines, notes = gate.compare(runs, baseline, **options)
    click.echo("\n".join([gate.table(lines), *notes]))
    if any(line.is_worse for line in lines):
        raise SystemExit(1)


def _table(infos: Sequence[Any]) -> str:
    rows = [
        {"": name, **{key: number_text(x) for key, x in row.items()}}
        for name, row in evaluation.statistics(infos).items()
    ]
    return str(tabulate(rows, headers="keys", floatfmt=".7g"))
