"""Atari games."""

import numpy as np
import pytest

pytest.importorskip("ale_py")

from ale_py import ALEInterface, roms

from rlpyt.envs.atari import atari_env
from rlpyt.envs.atari._emulator import ScreenReader, Shrinker
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo, EnvInfo
from rlpyt.envs.base import EnvStep
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.quick_args import save__init__args
from tests.envs.stub_emulator import use_stub
from tests.selection import FULL


def play(env, n_steps, seed=0):
    """Random steps, with a reset wherever one is due."""
    rng = np.random.default_rng(seed)
    env.reset()
    results = []
    for action in rng.integers(env.action_space.n, size=n_steps):
        results.append(env.step(action))
        if results[-1].env_info.traj_done:
            env.reset()
    return results


class FakeEmulator:
    """An emulator that plays a script: one (score, lives, over) per frame."""

    def __init__(self, real, frames, at_reset=()):
        self.real, self.frames, self.at_reset = real, list(frames), list(at_reset)
        self.lives_now, self.over, self.codes = 3, False, []

    def act(self, code):
        self.codes.append(code)
        self.real.act(code)
        score, self.lives_now, self.over = self.frames.pop(0) if self.frames else (0, 3, False)
        return score

    def lives(self):
        return self.lives_now

    def game_over(self):
        return self.over

    def reset_game(self):
        self.real.reset_game()
        self.over, self.lives_now = False, 3

    def getScreen(self, out):  # noqa: N802
        return self.real.getScreen(out)

    def __getattr__(self, name):
        return getattr(self.real, name)


def stubbed(**kwargs):
    """An environment whose game is none: it takes long to load one."""
    with pytest.MonkeyPatch.context() as patch:
        use_stub(patch)
        return AtariEnv(**kwargs)


def scripted(frames, make=stubbed, **kwargs):
    """An environment after its reset, whose next frames are ``frames``."""
    env = make(**{"max_start_noops": 0, **kwargs})
    fake = FakeEmulator(env.ale, [])
    env.ale = fake
    env.reset()
    fake.frames, fake.codes = list(frames), []
    return env


# --- The image ------------------------------------------------------------------------------------


def test_images_go_from_oldest_to_newest():
    env = AtariEnv(num_img_obs=3)
    play(env, 40)  # until the ball moves
    a, b = env.step(0).observation, env.step(1).observation
    assert np.array_equal(b[:-1], a[1:])
    assert not np.array_equal(b[-1], b[-2])


@pytest.mark.parametrize("game", ["pong", "carnival", *["seaquest", "ms_pacman"] * FULL])
def test_gray_levels_are_those_of_the_emulator(game):
    env = AtariEnv(game)
    frame = np.zeros(env.ale.getScreenDims(), np.uint8)
    for step in range(8):
        play(env, 25, seed=step)
        env._get_screen(1)
        assert np.array_equal(env._raw_frame_1, env.ale.getScreenGrayscale(frame) or frame)


def test_colors_of_another_game_are_learned():
    env = AtariEnv("pong")
    reader = ScreenReader(env.ale)
    frame, expected = np.zeros((2, 210, 160), np.uint8)
    for _ in range(50):
        env.ale.act(0)
        reader.read(frame)
        env.ale.getScreenGrayscale(expected)
        assert np.array_equal(frame, expected)


def test_image_is_the_mean_of_2_x_2_rounded_half_up():
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(2, 210, 160), dtype=np.uint8)
    stack = np.zeros((2, 104, 80), np.uint8)
    Shrinker((210, 160), (104, 80)).push(*frames, stack, np.empty_like(frames[0]))
    blocks = frames.max(axis=0)[1:-1].astype(int).reshape(104, 2, 80, 2)
    assert np.array_equal(stack[1], (blocks.sum(axis=(1, 3)) + 2) // 4)
    assert not stack[0].any()


@pytest.mark.parametrize(
    ("screen", "image"),
    [
        ((210, 160), (84, 84)),
        ((250, 160), (84, 84)),
        ((210, 160), (96, 96)),
        ((250, 160), (104, 80)),
    ],
)
def test_other_sizes_are_area_means(screen, image):
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(2, *screen), dtype=np.uint8)
    stack = np.zeros((1, *image), np.uint8)
    Shrinker(screen, image).push(*frames, stack, np.empty_like(frames[0]))
    full = frames.max(axis=0)
    full = full[1:-1] if image == (104, 80) else full
    expected = cv2.resize(full, image[::-1], interpolation=cv2.INTER_AREA)
    assert np.abs(stack[0].astype(int) - expected).max() <= 1
    assert abs(stack[0].mean() - full.mean()) < 0.5


