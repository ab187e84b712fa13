"""Videos: a callback that records episodes, the camera that it uses, and the writer of files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.core.protocols import AgentLike, EnvLike, RunnerLike
from rlpyt.core.records import AgentInputs, trajectory_end
from rlpyt.core.rows import as_element, observation_rows
from rlpyt.core.statistics import HasStatistics, Statistics
from rlpyt.distributions.noise import ActingNoise
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.buffer import buffer_from_example, numpify_buffer, torchify_buffer
from rlpyt.utils.logging import logger
from rlpyt.utils.names import import_extra
from rlpyt.utils.quick_args import whole_number
from rlpyt.utils.seed import evaluation_streams, rng_state, set_rng_state
from rlpyt.utils.types import NDArray


class RecordVideo(Callback):
    """Callback that plays an episode at regular log rows, and writes a video of it.

    Videos are saved in the directory ``videos`` of the run, and sent to sinks that take videos. The
    agent acts in evaluation mode, in a separate environment with separate random numbers, so videos
    change nothing in the run.

    ::

        RecordVideo(gym.make, dict(id="Hopper-v5", render_mode="rgb_array"))
        RecordVideo(AtariEnv, dict(game="pong"), picture=lambda env: env.ale.getScreenRGB())

    Args:
        EnvCls: class of the environment, or function that makes it.
        env_kwargs: arguments of ``EnvCls``.
        interval_logs: number of log rows from one video to the next; the first row has one.
        max_steps: largest number of steps in a video.
        fps: number of frames per second.
        extension: ``".gif"``, or ``".mp4"``.
        picture: function of the environment that returns a picture [H,W,3] uint8; None for
            ``render()``.
    """

    def __init__(
        self,
        EnvCls: Callable[..., Any],
        env_kwargs: Mapping[str, Any] | None = None,
        interval_logs: int = 10,
        max_steps: int = 1000,
        fps: float = 30,
        extension: str = ".gif",
        picture: Callable[[Any], Any] | None = None,
    ) -> None:
        if extension not in (".gif", ".mp4"):
            raise ValueError(f"extension={extension!r} must be '.gif' or '.mp4'")
        self.EnvCls = EnvCls
        self.env_kwargs = dict(env_kwargs or {})
        self.interval_logs = whole_number("interval_logs", interval_logs)
        self.max_steps = max_steps
        self.fps = fps
        self.extension = extension
        self.picture = picture
        self._n_logs = 0
        self._camera: Camera | None = None

    def on_start(self, runner: RunnerLike) -> None:
        """Make the environment, and try to draw it before training starts."""
        check_video_packages(self.extension)
        before = rng_state()  # They seed the generator of the environment.
        self._camera = Camera(self.EnvCls(**self.env_kwargs), self._draw, [])
        self._camera.reset()
        set_rng_state(before)

    def on_log(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Record an episode if due."""
        directory = logger.get_snapshot_dir()
        if directory is not None and self._n_logs % self.interval_logs == 0:
            path = Path(directory) / "videos" / f"itr_{itr}{self.extension}"
            statistics: Statistics = getattr(runner.sampler, "env_statistics", dict)()
            env = self._camera and self._camera.env
            if statistics and isinstance(env, HasStatistics):
                env.use_statistics(statistics)
            with evaluation_streams(itr):
                frames = self._play(runner.agent, itr)
            try:
                write_video(path, frames, self.fps)
                logger.record_video("video", path)
            except OSError as error:
                logger.log(f"Could not write {path}: {error}")
        self._n_logs += 1

    def on_end(self, runner: RunnerLike) -> None:
        """Close the environment."""
        if self._camera is not None:
            self._camera.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of log rows so far."""
        return {"n_logs": self._n_logs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``."""
        self._n_logs = state["n_logs"]

    def _play(self, agent: AgentLike, itr: int) -> list[NDArray]:
        """Return the pictures of one episode."""
        env = self._camera
        assert env is not None
        observation = env.reset()
        null_action = env.action_space.null_value()
        inputs = AgentInputs(
            buffer_from_example(as_element(observation, env.spaces.observation), 1),
            buffer_from_example(null_action, 1),
            np.zeros(1, dtype="float32"),
        )
        inputs.prev_action[0] = null_action
        rows = observation_rows(inputs.observation, 1)
        inputs_pyt = torchify_buffer(inputs)
        # A recurrent agent sets its state aside when it leaves sample mode.
        agent.eval_mode(itr)
        agent.reset()
        noise = ActingNoise(0, [0], stream=1 + itr)
        for _ in range(self.max_steps):
            rows[0] = observation
            with noise:
                action = numpify_buffer(agent.step(*inputs_pyt).action)[0]
            agent.toggle_alt()  # Back to the first half, in an agent that alternates.
            observation, reward, done, env_info = env.step(action)
            if trajectory_end(env_info, done):
                break
            if done:  # A lost life.
                agent.reset()
            inputs.prev_action[0] = null_action if done else action
            inputs.prev_reward[0] = 0 if done else reward
        return env.frames

    def _draw(self, env: Any) -> NDArray:
        image = env.render() if self.picture is None else self.picture(env)
        if image is None or np.ndim(image) != 3:
            raise ValueError(
                f"{type(env).__name__} draws {image!r} instead of a picture [H,W,3]: give a "
                "gymnasium environment render_mode='rgb_array', and others a picture function"
            )
        return np.asarray(image, dtype=np.uint8)


