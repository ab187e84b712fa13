"""Simulators in JAX with the real packages: their own numbers, ends, seeds and memory."""

import functools
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from rlpyt.envs.jax import make_brax, make_gymnax, make_playground
from rlpyt.utils.buffer import named_leaves
from tests.experiments.parts import invoke

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SEEDS = [3, 4, 5]


def needs(package):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


with_brax, with_gymnax = needs("brax"), needs("gymnax")
with_playground = needs("mujoco_playground")


def keys_of(seeds):
    import jax

    return jax.vmap(jax.random.PRNGKey)(np.array(seeds, np.uint32))


def split(keys):
    import jax

    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


def poles(t):
    return torch.tensor([1, t % 2, 0])


@with_gymnax
def test_steps_of_gymnax():
    import gymnax
    import jax

    env = make_gymnax("CartPole-v1", 3, params={"max_steps_in_episode": 12})
    env.seed(SEEDS)
    simulator, params = gymnax.make("CartPole-v1")
    params = params.replace(max_steps_in_episode=12)
    keys, used = split(keys_of(SEEDS))
    observation, state = jax.vmap(simulator.reset, (0, None))(used, params)
    np.testing.assert_array_equal(env.reset(), observation)
    # Compiled with other operations, the last digit of a sum may differ.
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    advance = jax.jit(jax.vmap(simulator.step, (0, 0, 0, None)))
    ends = {"terminated": 0, "truncated": 0}
    for t in range(30):
        keys, used = split(keys)
        step = env.step(poles(t))
        observation, state, reward, terminated, truncated, info = advance(
            used, state, poles(t).numpy(), params
        )
        close(step.next_inputs, observation)
        close(step.observation, info["final_observation"])
        np.testing.assert_array_equal(step.reward, reward)
        np.testing.assert_array_equal(step.done, terminated | truncated)
        np.testing.assert_array_equal(step.env_info.timeout, truncated & ~terminated)
        ends["terminated"] += int((step.done & ~step.env_info.timeout).sum())
        ends["truncated"] += int(step.env_info.timeout.sum())
        fallen = np.abs(step.observation[:, 2]) > np.radians(12)
        assert torch.equal(fallen, step.done & ~step.env_info.timeout)
    assert min(ends.values()) >= 2
    assert env.env._step._cache_size() == 1, "compiled more than once"


@with_brax
def test_steps_of_brax_and_its_resets():
    import jax
    from brax.envs import get_environment
    from brax.envs.wrappers import training

    env = make_brax("fast", 3, episode_length=4, obs_mode="dict_state")
    env.seed(SEEDS)
    simulator = training.wrap(get_environment("fast", obs_mode="dict_state"), episode_length=4)
    keys, used = split(keys_of(SEEDS))
    state = simulator.reset(used)
    assert set(env.reset()._fields) == set(state.obs)
    advance = jax.jit(simulator.step)
    for t in range(9):
        step = env.step(torch.ones(3, env.action_space.shape[0]))
        state = advance(state, np.ones((3, env.action_space.shape[0]), np.float32))
        for name, part in state.obs.items():
            np.testing.assert_allclose(getattr(step.next_inputs, name), part, rtol=1e-5)
        np.testing.assert_allclose(step.reward, state.reward, rtol=1e-5)
        np.testing.assert_array_equal(step.done, state.done)
        assert step.env_info.timeout.tolist() == [t % 4 == 3] * 3
        is_kept = [
            torch.equal(mine, now)
            for (_, mine), (_, now) in zip(*map(named_leaves, (step.observation, step.next_inputs)))
        ]
        assert all(is_kept) == (t % 4 != 3), "the last observation is that of the ended episode"


