"""Vector environments: a transition for each action, none for a reset, in all modes."""

import gymnasium as gym
import numpy as np
import pytest

from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector import VectorEnvWrapper, make
from rlpyt.utils.buffer import leaves
from tests.envs.vector_parts import MODES, Steps, make_vector
from tests.selection import FULL


@pytest.mark.parametrize("mode", MODES)
def test_a_step_has_the_end_and_the_next_start(mode):
    env = make_vector(2, mode)
    first = env.reset()
    assert first.steps.dtype == np.float32
    for t, actions in enumerate(([0, 0], [0, 0], [2, 0], [0, 0])):  # The first one ends at once.
        step = env.step(np.array(actions))
        if t == 2:
            assert step.done.tolist() == [True, False]
            assert step.observation.steps[:, 0].tolist() == [3, 3]
            assert step.next_inputs.steps[:, 0].tolist() == [0, 3]
            assert step.env_info.double.tolist() == [6, 6]
            assert step.env_info.inner.twice.tolist() == [6, 2]
            assert not step.env_info.timeout.any()
    # Dense: the step after the end is one of the next episode, in every mode.
    assert step.observation.steps[:, 0].tolist() == [1, 4]
    assert step.reward.tolist() == [-0.5, 2.5]
    step = env.step(np.array([0, 0]))
    assert step.done.tolist() == [False, True]
    assert step.env_info.timeout.tolist() == [False, True]
    assert step.observation.kind.tolist() == [2, 2]  # 1 + count % 3, counted from zero
    assert step.next_inputs.kind.tolist() == [2, 0]


def wrapped(seeds):
    wrappers = gym.wrappers.vector
    envs = gym.make_vec(
        "CartPole-v1",
        num_envs=2,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
    )
    env = VectorEnvWrapper(wrappers.NormalizeReward(wrappers.RecordEpisodeStatistics(envs)))
    env.seed(seeds)
    env.reset()
    return env


def test_wrappers_of_gymnasium_go_on_from_their_state():
    one, other = wrapped([1, 2]), wrapped([5, 6])
    for _ in range(7):
        one.step(np.array([0, 1]))
    other.load_state_dict(one.state_dict())
    for _ in range(20):  # Past the ends of episodes.
        step, again = (env.step(np.array([1, 1])) for env in (one, other))
        np.testing.assert_array_equal(step.observation, again.observation)
        np.testing.assert_array_equal(step.reward, again.reward)


@pytest.mark.parametrize("name", ["NormalizeReward", "RecordEpisodeStatistics"])
def test_wrappers_that_partial_resets_empty_are_refused(name):
    # Returns were as large as single rewards, and lengths those since the reset of any other.
    envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(ValueError, match=f"{name} computes wrong .* SAME_STEP"):
        VectorEnvWrapper(getattr(gym.wrappers.vector, name)(envs))


gym.register(
    "Reusing-v0",
    entry_point="tests.envs.vector_parts:Steps",
    disable_env_checker=True,  # Which warns of such environments.
    kwargs={"reuses": True},
)


@pytest.mark.parametrize("copies", [True, False])
def test_arrays_that_environments_reuse_keep_the_last_observation(copies):
    env = make("Reusing-v0", 2, vector_kwargs={"copy": copies})
    env.reset()
    for _ in range(5):
        step = env.step(np.zeros(2, dtype=int))
    assert step.observation.steps[:, 0].tolist() == [5, 5]
    assert step.next_inputs.steps[:, 0].tolist() == [0, 0]


