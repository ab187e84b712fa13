"""Vector environments of tensors: steps, resets and infos as of those of arrays."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlpyt.envs import control
from rlpyt.envs.device import DeviceEnvWrapper, TensorLayout, where
from rlpyt.utils.buffer import named_leaves, numpify_buffer
from tests.envs.vector_parts import MODES, make_vector
from tests.selection import each_once


class TensorSteps(gym.vector.VectorEnv):
    """:class:`tests.envs.vector_parts.Steps` in torch, writing the same tensors in every step."""

    single_observation_space = spaces.Dict(
        {
            "steps": spaces.Box(-np.inf, np.inf, (2,), np.float64),
            "kind": spaces.Discrete(3, start=1),
        }
    )
    single_action_space = spaces.Discrete(3, start=1)

    def __init__(self, num_envs, mode, final="final_obs"):
        self.num_envs, self.mode, self.final = num_envs, AutoresetMode[mode.upper()], final
        self.metadata = {"autoreset_mode": self.mode}
        self.steps = torch.zeros(num_envs, 2, dtype=torch.float64)
        self.results = ()

    def observe(self):
        return {"steps": self.steps, "kind": 1 + self.steps[:, 0].long() % 3}

    def begin(self, mask):
        self.steps += torch.stack([-self.steps[:, 0] * mask, mask.double()], dim=1)
        for result in self.results:  # Simulators clear the results of the step before.
            result[mask] = 0

    def reset(self, *, seed=None, options=None):
        assert seed is None or isinstance(seed, int), "gymnasium's type of a seed"
        every = torch.ones(self.num_envs, dtype=torch.bool)
        self.begin((options or {}).get("reset_mask", every))
        return self.observe(), {}

    def step(self, action):
        self.steps[:, 0] += 1
        count = self.steps[:, 0].clone()
        terminated, truncated = (count >= 3) & (action == 3), count == 5
        info = {"double": 2 * count, "inner": {"twice": 2 * action}, "text": "x", "one": count[0]}
        reward = (count - 1.5).float()
        if self.mode == AutoresetMode.SAME_STEP:
            if self.final:
                info[self.final] = {name: x.clone() for name, x in self.observe().items()}
                # The entries of the present episode, which has just begun, are 0.
                runs = ~(terminated | truncated)
                info["final_info"] = {"double": 2 * count, "inner": {"twice": 2 * action}}
                info["double"], info["inner"] = 2 * count * runs, {"twice": 2 * action * runs}
            self.begin(terminated | truncated)
        else:
            self.results = reward, terminated, truncated, info["double"], info["inner"]["twice"]
        return self.observe(), reward, terminated, truncated, info


@pytest.mark.parametrize("mode", MODES)
def test_steps_equal_those_of_arrays(mode):
    ours = DeviceEnvWrapper(TensorSteps(3, mode), partial_reset=True)
    theirs = make_vector(3, mode, info_example={"double": np.zeros(3)})
    for env in (ours, theirs):
        env.seed(5)
        env.reset()
    n_done = 0
    for _ in range(30):
        action = theirs.sample_actions()
        assert torch.equal(ours.sample_actions(), torch.from_numpy(action))
        step = numpify_buffer(ours.step(torch.from_numpy(action)))
        other = theirs.step(action)
        for observation, expected in zip(
            (step.observation, step.next_inputs), (other.observation, other.next_inputs)
        ):
            # The second number counts the episodes, over the resets of the set-up.
            np.testing.assert_array_equal(observation.steps[:, 0], expected.steps[:, 0])
            np.testing.assert_array_equal(observation.kind, expected.kind)
        found = dict(named_leaves(step.env_info))
        for name, values in named_leaves(other.env_info):
            np.testing.assert_array_equal(found.pop(name), values)
        assert not found
        for name in ("reward", "done"):
            mine, its = getattr(step, name), getattr(other, name)
            assert mine.dtype == its.dtype
            np.testing.assert_array_equal(mine, its)
        assert step.observation.steps.dtype == np.float32
        n_done += other.done.sum()
    assert n_done > 10


def test_one_seed_for_all_is_not_given_again_in_partial_resets():
    env = DeviceEnvWrapper(TensorSteps(2, "disabled"), partial_reset=True)
    env.seed([3, 4])
    first = env.reset()
    later = env.step(torch.ones(2, dtype=torch.int64)).observation
    again = env.reset_some(torch.tensor([True, False]), later, seeded=True)
    assert again.steps[:, 0].tolist() == [first.steps[0, 0], later.steps[1, 0]]


def test_without_last_observations_the_next_ones_take_their_place():
    env = DeviceEnvWrapper(TensorSteps(2, "same_step", final=None))
    env.reset()
    for _ in range(5):
        step = env.step(torch.zeros(2, dtype=torch.int64))
    assert step.done.all()
    assert torch.equal(step.observation.steps, step.next_inputs.steps)


def test_rewards_of_another_shape_are_refused():
    env = TensorSteps(2, "same_step")
    step = env.step
    env.step = lambda action: (lambda o, r, *rest: (o, r[:, None], *rest))(*step(action))
    with pytest.raises(ValueError, match="rewards of shape"):
        DeviceEnvWrapper(env)


@pytest.mark.parametrize(
    ("EnvCls", "mode"),
    each_once(
        (control.TorchCartPole, control.TorchPendulum),
        (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP),
    ),
)
def test_control_is_that_of_gymnasium(EnvCls, mode, monkeypatch):
    """Over more resets than are drawn ahead."""
    monkeypatch.setattr(control, "N_DRAWN", 20)
    name = {control.TorchCartPole: "CartPole-v1", control.TorchPendulum: "Pendulum-v1"}[EnvCls]
    make = [lambda: gym.make(name, max_episode_steps=2)] * 3
    ours, theirs = EnvCls(3, "cpu", 2, mode), SyncVectorEnv(make, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    ours.action_space.seed(0)
    for seed in ([3, 1, 2], None):
        np.testing.assert_array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
        for _ in range(60):
            action = ours.action_space.sample()
            found, expected = ours.step(torch.from_numpy(action)), theirs.step(action)
            for mine, its in zip(found[:4], expected[:4]):
                np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-6)


def test_episodes_of_control_have_a_step():
    with pytest.raises(ValueError, match="max_episode_steps=0"):
        control.make("CartPole-v1", num_envs=1, max_episode_steps=0)


def test_control_resets_the_environments_of_a_mask():
    env = control.TorchPendulum(3, max_episode_steps=5)
    first = env.reset(seed=4)[0]
    mask = torch.tensor([True, False, True])
    for _ in range(2):
        env.step(torch.ones(3, 1))
    moved = env.observe()
    again = env.reset(seed=4, options={"reset_mask": mask})[0]
    assert torch.equal(again[mask], first[mask])
    assert torch.equal(again[1], moved[1])
    ends = [env.step(torch.ones(3, 1))[3].tolist() for _ in range(5)]
    assert ends.index([False, True, False]) == 2
    assert ends[4] == [True, False, True]


def test_shapes_of_tensors_are_compared():
    # They were broadcast.
    layout = TensorLayout({"a": torch.ones(3)}, 3)
    assert layout.read({"a": torch.full((3,), 2.0)}).a.tolist() == [2, 2, 2]
    assert not layout.read({"a": torch.ones(3, 2)}).a.any()
    with pytest.raises(ValueError, match=r"observation of shape \(2, 1\) .*\(2, 2\)"):
        where(torch.tensor([True, False]), torch.ones(2, 1), torch.zeros(2, 2))