class Camera:
    """Environment wrapper that keeps a picture of the reset and of every step.

    Args:
        env: environment.
        draw: function of ``env`` that returns a picture [H,W,3] uint8; or None, to keep nothing.
        frames: list for the pictures of the last episode, from reset to last step; cameras may
            share it.
    """

    def __init__(
        self, env: EnvLike, draw: Callable[[Any], NDArray | None], frames: list[NDArray]
    ) -> None:
        self.env: Any = env
        self.draw, self.frames = draw, frames

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self) -> Any:
        """Begin an episode, and drop the pictures of the last one."""
        observation = self.env.reset()
        self.frames.clear()
        self._look()
        return observation

    def step(self, action: Any) -> Any:
        """Take a step, and keep its picture."""
        result = self.env.step(action)
        self._look()
        return result

    def _look(self) -> None:
        picture = self.draw(self.env)
        if picture is not None:
            self.frames.append(picture)


class WindowClosed(Exception):
    """The user has closed the window, or asked the program to end (SDL catches SIGTERM)."""


def check_window() -> None:
    """Raise :class:`WindowClosed` if a window of pygame, also of gymnasium, has been closed."""
    pygame = sys.modules.get("pygame")
    if pygame is not None and pygame.display.get_init() and pygame.event.get(pygame.QUIT):
        raise WindowClosed


class Window:
    """Window of pygame that shows pictures; it opens with the first one."""

    _screen: Any = None

    def show(self, picture: NDArray, fps: float) -> None:
        """Show a picture [H,W,3] uint8, at most ``fps`` of them in a second.

        Raises:
            ImportError: if pygame is not installed.
        """
        pygame = import_extra("pygame", "A window", "video")
        if self._screen is None:
            pygame.display.init()
            self._screen = pygame.display.set_mode(picture.shape[1::-1])
            self._clock, self._pygame = pygame.time.Clock(), pygame
        self._screen.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()  # The window system takes a silent program for dead.
        pygame.display.flip()
        self._clock.tick(fps)

    def close(self) -> None:
        """Close the window, if it is open."""
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None


def check_video_packages(extension: str) -> None:
    """Raise an error unless videos of this kind can be written here.

    Raises:
        ValueError: if the extension is neither ".gif" nor ".mp4".
        ImportError: if a package is missing.
    """
    if extension not in (".gif", ".mp4"):
        raise ValueError(f"the extension of a video is {extension!r}: use '.mp4' or '.gif'")
    for module in ("imageio", *(["av"] if extension == ".mp4" else [])):
        import_extra(module, "A video", "video")


def write_video(path: str | Path, frames: Sequence[NDArray], fps: float) -> None:
    """Write frames to an animated gif or an mp4 video; the extension of ``path`` decides.

    Args:
        path: file to write; its directory is made if needed.
        frames: frames [H,W,3] uint8.
        fps: number of frames per second.
    """
    import imageio.v3 as imageio

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        imageio.imwrite(path, np.stack(frames), duration=1000 / fps, loop=0)
    else:
        # An odd height or width cannot be encoded.
        height, width = (size // 2 * 2 for size in frames[0].shape[:2])
        cut = np.stack(frames)[:, :height, :width]
        imageio.imwrite(path, cut, plugin="pyav", codec="libx264", fps=round(fps))
