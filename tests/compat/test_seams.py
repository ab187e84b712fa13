"""What research code uses beyond signatures: star imports, re-exports, records, replays, the log.

Every test states one habit of programs written against rlpyt 0.1.2.
"""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpyt.agents.base import AgentInputs
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.replays.non_sequence.n_step import SamplesFromReplay
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer, SamplesFromReplayPri
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.quick_args import save__init__args

# --- Imports ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("rlpyt.envs.base", ["Env", "EnvStep", "EnvSpaces", "namedtuple"]),
        ("rlpyt.agents.dqn.dqn_agent", ["torch", "DqnAgent", "AgentInfo", "AgentStep"]),
        ("rlpyt.algos.dqn.dqn", ["torch", "DQN", "OptInfo", "SamplesToBuffer"]),
        ("rlpyt.algos.pg.ppo", ["torch", "PPO", "LossInputs", "OptInfo", "valid_mean"]),
        ("rlpyt.algos.pg.ppo", ["save__init__args", "buffer_to", "iterate_mb_idxs"]),
        ("rlpyt.agents.pg.categorical", ["torch", "CategoricalPgAgent", "Categorical"]),
        ("rlpyt.agents.pg.gaussian", ["np", "torch", "GaussianPgAgent", "DistInfoStd"]),
    ],
)
def test_star_imports_give_the_libraries_too(module: str, names: list[str]) -> None:
    scope: dict[str, Any] = {}
    exec(f"from {module} import *", scope)
    assert not set(names) - scope.keys()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("rlpyt.utils.collections", "namedtuple"),
        ("rlpyt.envs.gym", "TimeLimit"),
        ("rlpyt.envs.gym", "EnvSpaces"),
        ("rlpyt.agents.base", "AgentInputsRnn"),
        ("rlpyt.algos.utils", "valid_from_done"),
    ],
)
def test_names_that_modules_only_imported_are_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


# --- save__init__args ---------------------------------------------------------------------------


class After(DQN):
    def __init__(self, discount: float = 0.5, extra: int = 3) -> None:
        super().__init__(discount=0.9)
        save__init__args(locals())


class Instead(DQN):
    def __init__(self, discount: float = 0.5, extra: int = 3) -> None:
        save__init__args(locals())


class Before(DQN):
    def __init__(self, discount: float = 0.5, extra: int = 3, **kwargs: Any) -> None:
        save__init__args(locals())
        super().__init__(discount=0.9, **kwargs)


@pytest.mark.parametrize(("Cls", "discount"), [(After, 0.9), (Instead, 0.5), (Before, 0.5)])
def test_arguments_are_saved_in_every_order(Cls: Any, discount: float) -> None:
    algo = Cls(extra=4)
    assert algo.extra == 4
    assert algo.discount == discount, "the first writer wins"


def test_before_super_keeps_the_rest_of_the_parents_arguments() -> None:
    algo = Before(learning_rate=0.125)
    assert (algo.discount, algo.learning_rate, algo.delta_clip) == (0.5, 0.125, 1.0)


# --- Replay -------------------------------------------------------------------------------------


def test_replay_attributes_that_subclasses_use() -> None:
    example = namedarraytuple("Stored", ["observation", "action", "reward", "done"])(
        np.zeros(3, np.float32), np.int64(0), np.float32(0), np.bool_(False)
    )
    replay = PrioritizedReplayBuffer(
        example=example, size=20, B=2, discount=0.9, n_step_return=2, alpha=0.6, beta=0.4
    )
    assert (replay.T, replay.B, replay.size, replay.t, replay.n_step_return) == (10, 2, 20, 0, 2)
    assert (replay.beta, replay.unique, replay._buffer_full) == (0.4, False, False)
    assert replay.samples.observation.shape == (10, 2, 3)
    (T_idxs, B_idxs), priorities = replay_with_data(replay).priority_tree.sample(3, unique=False)
    assert len(T_idxs) == len(B_idxs) == len(priorities) == 3
    batch = replay.extract_batch(T_idxs, B_idxs)
    assert batch._fields == SamplesFromReplay._fields
    assert isinstance(batch.agent_inputs, AgentInputs)
    replay.sample_batch(4)
    replay.update_batch_priorities(np.ones(4))


def replay_with_data(replay: Any) -> Any:
    """``replay`` after 8 rows of nothing in particular."""
    rows = replay.samples[:8]
    replay.append_samples(type(rows)(*(np.zeros_like(field) for field in rows)))
    return replay


def test_records_are_extended_by_their_fields() -> None:
    assert SamplesFromReplayPri._fields == (*SamplesFromReplay._fields, "is_weights")
    Extended = namedarraytuple("Extended", (*SamplesFromReplayPri._fields, "mine"))
    record = Extended(*range(len(Extended._fields)))
    assert pickle.loads(pickle.dumps(record)) == record


# --- Logger -------------------------------------------------------------------------------------


def test_functions_of_the_logger_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: dict[str, Any] = {}
    monkeypatch.setattr(
        logger, "record_tabular", lambda key, val, *a, **k: recorded.update({key: val})
    )
    logger.record_tabular_misc_stat("Return", [1.0, 3.0])
    assert list(recorded) == [f"Return{s}" for s in ("Average", "Std", "Median", "Min", "Max")]
    assert [float(value) for value in recorded.values()] == [2, 1, 2, 1, 3]


def test_state_of_the_logger_that_programs_read() -> None:
    logger.set_iteration(7)
    assert logger._iteration == 7
    with logger.prefix("itr #7 "), logger.tabular_prefix("Diagnostics/"):
        assert logger._prefixes == ["itr #7 "]
        assert logger._tabular_prefix_str == "Diagnostics/"
    assert logger._prefixes == []
    assert logger._tf_summary_writer is logger.get_tf_summary_writer() is None
    logger.set_iteration(0)


def test_logger_functions_that_programs_call(tmp_path: Path) -> None:
    with logger_context(str(tmp_path), 3, "run", {"a": 1}, override_prefix=True):
        logger.set_snapshot_mode("gap")
        logger.set_snapshot_gap(2)
        logger.push_prefix("more ")
        logger.log("hello")
        logger.pop_prefix()
        logger.record_tabular("x", 1)
        logger.dump_tabular(with_prefix=False)
        for itr in range(4):
            logger.save_itr_params(itr, {"itr": itr})
        assert Path(logger.get_snapshot_dir() or "") == tmp_path / "run_3"
    files = {path.name for path in (tmp_path / "run_3").iterdir()}
    assert files == {
        "debug.log", "params.json", "progress.csv", "itr_0.pkl", "itr_1.pkl", "itr_3.pkl",
    }  # fmt: skip
    assert "run_3 more hello" in (tmp_path / "run_3" / "debug.log").read_text()
