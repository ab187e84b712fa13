"""Sinks that send a run to a service, with parameters, code version and videos.

with logger_context(..., sinks=["jsonl", WandbSink(project="pong", mode="offline")]):
"""

from __future__ import annotations

import math
import numbers
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from rlpyt.utils.files import replacing
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.sinks import JsonLinesSink, PendingSink, RunInfo, RunSink, Sink
from rlpyt.utils.names import flat, import_extra


def make_sinks(given: Sequence[Sink | str]) -> list[Sink]:
    """Return the sinks; a name becomes a sink with default settings.

    Raises:
        ValueError: if a name is unknown.
        ImportError: if the package of a sink is not installed.
    """
    classes = {"jsonl": JsonLinesSink, "wandb": WandbSink, "mlflow": MlflowSink}
    for sink in given:
        if isinstance(sink, str) and sink not in classes:
            raise ValueError(
                f"sinks: {sink!r} must be a sink or one of tensorboard, {', '.join(classes)}"
            )
    return [classes[sink]() if isinstance(sink, str) else sink for sink in given]


class WandbSink(RunSink):
    """Sink that logs a run to Weights & Biases; a resumed run continues there under its id.

    If the service cannot be reached at the start, the run is logged offline; ``wandb sync`` uploads
    it later. The service ignores iterations that a resumed run repeats.

    Args:
        project: name of the project.
        mode: ``"online"``, ``"offline"`` or ``"disabled"``; None for ``WANDB_MODE``, or online.
        init_kwargs: further arguments of ``wandb.init``, such as ``group`` or ``tags``.

    Raises:
        ImportError: if wandb is not installed.
    """

    def __init__(self, project: str = "rlpyt", mode: Any = None, **init_kwargs: Any) -> None:
        self._wandb = import_extra("wandb", "WandbSink", "wandb")
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
            logger.log(
                f"{error!r}: logging to Weights & Biases offline; upload it with wandb sync."
            )
            self._wandb.teardown()  # Otherwise it keeps trying to make a run of this id.
            self.run = self._wandb.init(**{**settings, "mode": "offline"})
        _remember_id(run, "wandb_run_id.txt", self.run.id)

    def write_row(self, row: dict[str, Any], step: int) -> None:
        self.run.log(_numbers(row), step=step)

    def write_video(self, key: str, path: str, step: int) -> None:
        self.run.log({key: self._wandb.Video(path)}, step=step)

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()


class MlflowSink(PendingSink):
    """Sink that logs a run to MLflow; a resumed run continues there under its id.

    A thread sends the rows, so that a slow connection does not delay the run. Iterations that a
    resumed run repeats are left out.

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
        super().__init__()
        self._mlflow = import_extra("mlflow", "MlflowSink", "mlflow")
        self.experiment = experiment
        self.tracking_uri = tracking_uri
        self.close_timeout_s = close_timeout_s
        self._sender: ThreadPoolExecutor | None = None
        self._sending: Future[None] | None = None

    def open(self, run: RunInfo) -> None:
        self.pending.clear()
        self._info, self.run_id = run, ""
        self._client: Any = None
        self._last_step = -math.inf
        self._sender = self._sending = None

    def write_row(self, row: dict[str, Any], step: int) -> None:
        self.append((step, {_mlflow_name(key): v for key, v in _numbers(row).items()}))

    def write_video(self, key: str, path: str, step: int) -> None:
        self.append((step, path))

    def append(self, entry: tuple[int, dict[str, float] | str]) -> None:
        self.pending.append((time.time_ns() // 1_000_000, *entry))
        # The thread starts with the first row, when the processes of the sampler are forked.
        self._sender = self._sender or ThreadPoolExecutor(1, "mlflow")
        if self._sending is None or self._sending.done():
            former, self._sending = self._sending, self._sender.submit(self.write_pending)
            if former is not None:
                former.result()  # Raises the error of the earlier row, if it was not sent.

    def write_entry(self, entry: tuple[int, int, dict[str, float] | str]) -> None:
        if self._client is None:
            self._connect()
        time_ms, step, values = entry
        if step <= self._last_step:
            return
        if isinstance(values, str):
            self._client.log_artifact(self.run_id, values, "videos")
        else:
            metric = self._mlflow.entities.Metric
            metrics = [metric(key, v, time_ms, step) for key, v in values.items()]
            self._client.log_batch(self.run_id, metrics=metrics)

    def close(self) -> None:
        if self._sender is None or self._sending is None:
            return
        self._sender.submit(self.write_pending).result(self.close_timeout_s)
        self._sender.submit(self._client.set_terminated, self.run_id).result(self.close_timeout_s)
        self._sender.shutdown(wait=False)

    def _connect(self) -> None:
        """Make the run, or find the one to continue and its last step."""
        run = self._info
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


def _remembered_id(run: RunInfo, file_name: str) -> str:
    """Return the service's id of the run to resume, or ``""``."""
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


def _mlflow_name(key: str) -> str:
    """Return a key without characters that MLflow refuses, such as the brackets around units."""
    return re.sub(r"[^/\w.\- ]", "", key).strip()
