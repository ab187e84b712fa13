"""Isaac Lab and ManiSkill, by stand-ins that have the interface in their documentation."""

import sys
from types import ModuleType, SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlpyt.envs import isaac, maniskill
from rlpyt.envs.device import DeviceEnvWrapper

LIMIT = 4
STATE = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)


class Counting:
    """Environments that observe their step and episode, and succeed where actions sum to over 1."""

    def __init__(self, num_envs):
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.steps = torch.zeros(num_envs, dtype=torch.int64)
        self.episodes = torch.zeros(num_envs, dtype=torch.int64)

    def begin(self, which):
        self.steps[which] = 0
        self.episodes[which] += 1

    def state(self):
        return torch.stack([self.steps, self.episodes], dim=1).float()

    def advance(self, actions):
        self.steps += 1
        return actions.sum(1), actions.sum(1) > 1, self.steps >= LIMIT


class IsaacTask(Counting, gym.Env):
    """A task of Isaac Lab: persistent buffers, groups of observations, logs that are scalars."""

    metadata = {"render_modes": [None]}

    def __init__(self, cfg):
        super().__init__(cfg.num_envs)
        self.cfg, self.extras, self.device = cfg, {}, "cpu"
        self.single_observation_space = gym.spaces.Dict({"policy": STATE, "critic": STATE})
        self.single_action_space = gym.spaces.Box(-np.inf, np.inf, (3,))
        self.reward_buf = torch.zeros(self.num_envs)
        self.reset_terminated = torch.zeros(self.num_envs, dtype=torch.bool)
        self.reset_time_outs = torch.zeros(self.num_envs, dtype=torch.bool)
        self.obs_buf = torch.zeros(self.num_envs, 2)
        self.seeds = []

    def observe(self):
        self.obs_buf[:] = self.state()
        return {"policy": self.obs_buf, "critic": -self.obs_buf}

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        self.begin(slice(None))
        return self.observe(), self.extras

    def step(self, actions):
        assert actions.abs().max() <= 1
        self.reward_buf[:], self.reset_terminated[:], self.reset_time_outs[:] = self.advance(
            actions
        )
        over = torch.nonzero(self.reset_terminated | self.reset_time_outs).flatten()
        if len(over):
            if getattr(self.cfg, "compute_final_obs", False):
                self.extras["final_obs"] = {"policy": self.state(), "critic": -self.state()}
            self.begin(over)
            self.extras["log"] = {"Episode_Reward/progress": torch.tensor(0.5)}
        ends = self.reset_terminated, self.reset_time_outs
        return self.observe(), self.reward_buf, *ends, self.extras


class ManiSkillVectorEnv(Counting, gym.vector.VectorEnv):
    """The vector wrapper of ManiSkill, whose ``unwrapped`` is the task."""

    def __init__(self, env, auto_reset=True, ignore_terminations=False):
        assert auto_reset
        super().__init__(env.num_envs)
        self.ignores, self.seeds = ignore_terminations, []
        self.single_observation_space, self.single_action_space = STATE, env.action_space
        self.observation_space = gym.vector.utils.batch_space(STATE, self.num_envs)
        self.action_space = gym.vector.utils.batch_space(env.action_space, self.num_envs)

    @property
    def unwrapped(self):
        return SimpleNamespace()

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.begin((options or {}).get("env_idx", slice(None)))
        return self.state(), {"reconfigure": False}

    def step(self, actions):
        reward, success, truncated = self.advance(actions)
        infos = {"elapsed_steps": self.steps.clone(), "success": success}
        terminated = torch.zeros_like(success) if self.ignores else success
        observation, done = self.state(), terminated | truncated
        if done.any():
            final, told = observation, infos
            observation, infos = self.reset(options={"env_idx": torch.nonzero(done).flatten()})
            infos.update(final_observation=final, final_info=told, _final_info=done)
            infos.update(_final_observation=done, _elapsed_steps=done)
        return observation, reward, terminated, truncated, infos


def isaac_env(num_envs=3, **settings):
    return DeviceEnvWrapper(
        isaac.IsaacVectorEnv(IsaacTask(SimpleNamespace(num_envs=num_envs, **settings)))
    )


def maniskill_env(num_envs=3, **kwargs):
    box = gym.spaces.Box(-1, 1, (3,), np.float32)
    task = SimpleNamespace(num_envs=num_envs, action_space=box)
    vector = ManiSkillVectorEnv(task, **kwargs)
    return DeviceEnvWrapper(maniskill.ManiSkillEnv(vector), partial_reset=True)


def rollout(env, n_steps=LIMIT + 1):
    """Steps of which the second is the success of the first environment; others reach the limit."""
    env.seed(7)
    first = env.reset().clone()
    steps = []
    for t in range(n_steps):
        action = torch.zeros(env.num_envs, 3)
        action[0] = float(t == 1)
        step = env.step(action)
        # Copies, since results may be buffers of the simulator.
        steps.append([x.clone() for x in (*step[:3], step.env_info.timeout, step.next_inputs)])
    return first, [torch.stack(parts) for parts in zip(*steps)]