class Clearing(gym.vector.SyncVectorEnv):
    """Clears in a reset the arrays that its last step returned."""

    results = ()

    def reset(self, *, seed=None, options=None):
        for result in self.results:
            result[(options or {}).get("reset_mask", ...)] = 0
        return super().reset(seed=seed, options=options)

    def step(self, actions):
        observation, *results, info = super().step(actions)
        self.results = *results, info["double"], info["inner"]["twice"]
        return observation, *results, info


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_results_that_a_reset_clears_are_kept(mode):
    autoreset = gym.vector.AutoresetMode[mode.upper()]
    env = VectorEnvWrapper(Clearing([Steps] * 2, autoreset_mode=autoreset), partial_reset=True)
    other = make_vector(2, mode)
    for each in (env, other):
        each.seed(3)
        each.reset()
    for _ in range(12):
        action = other.sample_actions()
        for mine, its in zip(leaves(env.step(action)), leaves(other.step(action)), strict=True):
            np.testing.assert_array_equal(mine, its)


class Integers(gym.Env):
    """Starts with integers, though its space is of floats."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, dtype=int), {}

    def step(self, action):
        return np.full(2, 0.5, dtype=np.float32), 0.0, False, False, {}


def test_observations_have_the_type_of_their_space():
    vector = VectorEnvWrapper(gym.vector.SyncVectorEnv([Integers] * 2))
    for env in (GymEnvWrapper(Integers()), vector):
        assert env.reset().dtype == np.float32
        assert env.step(np.zeros(2, dtype=int) if env is vector else 0).observation.all()


class Late(Integers):
    """Says in every info that the time is over."""

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, bool(action), False, {"timeout": True}


def test_a_timeout_in_the_info_counts_at_an_end_only():
    env = VectorEnvWrapper(gym.vector.SyncVectorEnv([Late] * 2))
    env.reset()
    assert env.step(np.array([0, 1])).env_info.timeout.tolist() == [False, True]


class Sticky(gym.Env):
    """Observes the action before, which a reset does not clear, as in MinAtar."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(100)
    before = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        before, self.before = self.before, action
        return np.full(1, before, np.float32), 0.0, False, False, {}


def test_construction_leaves_no_random_action_behind():
    single = GymEnvWrapper(Sticky())
    single.reset()
    assert single.step(1).observation == 0
    vector = VectorEnvWrapper(gym.vector.SyncVectorEnv([Sticky] * 2))
    vector.reset()
    assert not vector.step(np.ones(2, dtype=int)).observation.any()


def test_the_first_episode_is_the_first_one_of_its_seed():
    env = make("CartPole-v1", 2)
    first = env.reset()
    env.seed(env._seeds)
    np.testing.assert_array_equal(env.reset(), first)


class OfOneSeed(gym.vector.SyncVectorEnv):
    """Takes one seed, and keeps it."""

    def reset(self, *, seed=None, options=None):
        self.given = seed
        return super().reset(seed=seed, options=options)


def test_a_vector_that_takes_one_seed_gets_the_first():
    same_step = gym.vector.AutoresetMode.SAME_STEP
    env = VectorEnvWrapper(OfOneSeed([Steps] * 3, autoreset_mode=same_step))
    env.seed(5)
    env.reset()
    assert env.env.given == 5


def test_terminated_and_truncated_at_once_is_no_timeout():
    env = make_vector(1)
    env.reset()
    for action in (0, 0, 0, 0, 2):
        step = env.step(np.array([action]))
    assert step.done.all()
    assert not step.env_info.timeout.any()


def test_info_has_the_fields_of_the_step_without_masks_and_texts():
    env = make_vector(2)
    env.reset()
    info = env.step(np.array([0, 0])).env_info
    assert info._fields == ("double", "inner", "timeout")
    assert info.inner._fields == ("twice",)


def test_info_examples_are_for_any_number_of_environments():
    # Evaluation, with another number, lost the entry or failed.
    for num_envs in (1, 2, 4):
        env = make("CartPole-v1", num_envs, info_example={"lap": np.arange(2.0)})
        env.reset()
        assert env.step(np.zeros(num_envs, int)).env_info.lap.shape == (num_envs,)


