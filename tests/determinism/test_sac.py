"""Equal seeds give equal runs, and a run which was stopped goes on as if it had not been."""

import pytest

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.envs import gym
from rlpyt.runners.callbacks import SaveState
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.determinism.test_dqn import assert_equal_snapshots, run

SETTINGS = {
    "batch_size": 16,
    "min_steps_learn": 24,
    "replay_size": 120,  # Wraps within the run.
    "replay_ratio": 4,
    "n_step_return": 2,
}
SMALL = {"hidden_sizes": [8]}


def runner(RunnerCls, algo, AgentCls, **kwargs):
    return RunnerCls(
        algo=algo,
        agent=AgentCls(model_kwargs=SMALL, q_model_kwargs=SMALL, v_model_kwargs=SMALL),
        sampler=SerialSampler(
            gym.make,
            {"id": "Pendulum-v1", "max_episode_steps": 17},
            batch_T=2,
            batch_B=4,
            max_decorrelation_steps=5,
            eval_n_envs=2,
            eval_max_steps=40,
        ),
        **kwargs,
    )


def learned(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC(**SETTINGS), sac_agent.SacAgent, **kwargs)


def fixed(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC(fixed_alpha=0.2, **SETTINGS), sac_agent.SacAgent, **kwargs)


def sac_v(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC_V(**SETTINGS), sac_v_agent.SacAgent, **kwargs)


CASES = [(learned, MinibatchRl), (learned, MinibatchRlEval), (fixed, MinibatchRlEval)]
CASES += [(sac_v, MinibatchRl)]


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
    run(make, RunnerCls, tmp_path / "first", n_steps=160, callbacks=[SaveState()])
    state_file = tmp_path / "first" / "run_0" / "run_state.pkl"
    second = run(make, RunnerCls, tmp_path / "second", seed=77, resume_from=state_file)
    assert_equal_snapshots(whole, second)
