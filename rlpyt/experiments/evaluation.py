"""Evaluation and videos of a snapshot, from the log directory of its run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.core.statistics import HasStatistics, Statistics
from rlpyt.envs.statistics import freeze_statistics
from rlpyt.experiments.catalog import environment_ids, load, located, names, targets, vector_sampler
from rlpyt.experiments.program import Call, agent_call, environment_kwargs
from rlpyt.experiments.results.runs import read_params
from rlpyt.experiments.settings import SECTIONS, checked, parameters, with_roles
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.runners.video import (
    Camera,
    Window,
    WindowClosed,
    check_video_packages,
    check_window,
    write_video,
)
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import Purpose, derived_seed, make_seed, set_seed
from rlpyt.utils.types import NDArray

MAX_ENVS = 8
# Environment variables that name a screen, or take its place.
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")


class SavedAgent(NamedTuple):
    """Snapshot of a run, and the configuration that it was trained with."""

    config: Config
    snapshot: dict[str, Any]
    file: Path


def load_agent(path: str | Path) -> SavedAgent:
    """Find the snapshot of a run and its configuration, see :func:`find_snapshot`.

    Raises:
        FileNotFoundError: if there is no snapshot, or no configuration beside it.
        ValueError: if the run was not started from a configuration.
    """
    file = find_snapshot(path)
    config = configuration_in(file.parent)
    # One process evaluates, with any sampler in the run; vectors may differ from single
    # environments.
    roles = config["roles"]
    sampler = vector_sampler(roles.get("env", "gym")) or roles.get("sampler")
    sampler = sampler if sampler in ("vector", "device") else "serial"
    config = checked(with_roles({**config, "affinity": {}}, sampler=sampler, runner="minibatch"))
    return SavedAgent(config, load_snapshot(file), file)


def configuration_in(run_dir: Path) -> Config:
    """Return the configuration that a run was started from, as it was recorded."""
    record = run_dir / "params.json"
    if not record.is_file():
        raise FileNotFoundError(
            f"{record}, which shows how to make the agent, does not exist: keep it beside the "
            "snapshot, or use rlpyt.load(path, agent=..., env=...)"
        )
    params = read_params(record)
    if "roles" not in params:
        raise ValueError(
            f"{record} does not show how to make the agent: only runs of 'rlpyt train' and of the "
            "tables do; to act with the agent of a program, use "
            "rlpyt.load(path, agent=..., env=...)"
        )
    environment_ids()  # Registers environments of installed packages.
    return {key: params.get(key, {}) for key in ("roles", *SECTIONS)}


def find_snapshot(path: str | Path) -> Path:
    """Return the file of a snapshot: ``path`` itself, or the newest in this run directory."""
    path = located(path)
    if path.is_dir():
        files = sorted(path.glob("params.pkl")) or sorted(
            path.glob("itr_[0-9]*.pkl"), key=lambda file: int(file.stem.removeprefix("itr_"))
        )
        if not files:
            runs = sorted(str(file.parent) for file in path.rglob("params.pkl"))
            hint = f"; there are some in {', '.join(runs[:5])}" if runs else ""
            raise FileNotFoundError(f"{path} has no snapshot (params.pkl or itr_*.pkl){hint}")
        path = files[-1]
    if not path.is_file():
        in_zoo = f"zoo:{path}, " if str(path) in names("zoo") else ""
        raise FileNotFoundError(
            f"path={str(path)!r} does not exist: give {in_zoo}the directory of a run, or a "
            "snapshot in it"
        )
    return path


def load_snapshot(file: str | Path) -> dict[str, Any]:
    """Load a snapshot to the CPU; the file may contain tensors and plain values, but no code."""
    try:
        snapshot: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        snapshot["agent_state_dict"], snapshot["itr"]
    except Exception as error:  # Of many kinds.
        raise ValueError(
            f"{file} is damaged, or is no snapshot of tensors and plain values: give the "
            "params.pkl or itr_*.pkl of a run"
        ) from error
    return snapshot


def load_state(agent: AgentLike, snapshot: Mapping[str, Any]) -> None:
    """Load a snapshot into an initialized agent."""
    try:
        agent.load_state_dict(snapshot["agent_state_dict"])
    except (RuntimeError, KeyError) as error:
        raise ValueError(
            f"the snapshot is of another agent, or of an environment with other spaces: {error}"
        ) from error


def evaluate(
    saved: SavedAgent, n_episodes: int, seed: int | None = None, **env_kwargs: Any
) -> list[Any]:
    """Return the trajectory infos of exactly ``n_episodes`` episodes, in up to 8 environments.

    Further arguments replace those of the sampler that were saved, such as ``EnvCls``.
    """
    seed = make_seed() if seed is None else seed
    set_seed(seed)
    sampling = environment_kwargs(saved.config)
    if "TrajInfoCls" in saved.config["sampler"]:
        sampling["TrajInfoCls"] = saved.config["sampler"]["TrajInfoCls"]
    sampling.update(env_kwargs)
    statistics = saved.snapshot.get("env_statistics")
    if statistics:
        given = sampling["EnvCls"]
        EnvCls = load(given) if isinstance(given, str) else given
        sampling["EnvCls"] = lambda **kwargs: with_statistics(EnvCls(**kwargs), statistics)
    sampler = Call(targets(saved.config)["sampler"], sampling).make(
        batch_T=1,
        batch_B=1,
        max_decorrelation_steps=0,
        eval_n_envs=min(n_episodes, MAX_ENVS),
        eval_n_episodes=n_episodes,
    )
    agent = agent_call(saved.config).make()
    algo = parameters(targets(saved.config)["algo"])[0]
    default = algo["discount"].default if "discount" in algo else 0.99
    discount = saved.config["algo"].get("discount", default)
    try:
        sampler.initialize(agent, seed=seed, traj_info_kwargs={"discount": discount})
        load_state(agent, saved.snapshot)
        itr = max(1, saved.snapshot["itr"])  # At 0, agents may act at random.
        agent.eval_mode(itr)
        infos: list[Any] = sampler.evaluate_agent(itr)
    finally:
        sampler.shutdown()
    return infos


def with_statistics(env: Any, statistics: Statistics) -> Any:
    """Return ``env`` after it has been given running statistics of training, frozen."""
    inside = env.env if isinstance(env, Camera) else env
    if isinstance(inside, HasStatistics):
        inside.use_statistics(statistics)
    elif freeze_statistics(inside, statistics):
        logger.log(
            f"WARNING: a wrapper of {inside} cannot be told to stop counting: wrap the environment "
            "in rlpyt.envs.gym.GymEnvWrapper, which freezes it"
        )
    return env


def statistics(infos: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Return mean, standard deviation, minimum, median and maximum of every statistic.

    The mean of ``SuccessRate`` is that of training: of the episodes that have ``is_success``.
    """
    columns = {
        name: [info[name] for info in infos] for name in infos[0] if not name.startswith("_")
    }
    successes = [info["_is_success"] for info in infos if "_is_success" in info]
    if successes:
        columns["SuccessRate"] = successes
    table = {}
    for name, numbers in columns.items():
        x = np.array(numbers, dtype=float)
        std = x.std(ddof=1) if len(x) > 1 else np.nan
        values = map(float, (x.mean(), std, x.min(), np.median(x), x.max()))
        table[name] = dict(zip(("mean", "std", "min", "median", "max"), values))
    return table


