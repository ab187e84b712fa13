"""Equal seeds give equal runs, and a run which was stopped goes on as if it had not been."""

import pytest
import torch

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.runners.callbacks import SaveState, load_run_state
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context

BATCH = {"batch_T": 2, "batch_B": 4, "max_decorrelation_steps": 5}
SETTINGS = {
    "batch_size": 16,
    "min_steps_learn": 24,
    "replay_size": 120,  # Wraps within the run.
    "eps_steps": 200,
    "target_update_interval": 3,
    "n_step_return": 2,
    "prioritized_replay": True,
    "pri_beta_steps": 300,
}


def cartpole(RunnerCls, **kwargs):
    env = {"EnvCls": gym.make, "env_kwargs": {"id": "CartPole-v1"}}
    evaluation = {"eval_n_envs": 2, "eval_max_steps": 40}
    return RunnerCls(
        algo=DQN(**SETTINGS),
        agent=MlpDqnAgent(eps_final=0.1),
        sampler=SerialSampler(**env, **BATCH, **evaluation),
        **kwargs,
    )


def catch(RunnerCls, **kwargs):
    env = {"EnvCls": Catch, "env_kwargs": {"img_shape": (20, 10), "num_img_obs": 3}}
    evaluation = {"eval_n_envs": 2, "eval_max_steps": 40}
    convolution = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0]}
    return RunnerCls(
        algo=CategoricalDQN(V_min=-1, V_max=1, **SETTINGS),
        agent=AtariCatDqnAgent(model_kwargs={**convolution, "fc_sizes": 16}, n_atoms=7),
        sampler=SerialSampler(**env, **BATCH, **evaluation),
        **kwargs,
    )


def run(make, RunnerCls, directory, seed=5, n_steps=400, resume_from=None, callbacks=()):
    runner = make(RunnerCls, seed=seed, n_steps=n_steps, log_interval_steps=80, callbacks=callbacks)
    if resume_from is not None:
        runner.load_state_dict(load_run_state(resume_from))
    with logger_context(directory, 0, "test", snapshot_mode="last", override_prefix=True):
        logger.set_log_tabular_only(False)
        runner.train()
    return torch.load(directory / "run_0" / "params.pkl")


def assert_equal_snapshots(first, second):
    assert first["itr"] == second["itr"]
    flat = [torch.utils._pytree.tree_flatten(snapshot)[0] for snapshot in (first, second)]
    assert len(flat[0]) == len(flat[1]) > 10
    for a, b in zip(*flat):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


CASES = [(cartpole, MinibatchRl), (cartpole, MinibatchRlEval), (catch, MinibatchRlEval)]


@pytest.mark.parametrize(("make", "RunnerCls"), CASES)
def test_equal_seeds_equal_parameters(make, RunnerCls, tmp_path):
    first = run(make, RunnerCls, tmp_path / "first")
    assert_equal_snapshots(first, run(make, RunnerCls, tmp_path / "second"))
    other = run(make, RunnerCls, tmp_path / "other", seed=6)
    with pytest.raises(AssertionError):
        assert_equal_snapshots(first, other)


@pytest.mark.parametrize(("make", "RunnerCls"), CASES)
def test_resumed_run_ends_with_the_parameters_of_the_whole_run(make, RunnerCls, tmp_path):
    whole = run(make, RunnerCls, tmp_path / "whole")
    save = [SaveState()]
    run(make, RunnerCls, tmp_path / "first", n_steps=160, callbacks=save)
    state_file = tmp_path / "first" / "run_0" / "run_state.pkl"
    second = run(make, RunnerCls, tmp_path / "second", seed=77, resume_from=state_file)
    assert_equal_snapshots(whole, second)