def test_next_step_mode_without_shared_memory_is_refused():
    # Its workers keep the flag of the automatic reset, which then is a step without an action.
    kwargs = {"vectorization_mode": "async", "max_episode_steps": 3}
    own = {"vector_kwargs": {"shared_memory": False}}
    with pytest.raises(ValueError, match="shared_memory=False .* SAME_STEP or DISABLED"):
        make("CartPole-v1", 2, "next_step", **kwargs, **own)
    env = make("CartPole-v1", 2, "disabled", **kwargs, **own)
    try:
        env.reset()
        steps = [env.step(np.array([0, 1])) for _ in range(9)]
        assert [step.done.all() for step in steps] == [False, False, True] * 3
        assert all(step.reward.all() for step in steps)
    finally:
        env.close()


def test_actions_have_the_type_of_those_of_one_environment():
    class Precise(Integers):
        action_space = gym.spaces.Box(-1, 1, (1,), np.float64)

    vector = VectorEnvWrapper(gym.vector.SyncVectorEnv([Precise] * 2))
    for env in (GymEnvWrapper(Precise()), vector):
        assert env.action_space.null_value().dtype == np.float32
    assert vector.sample_actions().dtype == np.float32


@pytest.mark.parametrize("mode", MODES)
def test_seed_and_state_continue_identically(mode):
    def steps(env, n):
        rows = []
        for _ in range(n):
            step = env.step(env.sample_actions())
            rows.append((step.observation.copy(), step.done.copy(), step.next_inputs.copy()))
        return rows

    envs = [make("CartPole-v1", 3, mode, max_episode_steps=9) for _ in range(2)]
    for env in envs:
        env.seed(5)
        env.reset()
    np.testing.assert_equal(steps(envs[0], 15), steps(envs[1], 15))
    state = envs[0].state_dict()
    rows = steps(envs[0], 15)
    other = make("CartPole-v1", 3, mode, max_episode_steps=9)
    other.load_state_dict(state)
    np.testing.assert_equal(steps(other, 15), rows)


class Whimsical(Steps):
    """Draws from its own action space."""

    def step(self, action):
        return *super().step(action)[:1], float(self.action_space.sample()), False, False, {}


def test_environments_may_draw_from_their_action_spaces():
    def rewards(n):
        return [env.step(np.array([1, 1])).reward.tolist() for _ in range(n)]

    drawn = []
    for _ in range(2):
        env = VectorEnvWrapper(gym.vector.SyncVectorEnv([Whimsical] * 2))
        env.seed([5, 6])
        env.reset()
        drawn.append(rewards(9))
    assert drawn[0] == drawn[1]
    assert [a for a, _ in drawn[0]] != [b for _, b in drawn[0]]


def test_a_partial_reset_with_seeds_is_like_the_first_one():
    env = make("CartPole-v1", 3)
    env.seed(5)
    first = env.reset()
    for _ in range(3):
        observation = env.step(env.sample_actions()).next_inputs
    which = np.array([False, True, False])
    again = env.reset_some(which, observation, seeded=True)
    np.testing.assert_array_equal(again[1], first[1])
    np.testing.assert_array_equal(again[[0, 2]], observation[[0, 2]])


def test_asynchronous_environments_step_and_have_no_state_to_save():
    env = make("CartPole-v1", 2, "next_step", vectorization_mode="async", max_episode_steps=4)
    try:
        env.seed(1)
        env.reset()
        for _ in range(4):
            step = env.step(np.array([0, 1]))
        assert step.done.all()
        assert step.env_info.timeout.all()
        assert (step.next_inputs != step.observation).any()
        with pytest.raises(NotImplementedError, match="SyncVectorEnv"):
            env.state_dict()
    finally:
        env.close()


# --- Atari ----------------------------------------------------------------------------------------


def atari(**kwargs):
    pytest.importorskip("ale_py.vector_env")
    from rlpyt.envs.atari.vector import AtariVector

    return AtariVector(**{"game": "breakout", "num_envs": 3, "num_threads": 1, **kwargs})


def play(env, n_steps):
    env.seed(2)
    env.reset()
    rng = np.random.default_rng(0)
    return [env.step(rng.integers(4, size=env.num_envs)) for _ in range(n_steps)]