def test_maximum_is_over_the_last_two_frames():
    env = AtariEnv(frame_skip=4)
    play(env, 40)
    assert not np.array_equal(env._raw_frame_1, env._raw_frame_2)
    newest = np.zeros_like(env._raw_frame_2)
    env.ale.getScreenGrayscale(newest)
    assert np.array_equal(env._raw_frame_2, newest)


def test_frame_skip_1_takes_the_frame_before_the_action():
    env = AtariEnv(frame_skip=1)
    env.reset()
    env.step(0)
    before = env._raw_frame_2.copy()
    env.step(0)
    assert np.array_equal(env._raw_frame_1, before)


# --- Steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("frame_skip", "score"), [(1, 1), (2, 3), (4, 10)])
def test_scores_of_all_frames_add_up(frame_skip, score):
    frames = [(s, 3, False) for s in (1, 2, 3, 4)]
    for clip, reward in ((True, 1), (False, score)):
        step = scripted(frames, frame_skip=frame_skip, clip_reward=clip).step(0)
        assert (step.reward, step.env_info.game_score) == (reward, score)
        assert step.reward.dtype == step.env_info.game_score.dtype == np.float32


@pytest.mark.parametrize(("score", "sign"), [(-7, -1), (0, 0), (200, 1)])
def test_clipped_reward_is_the_sign(score, sign):
    assert scripted([(score, 3, False)]).step(0).reward == sign


def lives(*counts):
    """Four frames per step, with these lives."""
    return [(0, count, False) for count in counts for _ in range(4)]


def test_a_lost_life_ends_the_episode_but_not_the_trajectory():
    env = scripted([*lives(3), *lives(2), (0, 2, False), *lives(2)])
    first, second, third = (env.step(0) for _ in range(3))
    assert [s.done for s in (first, second, third)] == [False, True, False]
    assert not any(s.env_info.traj_done for s in (first, second, third))
    assert not second.observation[:-1].any()  # The images before the loss are gone.
    assert third.observation[-2].any()
    assert len(env.ale.codes) == 13  # One frame without action after the loss.


def test_a_gained_life_can_be_lost():
    # Gained lives used not to be counted, so that losing one went unnoticed.
    env = scripted([*lives(3), *lives(4), *lives(3)])
    assert [env.step(0).done for _ in range(3)] == [False, False, True]


def test_the_last_life_is_the_end_of_the_game():
    step = scripted([(0, 0, True)] * 4).step(0)
    assert step.done
    assert step.env_info == EnvInfo(np.float32(0), True, False)
    assert step.observation.any()


@pytest.mark.parametrize("horizon", [1, 5])
def test_horizon_is_exact(horizon):
    # Episodes used to be one step too long.
    env = stubbed(horizon=horizon, max_start_noops=0)
    for _ in range(2):
        env.reset()
        steps = [env.step(0) for _ in range(horizon)]
        assert [s.done for s in steps] == [False] * (horizon - 1) + [True]
        assert [s.env_info.traj_done for s in steps] == [s.done for s in steps]
        assert [s.env_info.timeout for s in steps] == [s.done for s in steps]


def test_an_end_of_the_game_at_the_horizon_is_no_timeout():
    step = scripted([(0, 0, True)] * 4, horizon=1).step(0)
    assert (step.done, step.env_info.timeout) == (True, False)


def test_a_lost_life_at_the_horizon_is_no_timeout():
    step = scripted(lives(2), horizon=1).step(0)
    assert step.env_info[1:] == (True, False)


def test_game_over_before_the_first_step_starts_again():
    # It used to start an episode that was over.
    env = scripted([], max_start_noops=9)
    for _ in range(30):
        # After one frame of life reset, the game is over at the second no-op, if there are two.
        env.ale.frames = [(0, 3, False), (0, 3, False), (0, 0, True)]
        env.ale.codes.clear()
        env.reset()
        if len(env.ale.codes) > 3:
            assert not env.ale.game_over()
            env.ale.frames.clear()
            assert not env.step(0).done


def test_start_has_between_zero_and_the_most_noops():
    env = scripted([], max_start_noops=3)
    counts = set()
    for _ in range(100):
        env.ale.codes.clear()
        env.reset()
        assert set(env.ale.codes) == {0}
        counts.add(len(env.ale.codes) - 1)
    assert counts == {0, 1, 2, 3}


def test_fire_on_reset_presses_fire_and_up():
    env = scripted([], AtariEnv, fire_on_reset=True, game="seaquest")
    env.ale.codes.clear()
    env.reset()
    assert env.ale.codes == [0, 1, 2]
    assert env._has_fire
    assert env._has_up


