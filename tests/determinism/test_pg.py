"""Equal seeds give equal runs, and a run which was stopped goes on as if it had not been."""

import pytest

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs import gym
from rlpyt.envs.toy import TMaze
from rlpyt.runners.callbacks import Callback, SaveState
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.determinism.test_dqn import assert_equal_snapshots, run


class StopAfterTwoLogs(Callback):
    """Before the end of the schedule, which is that of the whole run."""

    def on_log(self, runner, itr, traj_infos):
        if itr == 7:
            runner.stop()


BATCH = {"batch_T": 5, "batch_B": 4, "max_decorrelation_steps": 5}
EVALUATION = {"eval_n_envs": 2, "eval_max_steps": 40}


def maze_a2c(RunnerCls, **kwargs):
    return RunnerCls(
        algo=A2C(normalize_advantage=True, gae_lambda=0.9),
        agent=GenericLstmAgent(model_kwargs={"hidden_sizes": [8], "lstm_size": 8}),
        sampler=SerialSampler(TMaze, {}, CollectorCls=CpuWaitResetCollector, **BATCH, **EVALUATION),
        **kwargs,
    )


def maze_ppo(RunnerCls, **kwargs):
    return RunnerCls(
        algo=PPO(minibatches=3, recompute_returns=True),  # Of which two have one environment.
        agent=GenericLstmAgent(model_kwargs={"hidden_sizes": [8], "lstm_size": 8}),
        sampler=SerialSampler(TMaze, {}, CollectorCls=CpuResetCollector, **BATCH, **EVALUATION),
        **kwargs,
    )


def pendulum(RunnerCls, **kwargs):
    env_kwargs = {"id": "Pendulum-v1", "max_episode_steps": 7}
    return RunnerCls(
        algo=PPO(minibatches=3, epochs=2, normalize_return=True, value_clip=0.2),
        agent=MujocoFfAgent(model_kwargs={"normalize_observation": True}),
        sampler=SerialSampler(
            gym.make, env_kwargs, **BATCH, **EVALUATION, record_next_observation=True
        ),
        **kwargs,
    )


def cartpole(RunnerCls, **kwargs):
    return RunnerCls(
        algo=A2C(),
        agent=GenericFfAgent(),
        sampler=SerialSampler(gym.make, {"id": "CartPole-v1"}, **BATCH, **EVALUATION),
        **kwargs,
    )


CASES = [
    (maze_a2c, MinibatchRlEval),
    (maze_ppo, MinibatchRl),
    (pendulum, MinibatchRlEval),
    (cartpole, MinibatchRl),
]


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
    save = [SaveState(), StopAfterTwoLogs()]
    run(make, RunnerCls, tmp_path / "first", callbacks=save)
    state_file = tmp_path / "first" / "run_0" / "run_state.pkl"
    second = run(make, RunnerCls, tmp_path / "second", seed=77, resume_from=state_file)
    assert_equal_snapshots(whole, second)