@with_playground
def test_steps_of_playground_and_its_resets():
    import jax
    import mujoco_playground as playground

    env = make_playground("CartpoleSwingup", 2, episode_length=3, ctrl_dt=0.02)
    env.seed(SEEDS[:2])
    simulator = playground.wrapper.wrap_for_brax_training(
        playground.registry.load("CartpoleSwingup", config_overrides={"ctrl_dt": 0.02}),
        episode_length=3,
    )
    keys, used = split(keys_of(SEEDS[:2]))
    state = jax.jit(simulator.reset)(used)
    np.testing.assert_allclose(env.reset(), state.obs, rtol=1e-5)
    advance = jax.jit(simulator.step)
    for t in range(7):
        step = env.step(torch.ones(2, 1))
        state = advance(state, np.ones((2, 1), np.float32))
        np.testing.assert_allclose(step.next_inputs, state.obs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(step.reward, state.reward, rtol=1e-4, atol=1e-6)
        assert step.done.tolist() == step.env_info.timeout.tolist() == [t % 3 == 2] * 2
        assert torch.equal(step.observation, step.next_inputs) == (t % 3 != 2)
    with pytest.raises(ValueError, match="did you mean 'CartpoleSwingup'"):
        make_playground("CartpoleSwingUp", 2)


@with_brax
def test_a_fall_in_brax_is_no_truncation():
    env = make_brax("inverted_pendulum", 2, episode_length=40)
    env.seed(SEEDS[:2])
    first = env.reset().clone()
    kinds = set()
    for _ in range(45):
        step = env.step(torch.tensor([[1.0], [0.0]]))
        for b in torch.nonzero(step.done).flatten().tolist():
            fell = abs(step.observation[b, 1].item()) > 0.2
            assert bool(step.env_info.timeout[b]) is not fell
            kinds.add(fell)
            # Brax begins again in the same state.
            torch.testing.assert_close(step.next_inputs[b], first[b])
    assert True in kinds


@with_gymnax
def test_tensors_share_the_memory_of_arrays():
    env = make_gymnax("Pendulum-v1", 4).env
    observation = env.reset(seed=1)[0]
    assert observation.data_ptr() == env._observation.unsafe_buffer_pointer()
    action = torch.zeros(4, 1)
    assert env._array(action).unsafe_buffer_pointer() == action.data_ptr()
    stepped = env.step(action)[0]
    assert stepped.data_ptr() == env._observation.unsafe_buffer_pointer()


@with_gymnax
def test_seeds_and_partial_resets():
    env = make_gymnax("CartPole-v1", 3)
    env.seed(SEEDS)
    first = env.reset().clone()
    step = env.step(poles(0))
    again = env.reset_some(torch.tensor([True, False, True]), step.observation, seeded=True)
    assert torch.equal(again[[0, 2]], first[[0, 2]])
    assert torch.equal(again[1], step.observation[1])
    assert not torch.equal(env.reset(), first)
    env.seed(SEEDS[0])
    assert torch.equal(env.reset(), first)
    assert len(torch.unique(first[:, 0])) == 3


@with_gymnax
def test_state_continues_identically():
    def rollout(env):
        return torch.stack([env.step(poles(t)).next_inputs for t in range(25)])

    env, other = (make_gymnax("CartPole-v1", 3) for _ in range(2))
    env.seed(SEEDS)
    env.reset()
    rollout(env)
    state = env.state_dict()
    expected = rollout(env)
    other.load_state_dict(state)
    assert torch.equal(rollout(other), expected)
    with pytest.raises(ValueError, match="num_envs is 2"):
        make_gymnax("CartPole-v1", 2).load_state_dict(state)


@with_brax
@with_gymnax
def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="did you mean 'CartPole-v1'"):
        make_gymnax("CartPol-v1", 2)
    with pytest.raises(ValueError, match="id is 'cheetah'"):
        make_brax("cheetah", 2)


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        pytest.param("ppo", "gymnax:CartPole-v1", marks=with_gymnax),
        pytest.param("ppo_lstm", "gymnax:CartPole-v1", marks=with_gymnax),
        pytest.param("dqn", "gymnax:CartPole-v1", marks=with_gymnax),
        pytest.param("r2d1", "gymnax:CartPole-v1", marks=with_gymnax),
        pytest.param("sac", "brax:fast", marks=with_brax),
        pytest.param("sac", "playground:CartpoleSwingup", marks=with_playground),
        pytest.param("sac_lstm", "gymnax:Pendulum-v1", marks=with_gymnax),
    ],
)
def test_agents_are_trained_and_resumed(name, environment, tmp_path):
    words = [name, environment, "sampler=device", "--seed", 0, "--log-dir", tmp_path, "threads=1"]
    known = invoke("train", name, environment, "--settings")
    words += [
        f"{key}={n}"
        for key, n in (("sampler.batch_B", 4), ("algo.min_steps_learn", 64))
        if key in known
    ]
    invoke("train", *words, "--steps", 256, "--resume")
    invoke("train", *words, "--steps", 512, "--resume")
    assert "Return" in invoke("evaluate", tmp_path / "run_0", "--episodes", 2)