@pytest.mark.parametrize("make", [lambda: isaac_env(compute_final_obs=True), maniskill_env])
def test_ends_and_last_observations(make):
    env = make()
    assert env.spaces.action.low.tolist() == [-1, -1, -1]
    first, (observation, reward, done, timeout, next_inputs) = rollout(env)
    assert first[:, 0].tolist() == [0, 0, 0]
    assert reward[1].tolist() == [3, 0, 0]
    assert done.T.tolist()[0] == [False, True, False, False, False]
    assert done.T.tolist()[1] == [False, False, False, True, False]
    assert torch.equal(timeout, done & (torch.arange(3) > 0))
    # The last observation belongs to the ended episode, the next inputs to the following one.
    assert observation[:, 0, 0].tolist() == [1, 2, 1, 2, 3]
    assert next_inputs[:, 0, 0].tolist() == [1, 0, 1, 2, 3]
    assert observation[:, 1, 0].tolist() == [1, 2, 3, 4, 1]
    assert next_inputs[:, 1, 0].tolist() == [1, 2, 3, 0, 1]
    assert (next_inputs[3, 1, 1] - observation[3, 1, 1]).item() == 1


def test_isaac_without_last_observations_gives_those_before_the_step():
    _, (observation, _, done, _, next_inputs) = rollout(isaac_env())
    assert done[3, 1]
    assert observation[:, 1, 0].tolist() == [1, 2, 3, 3, 1]
    assert next_inputs[:, 1, 0].tolist() == [1, 2, 3, 0, 1]


def test_time_limits_of_finite_horizons_of_isaac_terminate():
    _, (_, _, done, timeout, _) = rollout(isaac_env(is_finite_horizon=True))
    assert done[3, 1]
    assert not timeout.any()


def test_groups_and_seeds_of_isaac():
    task = IsaacTask(SimpleNamespace(num_envs=2))
    env = DeviceEnvWrapper(isaac.IsaacVectorEnv(task, group="critic", bound=0.5))
    assert env.action_space.high.tolist() == [0.5] * 3
    env.seed([5, 6])
    env.reset()
    env.reset()
    assert task.seeds[-2:] == [5, None]
    assert env.step(torch.zeros(2, 3)).observation[:, 0].tolist() == [-1, -1]
    with pytest.raises(ValueError, match="group is 'teacher': the task observes critic, policy"):
        isaac.IsaacVectorEnv(task, group="teacher")
    with pytest.raises(ValueError, match="max_decorrelation_steps=0"):
        env.reset_some(torch.tensor([True, False]), env.reset())


def test_success_and_partial_resets_of_maniskill():
    env = maniskill_env(ignore_terminations=True)
    first = env.reset()
    success = [env.step(torch.full((3, 3), float(t == 3))).env_info.is_success for t in range(4)]
    assert torch.stack(success).sum(1).tolist() == [0, 0, 0, 3]
    env.reset()
    step = env.step(torch.zeros(3, 3))
    again = env.reset_some(torch.tensor([True, False, True]), step.observation)
    assert again[:, 0].tolist() == [0, 1, 0]
    assert first.dtype == torch.float32


def test_tasks_are_made_by_their_packages(monkeypatch):
    """With the calls that both document."""
    launched = []
    modules = {
        "isaaclab.app": dict(
            AppLauncher=lambda **kwargs: launched.append(kwargs) or SimpleNamespace(app=None)
        ),
        "isaaclab_tasks.utils": dict(
            parse_env_cfg=lambda id, device, num_envs: SimpleNamespace(
                num_envs=num_envs, compute_final_obs=False
            )
        ),
        "mani_skill.envs": {},
        "mani_skill.vector.wrappers.gymnasium": dict(ManiSkillVectorEnv=ManiSkillVectorEnv),
    }
    for name, content in modules.items():
        parts = name.split(".")
        for n in range(1, len(parts) + 1):
            module = ModuleType(".".join(parts[:n]))
            monkeypatch.setitem(sys.modules, module.__name__, module)
        vars(module).update(content)

    def make(id, num_envs=None, obs_mode=None, cfg=None):
        box = gym.spaces.Box(-1, 1, (3,), np.float32)
        return (
            SimpleNamespace(num_envs=num_envs, action_space=box) if cfg is None else IsaacTask(cfg)
        )

    monkeypatch.setattr(gym, "make", make)
    for _ in range(2):
        env = isaac.make("Isaac-Ant-v0", num_envs=2, device="cpu")
    assert launched == [{"headless": True, "device": "cpu"}]
    assert env.env.env.cfg.compute_final_obs
    assert maniskill.make("PickCube-v1", num_envs=2).num_envs == 2
