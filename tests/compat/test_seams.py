"""What research code uses beyond signatures: star imports, re-exports, records, replays, the log.

Every test states one habit of programs written against rlpyt 0.1.2.
"""

import importlib
import pickle
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentInputs
from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent, MlpR2d1Agent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.utils import valid_from_done
from rlpyt.core.records import EnvSpaces
from rlpyt.envs.gym import TimeLimit
from rlpyt.envs.toy import Counter
from rlpyt.models.mlp import MlpModel
from rlpyt.replays.non_sequence.n_step import SamplesFromReplay
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer, SamplesFromReplayPri
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import infer_leading_dims, select_at_indexes
from tests.selection import each_once

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
def test_star_imports_give_the_libraries_too(module, names):
    scope = {}
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
def test_names_that_modules_only_imported_are_there(module, name):
    assert hasattr(importlib.import_module(module), name)


# --- save__init__args ---------------------------------------------------------------------------


class After(DQN):
    def __init__(self, discount=0.5, extra=3):
        super().__init__(discount=0.9)
        save__init__args(locals())


class Instead(DQN):
    def __init__(self, discount=0.5, extra=3):
        save__init__args(locals())


class Before(DQN):
    def __init__(self, discount=0.5, extra=3, **kwargs):
        save__init__args(locals())
        super().__init__(discount=0.9, **kwargs)


@pytest.mark.parametrize(("Cls", "discount"), [(After, 0.9), (Instead, 0.5), (Before, 0.5)])
def test_arguments_are_saved_in_every_order(Cls, discount):
    algo = Cls(extra=4)
    assert algo.extra == 4
    assert algo.discount == discount, "the first writer wins"


def test_before_super_keeps_the_rest_of_the_parents_arguments():
    algo = Before(learning_rate=0.125)
    assert (algo.discount, algo.learning_rate, algo.delta_clip) == (0.5, 0.125, 1.0)


# --- Replay -------------------------------------------------------------------------------------


def test_replay_attributes_that_subclasses_use():
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


def replay_with_data(replay):
    """``replay`` after 8 rows of nothing in particular."""
    rows = replay.samples[:8]
    replay.append_samples(type(rows)(*(np.zeros_like(field) for field in rows)))
    return replay


def test_records_are_extended_by_their_fields():
    assert SamplesFromReplayPri._fields == (*SamplesFromReplay._fields, "is_weights")
    Extended = namedarraytuple("Extended", (*SamplesFromReplayPri._fields, "mine"))
    record = Extended(*range(len(Extended._fields)))
    assert pickle.loads(pickle.dumps(record)) == record


# --- Logger -------------------------------------------------------------------------------------


def test_functions_of_the_logger_can_be_replaced(monkeypatch):
    recorded = {}
    monkeypatch.setattr(
        logger, "record_tabular", lambda key, val, *a, **k: recorded.update({key: val})
    )
    logger.record_tabular_misc_stat("Return", [1.0, 3.0])
    assert list(recorded) == [f"Return{s}" for s in ("Average", "Std", "Median", "Min", "Max")]
    assert [float(value) for value in recorded.values()] == [2, 1, 2, 1, 3]


def test_state_of_the_logger_that_programs_read():
    logger.set_iteration(7)
    assert logger._iteration == 7
    with logger.prefix("itr #7 "), logger.tabular_prefix("Diagnostics/"):
        assert logger._prefixes == ["itr #7 "]
        assert logger._tabular_prefix_str == "Diagnostics/"
    assert logger._prefixes == []
    assert logger._tf_summary_writer is logger.get_tf_summary_writer() is None
    logger.set_iteration(0)


def test_logger_functions_that_programs_call(tmp_path):
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


@pytest.mark.parametrize("gap", [-1, 0])
def test_gap_has_no_effect_in_modes_without_one(tmp_path, gap):
    with logger_context(str(tmp_path), 0, "run", snapshot_mode="last", use_summary_writer=False):
        logger.set_snapshot_gap(gap)
        logger.save_itr_params(3, {"itr": 3})
        assert [path.name for path in tmp_path.rglob("*.pkl")] == ["params.pkl"]
        with pytest.raises(ValueError, match=f"gap={gap} must"):
            logger.set_snapshot_mode("gap")


