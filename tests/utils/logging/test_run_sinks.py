import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import code_version, logger_context
from rlpyt.utils.logging.services import MlflowSink, WandbSink
from rlpyt.utils.logging.sinks import JsonLinesSink, RunInfo, RunSink


class FakeService(RunSink):
    """Sink that keeps what it is given."""

    def __init__(self):
        self.runs, self.rows, self.videos = [], [], []

    def open(self, run):
        self.runs.append(run)

    def write_row(self, row, step):
        self.rows.append((row, step))

    def write_video(self, key, path, step):
        self.videos.append((key, path, step))


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_row(itr, **row):
    logger.set_iteration(itr)
    for key, value in row.items():
        logger.record_tabular(key, value)
    logger.dump_tabular()


def test_a_sink_learns_of_its_run(tmp_path):
    sink, inner = FakeService(), FakeService()
    params = {"algo": {"lr": 0.1, "Cls": dict}}
    with logger_context(tmp_path, 3, "dqn", params, override_prefix=True, sinks=[sink]):
        write_row(7, loss=1.5)
        (tmp_path / "a.mp4").touch()
        with logger.tabular_prefix("eval/"):
            logger.record_video("episode", tmp_path / "a.mp4")
        with logger_context(tmp_path, 4, "inner", override_prefix=True, sinks=[inner]):
            write_row(1, loss=-1)
    (run,) = sink.runs
    assert (run.directory, run.name, run.run_ID) == (str(tmp_path / "run_3"), "dqn", 3)
    assert run.params == {"algo": {"lr": 0.1, "Cls": "type"}, "name": "dqn", "run_ID": 3}
    assert not run.resume
    assert sink.rows == [({"loss": 1.5}, 7)]
    assert sink.videos == [("eval/episode", str(tmp_path / "a.mp4"), 7)]
    assert inner.rows == [({"loss": -1}, 1)]


def test_unknown_or_missing_sinks_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    def enter(name):
        with logger_context(tmp_path, 0, "a", override_prefix=True, sinks=[name]):
            pass

    with pytest.raises(ValueError, match="'wandd' must be a sink or one of tensorboard, jsonl"):
        enter("wandd")
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=rf"pip install 'rlpyt\[{name}\]'"):
            enter(name)
    assert list(tmp_path.iterdir()) == []


def test_a_sink_that_cannot_open_does_not_end_the_run(tmp_path):
    class Broken(RunSink):
        def open(self, run):
            raise OSError("no connection")

    other = FakeService()
    with logger_context(tmp_path, 0, "a", override_prefix=True, sinks=[Broken(), other]):
        write_row(0, a=1)
    text = (tmp_path / "run_0" / "debug.log").read_text()
    assert text.count("OSError: no connection") == 1
    assert len(other.rows) == 1


# JSON lines.


def test_json_lines(tmp_path):
    with logger_context(tmp_path, 0, "a", {"lr": 1}, override_prefix=True, sinks=["jsonl"]):
        write_row(0, a=np.float32(0.5), b=float("nan"), c="text", d=np.bool_(True))
        logger.record_video("v", tmp_path / "run_0" / "videos" / "v.mp4")
    head, row, video = rows_of(tmp_path / "run_0" / "progress.jsonl")
    assert head["params"] == {"lr": 1, "name": "a", "run_ID": 0}
    assert set(head) == {"name", "run_ID", "params", "code"}
    assert abs(row.pop("time") - time.time()) < 60
    assert row == {"step": 0, "a": 0.5, "b": None, "c": "text", "d": True}
    assert video["v"] == "videos/v.mp4"


def test_json_lines_of_a_resumed_run(tmp_path):
    path = tmp_path / "progress.jsonl"
    run = RunInfo(str(tmp_path), "a", 0, {})
    sink = JsonLinesSink()
    sink.open(run)
    for step in range(4):
        sink.write_row({"a": step}, step)
    with path.open("ab") as file:
        file.write(b'{"step": 4, "a"')  # The machine crashed here.
    resumed = JsonLinesSink()
    resumed.open(run._replace(resume=True))
    assert [row["a"] for row in rows_of(path)[1:]] == [0, 1, 2, 3]
    logger.add_sink(resumed)
    logger.drop_values_after(1)
    write_row(2, a=20)
    assert [row["a"] for row in rows_of(path)[1:]] == [0, 1, 20]
    JsonLinesSink().open(run)
    assert len(rows_of(path)) == 1


