"""Sinks of one run: JSON lines, Weights & Biases, MLflow; with parameters, code version, videos.

with logger_context(..., sinks=["jsonl", WandbSink(project="pong", mode="offline")]):
"""

from __future__ import annotations

import json
import math
import numbers
import os
import re
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from rlpyt.utils.files import replacing
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.sinks import RunInfo, RunSink, Sink, append_whole
from rlpyt.utils.names import flat


def make_sinks(given: Sequence[Sink | str]) -> list[Sink]:
    """Return sinks, made with default settings where a name is given.

    Raises:
        ValueError: if there is no such name.
        ImportError: if the package of a sink is not installed.
    """
    classes = {"jsonl": JsonLinesSink, "wandb": WandbSink, "mlflow": MlflowSink}
    for sink in given:
        if isinstance(sink, str) and sink not in classes:
            raise ValueError(
                f"sinks: {sink!r} must be a sink or one of tensorboard, {', '.join(classes)}"
            )
    return [classes[sink]() if isinstance(sink, str) else sink for sink in given]


class JsonLinesSink(RunSink):
    """Sink that appends every row to ``<run directory>/progress.jsonl``, as an object of JSON.

    The first line has the keys ``name``, ``run_ID``, ``params`` and ``code``; all others have
    ``step`` (the iteration), ``time`` (seconds since 1970) and the recorded values, ``null`` for
    what is not finite. A row that could not be written is kept and written before the next.
    """

    def __init__(self, file_name: str = "progress.jsonl") -> None:
        self.file_name = file_name
        self.path = ""
        self._pending: deque[dict[str, Any]] = deque()

    def open(self, run: RunInfo) -> None:
        self.path = os.path.join(run.directory, self.file_name)
        head = {"name": run.name, "run_ID": run.run_ID, "params": run.params, "code": run.code}
        if run.resume and os.path.exists(self.path):
            self._keep(lambda row: True)
            return
        open(self.path, "wb").close()
        self._append(head)

    def write_row(self, row: dict[str, Any], step: int) -> None:
        self._append({"step": step, "time": time.time(), **row})

    def write_video(self, key: str, path: str, step: int) -> None:
        relative = os.path.relpath(path, os.path.dirname(self.path))
        self._append({"step": step, "time": time.time(), key: relative})

    def drop_after(self, step: int) -> None:
        self._keep(lambda row: row.get("step", step) <= step)

    def close(self) -> None:
        self._write_pending()

    def _append(self, values: Mapping[str, Any]) -> None:
        self._pending.append({key: _json(value) for key, value in values.items()})
        self._write_pending()

    def _write_pending(self) -> None:
        while self._pending:
            text = json.dumps(self._pending[0], default=str, allow_nan=False)
            with open(self.path, "ab", buffering=0) as file:
                append_whole(file, text.encode() + b"\n")
            self._pending.popleft()

    def _keep(self, keep: Any) -> None:
        """Remove rows, and a line without its end, which a crashed machine may leave."""
        with open(self.path, "rb") as old:
            lines = [line for line in old if line.endswith(b"\n") and keep(json.loads(line))]
        with replacing(self.path, "wb") as new:
            new.writelines(lines)


class WandbSink(RunSink):
    """Sink that logs a run to Weights & Biases; a resumed run continues there under its id.

    If the service cannot be reached at the start, the run is logged offline, to be uploaded later
    with ``wandb sync``. Iterations that a resumed run repeats are ignored by the service.

    Args:
        project: name of the project.
        mode: ``"online"``, ``"offline"`` or ``"disabled"``; None for ``WANDB_MODE``, or online.
        init_kwargs: further arguments of ``wandb.init``, such as ``group`` or ``tags``.

    Raises:
        ImportError: if wandb is not installed.
    """

    def __init__(self, project: str = "rlpyt", mode: Any = None, **init_kwargs: Any) -> None:
        self._wandb = _imported("wandb")
        self.init_kwargs = {"project": project, "mode": mode, **init_kwargs}
        self.run: Any = None

    def open(self, run: RunInfo) -> None:
        settings = {
            "id": _remembered_id(run, "wandb_run_id.txt") or uuid.uuid4().hex[:12],
            "resume": "allow",
            "name": f"{run.name}_{run.run_ID}",
            "dir": run.directory,
            "config": {**run.params, "code": run.code},
            **self.init_kwargs,
        }
        try:
            self.run = self._wandb.init(**settings)
        except self._wandb.Error as error:
            logger.log(f"{error!r}: logging to Weights & Biases offline; upload it by wandb sync.")
            self._wandb.teardown()  # It would go on trying to make a run of this id.
            self.run = self._wandb.init(**{**settings, "mode": "offline"})
        _remember_id(run, "wandb_run_id.txt", self.run.id)

    def write_row(self, row: dict[str, Any], step: int) -> None:
        self.run.log(_numbers(row), step=step)

    def write_video(self, key: str, path: str, step: int) -> None:
        self.run.log({key: self._wandb.Video(path)}, step=step)

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()


