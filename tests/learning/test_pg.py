"""A2C and PPO learn with every kind of agent: feed-forward and recurrent, all kinds of spaces.

One seed runs with the other tests; more seeds, and variants, with ``RLPYT_LEARNING_SEEDS=0,1,2
pytest tests/learning``.
"""

import pytest

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs import gym
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.toy import TMaze
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.learning.instruments import Instruments
from tests.learning.test_dqn import SEEDS, _quiet as _quiet, best_return, variant

COMMON = {"gae_lambda": 0.95, "normalize_advantage": True}
PPO_SETTINGS = {
    **COMMON,
    "learning_rate": 1e-3,
    "epochs": 8,
    "ratio_clip": 0.2,
    "value_loss_coeff": 0.5,
    "entropy_loss_coeff": 0.0,
    "linear_lr_schedule": False,
}


def make_sampler(
    EnvCls, batch_T, batch_B, eval_steps, n_trajs, CollectorCls=CpuResetCollector, **env_kwargs
):
    return SerialSampler(
        EnvCls=EnvCls,
        env_kwargs=env_kwargs,
        CollectorCls=CollectorCls,
        batch_T=batch_T,
        batch_B=batch_B,
        max_decorrelation_steps=0,
        eval_n_envs=10,
        eval_max_steps=10 * eval_steps,
        eval_max_trajectories=n_trajs,
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("algo", "batch_T"),
    [
        variant(lambda: PPO(**PPO_SETTINGS), 64),
        variant(lambda: PPO(**PPO_SETTINGS, target_kl=0.03, desired_kl=0.01), 64),
        variant(lambda: A2C(**COMMON, learning_rate=3e-3, entropy_loss_coeff=0.0), 16),
    ],
    ids=["ppo", "ppo-kl", "a2c"],
)
def test_cartpole(algo, batch_T, seed):
    sampler = make_sampler(gym.make, batch_T, 8, 501, 10, id="CartPole-v1")
    best = best_return(algo(), GenericFfAgent(), sampler, 150e3, threshold=475, seed=seed)
    assert best >= 475, "random actions reach 20"


MEMORY = {**COMMON, "entropy_loss_coeff": 0.01}


def maze_ppo():
    settings = {**PPO_SETTINGS, **MEMORY, "learning_rate": 5e-3}
    return PPO(**{**settings, "minibatches": 2, "epochs": 4})


def maze_a2c():
    return A2C(**MEMORY, learning_rate=1e-2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("algo", "batch_B", "CollectorCls"),
    [
        variant(maze_ppo, 16, CpuResetCollector),
        (maze_ppo, 16, CpuWaitResetCollector),
        variant(maze_a2c, 8, CpuResetCollector),
        variant(maze_a2c, 8, CpuWaitResetCollector),
    ],
    ids=["ppo-reset", "ppo-wait", "a2c-reset", "a2c-wait"],
)
def test_maze_with_memory(algo, batch_B, CollectorCls, seed):
    agent = GenericLstmAgent(model_kwargs={"hidden_sizes": None, "lstm_size": 32})
    sampler = make_sampler(TMaze, 20, batch_B, 80, 100, CollectorCls)
    best = best_return(algo(), agent, sampler, n_steps=100e3, threshold=0.9, seed=seed)
    assert best >= 0.9, "without memory, the mean is at most 0"


@pytest.mark.variant
@pytest.mark.parametrize("algo", [maze_ppo, maze_a2c], ids=["ppo", "a2c"])
def test_maze_without_memory(algo):
    """Who cannot remember turns by chance: a mean of 0, in 100 mazes within 0.1 or so."""
    sampler = make_sampler(TMaze, 20, 16, 80, 100, CpuWaitResetCollector)
    best = best_return(algo(), GenericFfAgent(), sampler, n_steps=20e3, threshold=0.9, seed=0)
    assert -0.2 < best < 0.5


def make_instruments(actions):
    return GymEnvWrapper(Instruments(actions))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("AgentCls", "sizes", "actions"),
    [
        variant(GenericFfAgent, {}, "dict"),
        variant(GenericFfAgent, {}, "multi_discrete"),
        variant(GenericLstmAgent, {"lstm_size": 32}, "dict"),
        variant(GenericLstmAgent, {"lstm_size": 32}, "multi_discrete"),
    ],
)
def test_observations_and_actions_of_several_parts(AgentCls, sizes, actions, seed):
    sampler = make_sampler(make_instruments, 8, 32, 16, 20, actions=actions)
    model_kwargs = {"normalize_observation": True, "image_kwargs": {"fc_sizes": 32}, **sizes}
    agent = AgentCls(model_kwargs=model_kwargs, greedy_eval=True)
    algo = PPO(**{**PPO_SETTINGS, "discount": 0.5, "learning_rate": 3e-3, "epochs": 4})
    best = best_return(algo, agent, sampler, n_steps=60e3, threshold=7.4, seed=seed)
    assert best >= 7.4, "of 8; who ignores one instrument reaches 6.7"


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("AgentCls", [GenericFfAgent, MujocoFfAgent])
def test_pendulum(AgentCls, seed):
    """Torques are bounded by -2 and 2."""
    sampler = make_sampler(gym.make, 200, 8, 201, 20, id="Pendulum-v1")
    settings = {**PPO_SETTINGS, "discount": 0.9, "minibatches": 16, "epochs": 10}
    algo = PPO(**settings, normalize_return=True)
    agent = AgentCls(model_kwargs={"normalize_observation": True}, greedy_eval=True)
    best = best_return(algo, agent, sampler, n_steps=150e3, threshold=-250, seed=seed)
    assert best >= -250, "random torques reach -1200"