def test_json_lines_on_a_full_disk(tmp_path):
    """Every write to /dev/full fails; once it is replaced, nothing is missing."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    sink = JsonLinesSink(str(full))
    with logger_context(tmp_path, 0, "a", override_prefix=True, sinks=[sink]):
        write_row(0, a=0)
        write_row(1, a=1)
        sink.path = str(tmp_path / "other.jsonl")
        write_row(2, a=2)
    head, *rows = rows_of(tmp_path / "other.jsonl")
    assert head["name"] == "a"
    assert [row["a"] for row in rows] == [0, 1, 2]
    assert (tmp_path / "run_0" / "debug.log").read_text().count("No space left on device") == 1


# Weights & Biases.


@pytest.mark.slow
def test_wandb_offline(tmp_path):
    pytest.importorskip("wandb")
    ids = []
    for resume in (False, True, False):
        sink = WandbSink(project="test", mode="offline", settings={"console": "off"})
        with logger_context(
            tmp_path, 0, "a", {"algo": {"lr": 2}}, override_prefix=True, sinks=[sink], resume=resume
        ):
            write_row(3, loss=0.25, text="x")
            assert sink.run.config["algo"] == {"lr": 2}
            ids.append(sink.run.id)
        assert "failed" not in (tmp_path / "run_0" / "debug.log").read_text()
    assert ids[0] == ids[1] != ids[2]
    files = list(tmp_path.rglob("*.wandb"))
    assert sorted(path.name for path in files) == sorted(f"run-{run_id}.wandb" for run_id in ids)
    end = time.monotonic() + 60  # A process of wandb writes; on a busy machine it may lag behind.
    for path in files:
        while b"loss" not in path.read_bytes() and time.monotonic() < end:
            time.sleep(0.1)
        content = path.read_bytes()
        assert b"loss" in content
        assert b"0.25" in content
        assert b"text" not in content


def test_wandb_without_connection_continues_offline(tmp_path, monkeypatch):
    class Error(Exception):
        pass

    class Run:
        def __init__(self):
            self.logged, self.n_finished = [], 0

        def log(self, values, step):
            self.logged.append((values, step))

        def finish(self):
            self.n_finished += 1

    calls = []

    def init(**settings):
        calls.append(settings)
        if settings["mode"] != "offline":
            raise Error("no connection")
        run = Run()
        run.id = settings["id"]
        return run

    fake = SimpleNamespace(
        init=init, Error=Error, Video=lambda path: ("video", path), teardown=lambda: None
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    sink = WandbSink(group="sweep")
    with logger_context(tmp_path, 0, "a", {"lr": 1}, override_prefix=True, sinks=[sink]):
        write_row(5, loss=1.0)
        logger.record_video("v", tmp_path / "v.mp4")
    assert [call["mode"] for call in calls] == [None, "offline"]
    assert calls[1]["config"]["lr"] == 1
    assert calls[1]["group"] == "sweep"
    assert sink.run.logged == [
        ({"loss": 1.0}, 5),
        ({"v": ("video", str(tmp_path / "v.mp4"))}, 5),
    ]
    assert sink.run.n_finished == 1
    assert "offline; upload it with wandb sync" in (tmp_path / "run_0" / "debug.log").read_text()


# MLflow.


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Of its own dependencies.
def test_mlflow_in_a_local_data_base(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    (tmp_path / "v.gif").write_bytes(b"gif")
    params = {"algo": {"lr": 2}}
    for resume, itrs in ((False, (0, 1, 2)), (True, (2, 3))):
        with logger_context(
            tmp_path, 0, "a", params, override_prefix=True, resume=resume,
            sinks=[MlflowSink("test", uri)],
        ):  # fmt: skip
            for itr in itrs:
                write_row(itr, **{"Time (s)": 10.0 + itr, "text": "x"})
        assert "failed" not in (tmp_path / "run_0" / "debug.log").read_text()
    client = mlflow.tracking.MlflowClient(tracking_uri=uri)
    number = client.get_experiment_by_name("test").experiment_id
    (run,) = client.search_runs([number])
    assert run.data.params == {"algo.lr": "2", "name": "a", "run_ID": "0"}
    assert run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "Time s")
    assert [(metric.step, metric.value) for metric in history] == [
        (0, 10), (1, 11), (2, 12), (3, 13)
    ]  # fmt: skip


def test_own_columns_of_json_lines(tmp_path):
    # The rows of a resumed run were chosen by the recorded step.
    for resume, itrs in ((False, (0, 1, 2)), (True, (2,))):
        sinks = [JsonLinesSink()]
        context = dict(override_prefix=True, resume=resume, sinks=sinks)
        with logger_context(tmp_path, 0, "a", **context):
            if resume:
                sinks[0].drop_after(1)
            for itr in itrs:
                write_row(itr, step=100 * itr, time=7)
    rows = rows_of(tmp_path / "run_0" / "progress.jsonl")[1:]
    assert [(row["step"], row["step_"], row["time_"]) for row in rows] == [
        (0, 0, 7), (1, 100, 7), (2, 200, 7)
    ]  # fmt: skip


class FakeClient:
    """Client of an MLflow server that refuses connections until told otherwise."""

    def __init__(self):
        self.is_down, self.sent = True, []

    def log_batch(self, run_id, metrics):
        if self.is_down:
            raise ConnectionError("server is down")
        self.sent += [(metric.step, metric.value) for metric in metrics]

    def set_terminated(self, run_id):
        self.sent.append(run_id)


def test_mlflow_sends_later_what_it_could_not_send(tmp_path, monkeypatch):
    def metric(key, value, time_ms, step):
        return SimpleNamespace(value=value, step=step)

    monkeypatch.setitem(
        sys.modules, "mlflow", SimpleNamespace(entities=SimpleNamespace(Metric=metric))
    )
    client, sink = FakeClient(), MlflowSink(close_timeout_s=20)

    def connect():
        sink._client, sink.run_id = client, "id"

    monkeypatch.setattr(sink, "_connect", connect)
    with logger_context(tmp_path, 0, "a", override_prefix=True, sinks=[sink]):
        for itr in range(4):
            write_row(itr, a=itr)
            sink._sending.exception(20)
        client.is_down = False
        write_row(4, a=4)
    assert client.sent == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), "id"]
    text = (tmp_path / "run_0" / "debug.log").read_text()
    assert text.count("ConnectionError: server is down") == 1
    with logger_context(tmp_path, 1, "b", override_prefix=True, sinks=[sink]):
        write_row(0, a=9)
    assert client.sent[6:] == [(0, 9), "id"]


# Version of the code.


def test_code_version(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.touch()
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(program), raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert code_version() is None

    def git(*args):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        command = ["git", *identity, *args]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)

    git("init", "-q")
    git("add", "program.py")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "HEAD").stdout.strip()
    (tmp_path / "untracked.txt").touch()
    assert code_version() == {"commit": commit, "dirty": False}
    program.write_text("changed")
    assert code_version() == {"commit": commit, "dirty": True}
    monkeypatch.setenv("PATH", "")
    assert code_version() is None


# Tensorboard.


def test_tensorboard_by_name_gets_parameters_and_code(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with logger_context(tmp_path, 0, "a", {"lr": 0.5}, override_prefix=True, sinks=["tensorboard"]):
        write_row(2, loss=1.5)
    events = EventAccumulator(str(tmp_path / "run_0"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(2, 1.5)]
    (text,) = events.Tensors("params/text_summary")
    params = json.loads(text.tensor_proto.string_val[0].decode().strip("`").removeprefix("json"))
    assert params["lr"] == 0.5
    assert "code" in params