# --- Videos --------------------------------------------------------------------------------------


def watch(
    saved: SavedAgent,
    n_episodes: int = 1,
    video: str | Path | None = None,
    seed: int | None = None,
    max_frames: int = 10_000,
    shrink: int = 1,
) -> list[Any]:
    """Show episodes in a window, or write them as a video; return their trajectory infos.

    Closing the window ends it.

    Args:
        saved: snapshot to watch.
        n_episodes: number of episodes, one after the other.
        video: file to write, .mp4 or .gif; None for a window.
        seed: seed for all random numbers; drawn if None.
        max_frames: largest number of pictures in the video.
        shrink: whole number by which height and width of its pictures are divided.

    Raises:
        ValueError: if the environment cannot be shown, or the extension is another.
        ImportError: if imageio is not installed, or pygame for a window.
    """
    if n_episodes < 1:
        raise ValueError(f"n_episodes={n_episodes}: give at least 1")
    role = saved.config["roles"].get("env", "gym")
    if vector_sampler(role) is not None:
        raise ValueError(f"env={role}: a vector draws no pictures; use 'rlpyt evaluate'")
    if video is not None:
        check_video_packages(Path(video).suffix)
    elif sys.platform == "linux" and not any(os.environ.get(x) for x in SCREENS):
        names = ", ".join(SCREENS)
        raise ValueError(f"no screen, since {names} are not set: give --video FILE.gif")
    saved = saved._replace(config=checked(with_roles(saved.config, sampler="serial")))
    EnvCls = load(targets(saved.config)["env"])
    infos: list[Any] = []
    frames: list[NDArray] = []
    fps = 30.0
    window = Window()

    def filmed(**kwargs: Any) -> Camera:
        nonlocal fps
        if EnvCls is load("rlpyt.envs.gym.make"):
            kwargs["render_mode"] = "human" if video is None else "rgb_array"
        if not os.environ.get("DISPLAY"):
            os.environ.setdefault("MUJOCO_GL", "egl")  # Or MuJoCo looks for a screen.
        try:
            env = EnvCls(**kwargs)
        except TypeError as error:
            if "render_mode" not in str(error):
                raise
            raise _no_pictures(str(error)) from error
        metadata = getattr(env, "metadata", None) or {}
        fps = float(metadata.get("render_fps") or (15 if hasattr(env, "ale") else 30))
        return Camera(env, draw, of_episode)

    def draw(env: Any) -> NDArray | None:
        if video is None:
            picture = picture_of(env, may_be_none=True)
            if picture is not None:
                window.show(picture, fps)
            check_window()
            return None
        if len(frames) + len(of_episode) >= max_frames:
            return None
        picture = picture_of(env)
        assert picture is not None
        height, width = (size // shrink for size in picture.shape[:2])
        squares = picture[: height * shrink, : width * shrink]
        squares = squares.reshape(height, shrink, width, shrink, 3)
        means: NDArray = squares.mean(axis=(1, 3)).astype(np.uint8)
        return means

    for episode in range(n_episodes):
        of_episode: list[NDArray] = []
        episode_seed = None if seed is None else derived_seed(seed, Purpose.EPISODE, episode)
        try:
            infos += evaluate(saved, 1, episode_seed, EnvCls=filmed)
        except WindowClosed:
            break
        frames += of_episode
    window.close()
    if video is not None:
        write_video(video, frames, fps)
    return infos


def _no_pictures(reason: str) -> ValueError:
    return ValueError(
        f"the environment cannot be drawn ({reason}): give it the argument render_mode, "
        "'rgb_array' in its metadata['render_modes'], and a render() that returns a picture"
    )


def picture_of(env: Any, may_be_none: bool = False) -> NDArray | None:
    """Return a picture [H,W,3] uint8 of ``env``, at least 128 pixels high.

    None only if ``may_be_none``, as for a ``render()`` with a window of its own.
    """
    if not hasattr(env, "render"):
        raise _no_pictures("it has no render()")
    try:
        image = env.ale.getScreenRGB() if hasattr(env, "ale") else env.render()
    except NotImplementedError as error:
        raise _no_pictures("render() is not implemented") from error
    if image is None:
        if may_be_none:
            return None
        raise _no_pictures("render() returned None")
    image = np.asarray(image)
    if image.dtype != np.uint8:
        image = (np.clip(image, 0, 1) * 255).astype(np.uint8)
    if image.ndim == 2:
        image = np.repeat(image[..., None], 3, axis=-1)
    zoom = -(-128 // image.shape[0])
    larger: NDArray = image.repeat(zoom, axis=0).repeat(zoom, axis=1)
    return larger