@pytest.mark.parametrize("mode", ["next_step", *["same_step"] * FULL])
def test_atari_is_cut_at_its_horizon_and_goes_on_dense(mode):
    steps = play(atari(episodic_lives=False, horizon=10, autoreset_mode=mode), 25)
    dones = [t for t, step in enumerate(steps) if step.done.any()]
    # Starts with random no-ops count, so games differ in length by some steps.
    assert dones
    assert all(step.env_info.timeout[step.done].all() for step in steps)
    for step in steps:
        changed = (step.next_inputs != step.observation).any(axis=(1, 2, 3))
        assert changed.tolist() == step.done.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "kwargs"),
    [
        ("qbert", {"clip_reward": False, "frame_skip": 3, "num_img_obs": 2}),
        ("space_invaders", {"episodic_lives": False, "horizon": 120}),
        *[
            ("breakout", {}),
            ("ms_pacman", {"img_shape": (105, 80), "full_action_space": True}),
        ]
        * FULL,
    ],
)
def test_atari_vector_is_atari_env_but_for_what_it_documents(game, kwargs):
    vector = atari(game=game, num_envs=1, max_start_noops=0, **kwargs)
    from rlpyt.envs.atari.atari_env import AtariEnv

    class WithoutNoopFrames(AtariEnv):
        def _life_reset(self):
            self._lives = self.ale.lives()

    single = WithoutNoopFrames(game, max_start_noops=0, **{"img_shape": (84, 84), **kwargs})
    assert single.observation_space.shape == vector.observation_space.shape
    assert single.action_space.n == vector.action_space.n
    observations = single.reset(), vector.reset()[0]
    actions = np.random.default_rng(0).integers(single.action_space.n, size=400)
    n_ends = n_points = 0
    for action in actions:
        newest = [observation[-1].astype(int) for observation in observations]
        assert np.abs(newest[0] - newest[1]).max() <= ("img_shape" not in kwargs)
        mine, others = single.step(action), vector.step(np.array([action]))
        assert (mine.reward, mine.done) == (others.reward[0], others.done[0])
        assert tuple(mine.env_info) == tuple(
            getattr(others.env_info, name)[0] for name in mine.env_info._fields
        )
        assert single.ale.lives() == others.env_info.lives[0]
        n_ends, n_points = n_ends + mine.done, n_points + abs(mine.env_info.game_score)
        observations = mine.observation, others.next_inputs[0]
        if mine.env_info.traj_done:
            observations = single.reset(), others.next_inputs[0]
        elif mine.done:  # The last image of an episode may be of one frame.
            observations = (observations[1],) * 2
    assert n_ends >= 2
    assert n_points > 0
    vector.close()


# --- EnvPool --------------------------------------------------------------------------------------


def test_pools_of_envpool_are_dense_seeded_and_reset_in_part():
    pytest.importorskip("envpool")
    from rlpyt.envs.envpool import make as make_pool

    env = make_pool("CartPole-v1", 3, max_episode_steps=12, num_threads=1)

    def play():
        env.seed(4)
        observations, ends = [env.reset()], []
        for _ in range(30):
            step = env.step(np.array([1, 0, len(ends) % 2]))  # The third one is truncated.
            ends.append(step.done)
            begun = step.next_inputs[step.done]
            assert (np.abs(begun) <= 0.05).all()  # First observations of the next episodes.
            if step.done.any():
                assert (step.env_info.elapsed_step[step.done] > 1).all()
                assert (np.abs(step.observation[step.done]) > 0.05).any(axis=1).all()
            assert step.env_info.timeout.tolist() == [False, False, bool(step.done[2])]
            assert (step.reward == 1).all()  # No step is a reset.
            observations.append(step.next_inputs)
        assert np.array(ends).sum(axis=0).tolist()[2] == 2
        return np.array(observations)

    first = play()
    assert len(np.unique(first[0, :, 0])) == 3
    np.testing.assert_array_equal(first, play())
    env.close()