def test_trajectory_counts_the_unclipped_score():
    info = AtariTrajInfo()
    for score in (10, 20):
        info.step(None, None, 1, False, None, EnvInfo(np.float32(score), False, False))
    assert (info.GameScore, info.Return) == (30, 2)


@pytest.mark.parametrize("game", ["space_invaders", "SpaceInvaders", "Pong"])
def test_names_of_games(game):
    assert stubbed(game=game).game == game


# --- Arguments ------------------------------------------------------------------------------------


def test_unknown_game_names_the_closest():
    with pytest.raises(OSError, match="pong"):
        AtariEnv("pongg")


def test_arguments_are_properties_and_may_be_floats():
    with pytest.MonkeyPatch.context() as patch:
        use_stub(patch)
        env = AtariEnv("breakout", 2, 3, False, False, False, 7, 0.25, 27e3)
    assert (env.frame_skip, env.num_img_obs, env.max_start_noops, env.horizon) == (2, 3, 7, 27000)
    assert (env.clip_reward, env.episodic_lives, env.repeat_action_probability) == (
        False,
        False,
        0.25,
    )
    with pytest.raises(AttributeError):
        env.horizon = 3


@pytest.mark.parametrize(("full", "n"), [(False, 4), (True, 18)])
def test_action_set(full, n):
    env = AtariEnv("breakout", full_action_space=full)
    meanings = env.get_action_meanings()
    assert len(meanings) == env.action_space.n == n
    assert meanings[:4] == ["NOOP", "FIRE", *(["UP", "RIGHT"] if full else ["RIGHT", "LEFT"])]
    assert atari_env.ACTION_MEANING[17] == "DOWNLEFTFIRE"
    assert atari_env.ACTION_INDEX["UPFIRE"] == 10


# --- Seeds and state ------------------------------------------------------------------------------


def test_a_seed_begins_as_a_new_environment_does():
    env = AtariEnv("tennis", max_start_noops=0)
    # The players change sides after each game.
    first, second, _ = ([step.observation for step in play(env, 40)] for _ in range(3))
    assert not np.array_equal(first, second)
    env.seed(0)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)
    assert np.array_equal(first, [step.observation for step in play(env, 40)])


def test_lives_and_the_held_action_are_part_of_the_state():
    env, other = (scripted(lives(2, 2), AtariEnv) for _ in range(2))
    assert env.step(0).done
    other.load_state_dict(env.state_dict())
    assert not other.step(0).done
    env, other = (AtariEnv(repeat_action_probability=1, max_start_noops=0) for _ in range(2))
    env.reset()
    env.ale.held_code = 3
    other.load_state_dict(env.state_dict())
    other.ale._ale = fake = FakeEmulator(other.ale._ale, [])
    other.step(0)
    assert fake.codes == [3] * 4


def test_sticky_frames_repeat_the_action_of_the_frame_before():
    env = stubbed(repeat_action_probability=0.25, max_start_noops=0)
    env.ale._ale = fake = FakeEmulator(env.ale._ale, [])
    env.seed(0)
    env.reset()
    fake.codes.clear()
    actions = [2, 3] * 400
    for action in actions:
        env.step(action)
    asked = [env._action_set[action] for action in actions for _ in range(4)]
    held, repeats = 0, 0
    for code, wanted in zip(fake.codes, asked):
        assert code in (wanted, held)
        repeats += code != wanted
        held = code
    # A change of action is late by one frame with probability 1/4, by two with 1/16, ...
    assert repeats / 800 == pytest.approx(1 / 3, abs=0.05)
    assert len(asked) == len(fake.codes)


# --- Subclasses -----------------------------------------------------------------------------------


def test_subclasses_can_replace_how_screens_are_read_and_stacked(monkeypatch):
    class Inverted(AtariEnv):
        def _get_screen(self, frame=1):
            super()._get_screen(frame)
            target = self._raw_frame_1 if frame == 1 else self._raw_frame_2
            target[...] = 255 - target

    class Constant(AtariEnv):
        def _update_obs(self):
            self._obs[...] = 7

    use_stub(monkeypatch)
    assert Inverted().reset()[-1].mean() > AtariEnv().reset()[-1].mean()
    env = Constant()
    assert np.all(env.reset() == 7)
    assert np.all(env.step(0).observation == 7)


def test_render_shows_the_newest_image_or_all(monkeypatch):
    cv2 = pytest.importorskip("cv2")
    shown = []
    monkeypatch.setattr(cv2, "imshow", lambda name, image: shown.append((name, image.shape)))
    monkeypatch.setattr(cv2, "waitKey", lambda wait: None)
    env = stubbed()
    env.reset()
    env.render()
    env.render(show_full_obs=True)
    assert shown == [("pong", (104, 80)), ("pong", (104, 320))]