class MlflowSink(RunSink):
    """Sink that logs a run to MLflow; a resumed run continues there under its id.

    A thread sends the rows, so that a slow connection does not hold up the run. What could not be
    sent is kept and sent before the next row. Iterations that a resumed run repeats are left out.

    Args:
        experiment: name of the experiment, made if needed.
        tracking_uri: address of a server or data base; None for ``MLFLOW_TRACKING_URI``, or the
            file ``mlflow.db`` in the current directory.
        close_timeout_s: seconds to wait for unsent rows before the log is closed without them; the
            process itself ends when MLflow gives up sending them.

    Raises:
        ImportError: if MLflow is not installed.
    """

    def __init__(
        self,
        experiment: str = "rlpyt",
        tracking_uri: str | None = None,
        close_timeout_s: float = 60.0,
    ) -> None:
        self._mlflow = _imported("mlflow")
        self.experiment = experiment
        self.tracking_uri = tracking_uri
        self.close_timeout_s = close_timeout_s
        self._info: RunInfo | None = None
        self._client: Any = None
        self._last_step = -math.inf
        self._pending: deque[tuple[int, int, dict[str, float] | str]] = deque()
        self._sender: ThreadPoolExecutor | None = None
        self._sending: Future[None] | None = None

    def open(self, run: RunInfo) -> None:
        self._info = run
        self.run_id = ""

    def write_row(self, row: dict[str, Any], step: int) -> None:
        self._enqueue(step, {_mlflow_name(key): v for key, v in _numbers(row).items()})

    def write_video(self, key: str, path: str, step: int) -> None:
        self._enqueue(step, path)

    def close(self) -> None:
        if self._sender is None or self._sending is None:
            return
        self._sender.submit(self._send).result(self.close_timeout_s)
        self._sender.submit(self._end).result(self.close_timeout_s)
        self._sender.shutdown(wait=False)

    def _enqueue(self, step: int, values: dict[str, float] | str) -> None:
        self._pending.append((step, time.time_ns() // 1_000_000, values))
        # The thread starts with the first row, when the processes of the sampler are forked.
        self._sender = self._sender or ThreadPoolExecutor(1, "mlflow")
        if self._sending is None or self._sending.done():
            former, self._sending = self._sending, self._sender.submit(self._send)
            if former is not None:
                former.result()  # Raises what prevented it from sending.

    def _send(self) -> None:
        if self._client is None:
            self._connect()
        while self._pending:
            step, time_ms, values = self._pending[0]
            if step > self._last_step:
                if isinstance(values, str):
                    self._client.log_artifact(self.run_id, values, "videos")
                else:
                    metric = self._mlflow.entities.Metric
                    metrics = [metric(key, v, time_ms, step) for key, v in values.items()]
                    self._client.log_batch(self.run_id, metrics=metrics)
            self._pending.popleft()

    def _connect(self) -> None:
        """Make the run, or find the one to continue and its last step."""
        run = self._info
        assert run is not None
        client = self._mlflow.tracking.MlflowClient(tracking_uri=self.tracking_uri)
        self.run_id = _remembered_id(run, "mlflow_run_id.txt")
        if self.run_id:
            for key in client.get_run(self.run_id).data.metrics:
                history = client.get_metric_history(self.run_id, key)
                self._last_step = max(self._last_step, *(metric.step for metric in history))
            client.update_run(self.run_id, status="RUNNING")
        else:
            experiment = client.get_experiment_by_name(self.experiment)
            number = (
                experiment.experiment_id
                if experiment is not None
                else client.create_experiment(self.experiment)
            )
            code = run.code or {}
            tags = {"code.dirty": str(code["dirty"])} if code else {}
            if code:
                tags["mlflow.source.git.commit"] = code["commit"]
            made = client.create_run(number, run_name=f"{run.name}_{run.run_ID}", tags=tags)
            self.run_id = made.info.run_id
            param = self._mlflow.entities.Param
            params = [param(_mlflow_name(k), str(v)[:6000]) for k, v in flat(run.params)]
            for start in range(0, len(params), 100):  # The most that a call takes.
                client.log_batch(self.run_id, params=params[start : start + 100])
            _remember_id(run, "mlflow_run_id.txt", self.run_id)
        self._client = client

    def _end(self) -> None:
        self._client.set_terminated(self.run_id)


def _imported(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise ImportError(f"sinks: {name} is not installed: pip install 'rlpyt[{name}]'") from error


def _remembered_id(run: RunInfo, file_name: str) -> str:
    """Return the id under which the run to be resumed is known to a service, or nothing."""
    path = os.path.join(run.directory, file_name)
    if not (run.resume and os.path.exists(path)):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _remember_id(run: RunInfo, file_name: str, run_id: str) -> None:
    with replacing(os.path.join(run.directory, file_name), encoding="utf-8") as file:
        file.write(run_id)


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {k: float(v) for k, v in row.items() if isinstance(v, (numbers.Real, np.bool_))}


def _json(value: Any) -> Any:
    """Return a value in the types of JSON, which has no number for NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): _json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mlflow_name(key: str) -> str:
    """Return a key without the characters that MLflow refuses, such as brackets of units."""
    return re.sub(r"[^/\w.\- ]", "", key).strip()
