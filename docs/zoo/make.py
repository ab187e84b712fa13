"""Make the zoo from finished runs: ``rlpyt/zoo``, and the table and the picture of this page.

    python docs/zoo/make.py RUNS

``agents.csv`` has the command of each agent. A run that ``RUNS/<name>/run_0`` lacks is trained. An
entry ``rlpyt/zoo/<name>``, which is made only once, has ``params.json`` and ``progress.csv`` of its
run, a snapshot ``record.json`` with its commit
and 100 episodes, and ``verify.json`` if the run has kept its checkpoints.
"""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from rlpyt.experiments import evaluation, verification
from rlpyt.experiments.catalog import ZOO
from rlpyt.experiments.results.comparison import Comparison
from rlpyt.experiments.results.pictures import draw_curves
from rlpyt.experiments.results.runs import LoggedRun

HERE = Path(__file__).parent
PAGE = HERE.with_suffix(".md")
EPISODES = 100


def commands() -> dict[str, str]:
    """Return the command that trained each agent, by the name of the agent."""
    with open(HERE / "agents.csv", newline="", encoding="utf-8") as file:
        return {row["agent"]: row["command"] for row in csv.DictReader(file)}


def train(command: str, directory: Path) -> None:
    """Train a run, and write the commit beside it."""
    words = [*shlex.split(command), "--log-dir", str(directory)]
    subprocess.run([sys.executable, "-m", *words], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=HERE)
    (directory / "commit").write_text(commit.stdout)


def small(tensor: Any) -> Any:
    """Return a float32 tensor in float16, unless a value is beyond its range."""
    if not torch.is_tensor(tensor) or tensor.dtype != torch.float32:
        return tensor
    half = tensor.half()
    return half if half.isfinite().all() else tensor


def take_in(run: Path, entry: Path) -> None:
    """Copy a run into the zoo."""
    if (run / "checkpoints").exists() and not (run / verification.RECORD).exists():
        print(verification.verify(run, n_intervals=1, seed=0).text())
    shutil.rmtree(entry, ignore_errors=True)
    entry.mkdir(parents=True)
    for name in ("params.json", "progress.csv", verification.RECORD):
        if (run / name).exists():
            shutil.copy(run / name, entry / name)
    snapshot = evaluation.load_snapshot(evaluation.find_snapshot(run))
    state = snapshot["agent_state_dict"]
    model = {name: small(part) for name, part in state.get("model", state).items()}
    kept = {
        name: snapshot[name] for name in ("itr", "cum_steps", "env_statistics") if name in snapshot
    }
    torch.save({**kept, "agent_state_dict": model}, entry / "params.pkl")
    infos = evaluation.evaluate(evaluation.load_agent(entry), EPISODES, seed=0)
    record = {
        "steps": snapshot["cum_steps"],
        "commit": (run.parent / "commit").read_text().strip(),
        "episodes": EPISODES,
        **evaluation.statistics(infos)["Return"],
    }
    (entry / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def row(name: str, command: str) -> str:
    """Return the row of an agent in the table."""
    entry = ZOO / name
    record = json.loads((entry / "record.json").read_text(encoding="utf-8"))
    half_width = 1.96 * record["std"] / EPISODES**0.5
    verified = "-"
    if (entry / verification.RECORD).exists():
        found = json.loads((entry / verification.RECORD).read_text(encoding="utf-8"))
        verified = "yes" if found["verified"] else "no"
    size = (entry / "params.pkl").stat().st_size / 1000
    returns = f"{record['mean']:.4g} ± {half_width:.1f} | {record['min']:.4g}"
    return (
        f"| `{name}` | {record['steps']:,} | {returns} | {verified} | {size:.0f} "
        f"| `{record['commit'][:8]}` | `{command}` |\n"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    agents = commands()
    for name, command in agents.items():
        run = Path(sys.argv[1], name, "run_0")
        if not (ZOO / name / "record.json").exists():
            if not run.exists():
                train(command, run.parent)
            take_in(run, ZOO / name)
    head = (
        "| agent | steps | return | lowest | verified | kB | commit | command |\n"
        + "|---" * 8
        + "|\n"
    )
    rows = [row(name, command) for name, command in agents.items()]
    before, mark, _ = PAGE.read_text(encoding="utf-8").partition("<!-- agents -->\n")
    PAGE.write_text(before + mark + "\n" + head + "".join(rows), encoding="utf-8")
    files = [(ZOO / name / "progress.csv", *name.split("/", 1)) for name in agents]
    curves = Comparison([LoggedRun(*each) for each in files])
    draw_curves(curves, show_runs=True).savefig(HERE / "curves.png", dpi=80)