# --- A constructor of one's own -------------------------------------------------------------------


class OwnConstructor(AtariEnv):
    """Makes emulator, spaces and buffers itself, as programs did before there were hooks."""

    def __init__(
        self,
        game="pong",
        frame_skip=4,
        num_img_obs=4,
        clip_reward=True,
        episodic_lives=True,
        fire_on_reset=False,
        max_start_noops=30,
        repeat_action_probability=0.0,
        horizon=27000,
        no_extrinsic=False,
    ):
        save__init__args(locals(), underscore=True)
        self.ale = ALEInterface()
        self.ale.setFloat("repeat_action_probability", repeat_action_probability)
        self.ale.loadROM(roms.get_rom_path(game))
        self._action_set = self.ale.getMinimalActionSet()
        self._action_space = IntBox(low=0, high=len(self._action_set))
        self._observation_space = IntBox(0, 255, shape=(num_img_obs, 104, 80), dtype="uint8")
        self._max_frame = self.ale.getScreenGrayscale()
        self._raw_frame_1 = self._max_frame.copy()
        self._raw_frame_2 = self._max_frame.copy()
        self._obs = np.zeros((num_img_obs, 104, 80), dtype="uint8")
        self._has_fire = "FIRE" in self.get_action_meanings()
        self._has_up = "UP" in self.get_action_meanings()
        self.reset()


class OwnEpisodes(OwnConstructor):
    """Also resets and steps by itself, through the private methods."""

    def reset(self):
        self.ale.reset_game()
        self._reset_obs()
        self._life_reset()
        self._update_obs()
        self._step_counter = 0
        return self.get_obs()

    def step(self, action):
        code = self._action_set[action]
        score = sum(self.ale.act(code) for _ in range(self._frame_skip - 1))
        self._get_screen(1)
        score += self.ale.act(code)
        lost_life = self._check_life()
        if lost_life and self._episodic_lives:
            self._reset_obs()
        self._update_obs()
        is_over = self.ale.game_over() or self._step_counter >= self.horizon
        self._step_counter += 1
        info = EnvInfo(score, is_over)
        return EnvStep(self.get_obs(), np.sign(score), is_over or lost_life, info)


@pytest.mark.parametrize("cls", [OwnConstructor, OwnEpisodes])
def test_subclasses_may_replace_the_constructor(cls):
    # Reading the screen and stacking images needed objects that only our constructor made.
    kwargs = {"game": "breakout", "max_start_noops": 0, "fire_on_reset": True}
    ours, env = AtariEnv(**kwargs), cls(**kwargs)
    ours.seed(3)
    env.seed(3)
    if issubclass(cls, OwnEpisodes):
        env.fire_and_up = ours.fire_and_up = lambda: None
    for expected, step in zip(play(ours, 60), play(env, 60)):
        assert np.array_equal(step.observation, expected.observation)
        assert step[1:3] == expected[1:3]
        assert step.env_info[:2] == expected.env_info[:2]
    assert np.array_equal(env._max_frame, np.maximum(env._raw_frame_1, env._raw_frame_2))
    assert env.get_action_meanings() == ours.get_action_meanings()
    assert env.load_state_dict(env.state_dict()) is None


class FramesWithAxis(OwnConstructor):
    """Keeps raw frames [210,160,1], as older emulators gave them, and counts the reads."""

    calls = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._raw_frame_1 = self._raw_frame_1[..., None]
        self._raw_frame_2 = self._raw_frame_2[..., None]
        self._max_frame = self._max_frame[..., None]
        self.__dict__.pop("_shrinker")  # Made in the reset of the constructor.

    def _get_screen(self, frame=1):
        self.calls += 1
        super()._get_screen(frame)


@pytest.mark.parametrize("img_shape", [(104, 80), (84, 84)])
def test_raw_frames_may_have_a_last_axis_of_one(img_shape):
    # The screen reader looks up eight pixels at a time along the last axis, which has one.
    ours = AtariEnv("breakout", max_start_noops=0, img_shape=img_shape)
    env = FramesWithAxis(game="breakout", max_start_noops=0)
    env._obs = np.zeros((4, *img_shape), "uint8")
    ours.seed(3)
    env.seed(3)
    for expected, step in zip(play(ours, 40), play(env, 40)):
        assert np.array_equal(step.observation, expected.observation)
    assert env.calls > 40
    assert np.array_equal(env._max_frame[..., 0], ours._max_frame)
    assert env._max_frame.shape == env._raw_frame_1.shape == (210, 160, 1)
    env.load_state_dict(env.state_dict())
