from importlib.util import find_spec
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.pg.generic import AlternatingGenericLstmAgent, GenericLstmAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.base import EnvStep
from rlpyt.envs.toy import Catch
from rlpyt.experiments.evaluation import picture_of
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.runners.video import RecordVideo, Window
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.logging.sinks import RunSink

iio = pytest.importorskip("imageio.v3")

EPISODE = 10  # Pictures of an episode of Catch, with the one at its start.


class DrawnCatch(Catch):
    def render(self):
        return np.repeat(np.kron(self._obs[-1], np.ones((9, 9)))[..., None], 3, axis=-1)


class VideoSink(RunSink):
    def __init__(self):
        self.videos = []

    def write_video(self, key, path, step):
        self.videos.append((key, path.rsplit("run_0/")[1], step))


def train(tmp_path, callbacks, sinks=()):
    """Five iterations of 40 steps, a log row after the first and then after every second one."""
    agent = GenericLstmAgent(model_kwargs={"lstm_size": 8})
    runner = MinibatchRl(
        algo=A2C(),
        agent=agent,
        sampler=SerialSampler(EnvCls=DrawnCatch, env_kwargs={}, batch_T=10, batch_B=4),
        n_steps=200,
        log_interval_steps=80,
        seed=3,
        callbacks=callbacks,
    )
    with logger_context(tmp_path, 0, "test", override_prefix=True, sinks=sinks):
        runner.train()
    return agent.state_dict()


@pytest.mark.slow
def test_videos_of_a_run_that_is_the_same_without_them(tmp_path):
    sink = VideoSink()
    extensions = [".gif"] + [".mp4"] * (find_spec("av") is not None)
    videos = [
        RecordVideo(DrawnCatch, interval_logs=2, fps=20, extension=extension)
        for extension in extensions
    ]
    recorded = train(tmp_path, videos, [sink])
    plain = train(tmp_path / "plain", [])
    torch.testing.assert_close(recorded, plain, rtol=0, atol=0)
    files = sorted((tmp_path / "run_0" / "videos").iterdir())
    assert {file.suffix for file in files} == set(extensions)
    assert sorted(path for _, path, _ in sink.videos) == [f"videos/{file.name}" for file in files]
    assert {key for key, _, _ in sink.videos} == {"video"}
    for file in files:
        frames = iio.imread(file, **({"plugin": "pyav"} if file.suffix == ".mp4" else {}))
        assert len(frames) == EPISODE
        # The ball falls: it is in the first row at first, and in the last row in the end.
        bright = frames[..., 0].astype(float)
        assert bright[0][:9].max() > 200
        assert bright[-1][9:-10].max() < 60


class Lives(DrawnCatch):
    """An episode of the learner ends in the middle of the game."""

    def step(self, action):
        observation, reward, done, _ = super().step(action)
        self.t = 1 if self.is_new else self.t + 1
        self.is_new = done
        return EnvStep(observation, reward, done or self.t == 5, LivesInfo(traj_done=done))

    def reset(self):
        self.is_new = True
        return super().reset()


LivesInfo = namedarraytuple("LivesInfo", ["traj_done"])


class WatchedAgent(AlternatingGenericLstmAgent):
    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.has_state = []

    def step(self, *args):
        self.has_state.append(self.prev_rnn_state is not None)
        return super().step(*args)


@pytest.mark.parametrize(
    ("EnvCls", "has_state"),
    [
        # It acted by the states of both halves in turn, which the camera does not have.
        (DrawnCatch, [False] + [True] * (EPISODE - 2)),
        # A lost life does not end a video.
        (Lives, [False] + [True] * 4 + [False] + [True] * 3),
    ],
)
def test_an_agent_that_alternates_is_recorded_with_its_memory(EnvCls, has_state, tmp_path):
    agent = WatchedAgent(model_kwargs={"lstm_size": 8})
    agent.initialize(EnvCls().spaces)
    video = RecordVideo(EnvCls)
    runner = SimpleNamespace(agent=agent, sampler=SimpleNamespace(env_statistics=dict))
    video.on_start(runner)
    with logger_context(tmp_path, 0, "test", override_prefix=True):
        video.on_log(runner, 0, [])
    assert agent.has_state == has_state


def test_state_continues_the_interval():
    video = RecordVideo(DrawnCatch)
    video.load_state_dict({"n_logs": 7})
    assert video.state_dict() == {"n_logs": 7}


def test_an_environment_that_draws_nothing_is_refused(tmp_path):
    undrawn = RecordVideo(Catch, picture=lambda env: None)
    with pytest.raises(ValueError, match="Catch draws None instead of a picture"):
        train(tmp_path, [undrawn])
    assert not (tmp_path / "run_0" / "progress.csv").read_text()


def test_a_window_shows_pictures(monkeypatch):
    # Games were shown by OpenCV, whose package without windows the extra for Atari installs.
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window, picture = Window(), np.zeros((40, 60, 3), np.uint8)
    picture[10, 50] = 1, 2, 3
    window.show(picture, fps=1000)
    assert pygame.display.get_surface().get_size() == (60, 40)
    assert pygame.display.get_surface().get_at((50, 10))[:3] == (1, 2, 3)
    window.close()
    assert pygame.display.get_surface() is None


class Bare(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)


class Silent(Bare):
    def render(self):
        return None


@pytest.mark.parametrize("env", [Bare(), Silent(), object()])
def test_environments_that_cannot_be_drawn_are_named(env):
    with pytest.raises(ValueError, match="render_mode"):
        picture_of(env)


def test_a_game_is_drawn_without_a_window_of_opencv(monkeypatch):
    cv2 = pytest.importorskip("cv2")
    AtariEnv = pytest.importorskip("rlpyt.envs.atari.atari_env").AtariEnv

    def without_windows(*args):
        raise cv2.error("The function is not implemented")

    monkeypatch.setattr(cv2, "imshow", without_windows)
    env = AtariEnv()
    env.reset()
    assert picture_of(env, may_be_none=True).shape == (210, 160, 3)
    with pytest.raises(RuntimeError, match="opencv"):
        env.render()