# --- Functions in programs ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_functions_compile_in_scripts():
    @torch.jit.script
    def masked(observation, action, done):
        lead_dim, T, B, shape = infer_leading_dims(observation, 1)
        flat = observation.view([T * B] + shape)
        return select_at_indexes(action, flat.view([T, B] + shape)) * valid_from_done(done)

    observation = torch.arange(12.0).reshape(3, 2, 2)
    action = torch.tensor([[0, 1], [1, 0], [1, 1]])
    done = torch.tensor([[False, True], [True, False], [False, False]])
    assert masked(observation, action, done).tolist() == [[0, 3], [5, 0], [0, 0]]


# --- Environments and agents --------------------------------------------------------------------


class OwnModel(torch.nn.Module):
    """A model for observations of two arrays."""

    def __init__(self, observation_shape, action_size):
        super().__init__()
        sizes = observation_shape.place[0], observation_shape.speed[0]
        self.mean = MlpModel(sum(sizes), [8], action_size)


def test_own_model_of_a_mujoco_agent_gets_several_shapes():
    names = ["place", "speed"]
    observation = Composite(
        [FloatBox(-1, 1, (2,)), FloatBox(-1, 1, (3,))], namedarraytuple("O", names)
    )
    spaces = EnvSpaces(observation=observation, action=FloatBox(-1, 1, (2,)))
    agent = MujocoFfAgent(ModelCls=OwnModel)
    shape = agent.make_env_to_model_kwargs(spaces)["observation_shape"]
    assert (shape.place, shape.speed) == ((2,), (3,))
    agent.initialize(spaces)


def test_time_limit_from_the_environments_spec():
    env = gymnasium.make("CartPole-v1").unwrapped
    limited = TimeLimit(env)
    assert isinstance(limited, gymnasium.wrappers.TimeLimit)
    assert limited._max_episode_steps == 500
    assert TimeLimit(env, 7)._max_episode_steps == 7
    env.spec = None
    with pytest.raises(ValueError, match="max_episode_steps"):
        TimeLimit(env)


# --- Runs -----------------------------------------------------------------------------------------


class OwnTrain(MinibatchRl):
    """A runner with a loop of its own, as programs wrote it."""

    def train(self):
        n_itr = self.startup()
        for itr in range(n_itr):
            self.agent.sample_mode(itr)
            samples, traj_infos = self.sampler.obtain_samples(itr)
            self.agent.train_mode(itr)
            self.store_diagnostics(itr, traj_infos, self.algo.optimize_agent(itr, samples))
        self.shutdown()


@pytest.mark.parametrize(
    ("AlgoCls", "prioritized", "RunnerCls"),
    each_once([DQN, R2D1], [False, True], [MinibatchRl, OwnTrain]),
)
def test_training_may_be_asked_for_too_early(AlgoCls, prioritized, RunnerCls, capsys):
    settings = {"min_steps_learn": 0, "replay_size": 200, "replay_ratio": 32}
    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": [8]})
    if AlgoCls is R2D1:
        settings |= {"batch_T": 2, "batch_B": 2, "warmup_T": 1, "store_rnn_state_interval": 2}
        agent = MlpR2d1Agent(model_kwargs={"hidden_sizes": [8, 8], "lstm_size": 4})
    algo = AlgoCls(**settings, prioritized_replay=prioritized)
    sampler = SerialSampler(Counter, {}, batch_T=1, batch_B=2, max_decorrelation_steps=0)
    roles = {"algo": algo, "agent": agent, "sampler": sampler}
    RunnerCls(**roles, n_steps=60, log_interval_steps=20, seed=0).train()
    assert algo.update_counter > 0
    assert algo.min_itr_learn > 0
    log = capsys.readouterr().out
    assert log.count("Training complete.") == 1
    assert log.count("min_steps_learn is 0") == 1
