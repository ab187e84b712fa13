"""Adapters of gymnasium and gym environments to the interface of this library."""

from __future__ import annotations

import copy
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import FilterObservation

from rlpyt.core.masks import mask_of, random_action
from rlpyt.core.statistics import Statistics
from rlpyt.envs._info import (
    InfoLayout,
    as_reals,
    build_info_tuples as build_info_tuples,
    infill_info as infill_info,
    info_to_nt as info_to_nt,
)
from rlpyt.envs.base import EnvSpaces as EnvSpaces, EnvStep as EnvStep
from rlpyt.envs.gym_state import known_states, layer_state, layers_of, set_layer_states
from rlpyt.envs.statistics import freeze_statistics, read_statistics, write_statistics
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper as GymSpaceWrapper
from rlpyt.utils.names import did_you_mean, import_extra
from rlpyt.utils.seed import make_generator, seed_spaces
from rlpyt.utils.types import NDArray, Nested


class GymLike(Protocol):
    """An environment of gymnasium or gym, with the methods that both share."""

    @property
    def action_space(self) -> Any: ...

    @property
    def observation_space(self) -> Any: ...

    def reset(self, *args: Any, **kwargs: Any) -> Any: ...

    def step(self, action: Any) -> Any: ...


class TimeLimit(gym.wrappers.TimeLimit):
    """Gymnasium's wrapper, which ends an episode after a number of steps.

    Args:
        env: environment of gymnasium.
        max_episode_steps: number of steps; None for that of ``env.spec``, or registered for its id.

    Raises:
        ValueError: if it is given nowhere.
    """

    def __init__(self, env: Any, max_episode_steps: int | None = None) -> None:
        if max_episode_steps is None:
            registered = env.spec and gym.registry.get(env.spec.id)
            numbers = (getattr(spec, "max_episode_steps", None) for spec in (env.spec, registered))
            max_episode_steps = next(filter(None, numbers), None)
        if max_episode_steps is None:
            raise ValueError(
                f"max_episode_steps is None, and {env} has none in its spec: give the number of "
                "steps in an episode"
            )
        super().__init__(env, max_episode_steps)


class Wrapper:
    """Wrapper around ``env``; attributes that it lacks are looked up there.

    Args:
        env: environment of gymnasium or gym, or another wrapper.
    """

    def __init__(self, env: GymLike) -> None:
        self.env: Any = env

    def __getattr__(self, name: str) -> Any:
        if name == "env" or name.startswith("__"):  # Not there yet, while unpickling.
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if any(
            name in vars(cls) for cls in type(self).__mro__
        ):  # A property failed: raise its error.
            return object.__getattribute__(self, name)
        return getattr(self.env, name)

    @property
    def unwrapped(self) -> Any:
        """Innermost environment."""
        return self.env.unwrapped

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.env}>"


class ConvertingWrapper(Wrapper):
    """Base class of wrappers that convert the spaces of an environment.

    Attributes:
        observation_space: converted observation space of one environment.
        action_space: converted action space of one environment.
    """

    observation_space: GymSpaceWrapper
    action_space: GymSpaceWrapper
    _refreeze: Sequence[Callable[[], None]] = ()

    @property
    def spaces(self) -> EnvSpaces:
        """Converted spaces of one environment."""
        return EnvSpaces(observation=self.observation_space, action=self.action_space)

    def statistics(self) -> Statistics:
        """Return the running statistics of all wrappers, those of parts merged by count."""
        return read_statistics(self.env)

    def use_statistics(self, statistics: Statistics, frozen: bool = True) -> None:
        """Let wrappers use ``statistics``, by name: frozen, or to count on from them."""
        if frozen:
            self._refreeze = freeze_statistics(self.env, statistics)
        else:
            write_statistics(self.env, statistics)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class GymEnvWrapper(ConvertingWrapper):
    """Gym environment with converted spaces, whose info dictionary becomes a record.

    Construction resets the environment and takes one step to see the entries of the info, with the
    null action, or with a random action if the null action is masked or not in the space; every
    later ``env_info`` has these fields, with integers as float64. Entries that are missing, or do
    not fit, are zeros; entries that first appear later are dropped, unless the ``info_example`` of
    ``make`` has them; entries that are not numeric are left out. ``is_success`` may come with the
    last step of an episode only; its mean is logged as ``SuccessRate``. The field ``timeout``
    always exists: True if the episode was truncated but not terminated, or if it ended (even by
    termination) and the environment's own info has a true ``timeout``.

    Args:
        env: environment of gymnasium, or of gym since 0.21.
        act_null_value: value that fills the null action.
        obs_null_value: value that fills the null observation.
        force_float32: whether float64 observations and actions become float32.
    """

    def __init__(
        self,
        env: GymLike,
        act_null_value: Any = 0,
        obs_null_value: Any = 0,
        force_float32: bool = True,
    ) -> None:
        super().__init__(env)
        # Instances may share the space of their class, but not its random numbers.
        own_actions = copy.deepcopy(env.action_space)
        share_action_space(env, own_actions)
        self.action_space = GymSpaceWrapper(
            own_actions, act_null_value, name="act", force_float32=force_float32
        )
        self.observation_space = GymSpaceWrapper(
            env.observation_space, obs_null_value, name="obs", force_float32=force_float32
        )
        self._takes_seed = all(_takes_seed(layer) for layer in layers_of(env))
        self._seed: int | None = int(make_generator().integers(2**31))
        self._info_layout = self._try_one_step()

    def _try_one_step(self) -> InfoLayout:
        """Find the fields that the info of a step has; an ``info_example`` takes precedence.

        Wrappers whose state can be saved are restored, because running statistics must not count
        this step. The environment itself is reset before the next step.
        """
        seed = self._seed
        *wrappers, _ = layers_of(self.env)
        before = known_states(wrappers)
        observation = self.reset()
        action = self.action_space.null_value()
        mask = mask_of(observation, self.action_space)
        if not self.action_space.contains(action) or (mask is not None and not mask[action]):
            action = random_action(self.action_space, observation)
        try:
            result = self.env.step(self.action_space.revert(action))
        except ValueError as error:
            if "to unpack" not in str(error):  # As wrappers of gymnasium do with both results.
                raise
            raise ValueError(
                f"{error}: reset() of the environment must return (observation, info), and step() "
                "(observation, reward, terminated, truncated, info)"
            ) from error
        set_layer_states(before)
        self._seed = seed
        example = as_reals({k: v for k, v in result[-1].items() if k != "TimeLimit.truncated"})
        for layer in wrappers:
            if isinstance(layer, EnvInfoWrapper):
                example = infill_info(copy.deepcopy(dict(layer.info_example)), example)
        return build_info_tuples({**example, "timeout": False})

    def step(self, action: Nested) -> EnvStep:
        """Apply ``action``, an element of the converted action space, as any kind of record.

        Returns:
            EnvStep: converted observation, float32 reward, whether the episode ended (terminated or
            truncated), and the info.

        """
        result = self.env.step(self.action_space.revert(action))
        for refreeze in self._refreeze:
            refreeze()
        if len(result) == 5:
            observation, reward, terminated, truncated, info = result
            done, is_cut = bool(terminated or truncated), bool(truncated and not terminated)
            timeout = is_cut or (done and bool(info.get("timeout", False)))
        else:
            observation, reward, done, info = result
            done = bool(done)
            timeout = done and bool(info.get("TimeLimit.truncated", info.get("timeout", False)))
        return EnvStep(
            self.observation_space.convert(observation),
            np.float32(reward),
            done,
            self._info_layout.read({**info, "timeout": timeout}),
        )

    def reset(self) -> Nested:
        """Start an episode and return its first observation."""
        seed, self._seed = self._seed, None
        if seed is None:
            result = self.env.reset()
        elif self._takes_seed:
            result = self.env.reset(seed=seed)
        else:
            if callable(getattr(self.env, "seed", None)):  # It may also be the number.
                self.env.seed(seed)
            elif _takes_seed(self.env.unwrapped):  # A layer around it does not pass the seed on.
                self.env.unwrapped.reset(seed=seed)
            result = self.env.reset()
        for refreeze in self._refreeze:
            refreeze()
        return self.observation_space.convert(_observation_of(result, self.env.observation_space))

    @property
    def horizon(self) -> int:
        """Maximum number of steps in an episode, from the time limit or another layer."""
        for layer in layers_of(self.env):
            if type(layer).__name__ == "TimeLimit":
                return int(layer._max_episode_steps)
        for layer in layers_of(self.env):
            if hasattr(layer, "horizon"):
                return int(layer.horizon)
        raise AttributeError(
            f"{self.env} has no time limit, so it has no horizon: make it with max_episode_steps"
        )

    def seed(self, seed: int) -> None:
        """Seed everything random from the next reset on."""
        self._seed = int(seed)
        seed_spaces(self, seed)

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which :meth:`load_state_dict` continues exactly.

        An environment or wrapper with ``state_dict`` and ``load_state_dict`` saves itself. The
        state of others consists of their attributes: plain values and arrays, generators, and the
        physics of MuJoCo.

        Raises:
            NotImplementedError: if an attribute has another type; the message names it.
        """
        return {
            "layers": [layer_state(layer) for layer in layers_of(self.env)],
            "seed": self._seed,
            "action_space": self.action_space.state_dict(),
            "observation_space": self.observation_space.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, saved by an environment with the same arguments."""
        layers = list(layers_of(self.env))
        if len(layers) != len(state["layers"]):
            raise ValueError(
                f"the state has {len(state['layers'])} layers, {self.env} has {len(layers)}: make "
                "the environment with the same wrappers"
            )
        set_layer_states(zip(layers, state["layers"]))
        self._seed = state["seed"]
        self.action_space.load_state_dict(state["action_space"])
        self.observation_space.load_state_dict(state["observation_space"])


def share_action_space(env: Any, space: Any) -> None:
    """Let the innermost environment draw from ``space`` too, if its own one is equal.

    Wrappers that replace some actions by random ones, for example, then follow the seed.
    """
    *_, innermost = layers_of(env)
    if getattr(innermost, "action_space", None) == space:
        with suppress(AttributeError):  # A property.
            innermost.action_space = space


class EnvInfoWrapper(Wrapper):
    """Wrapper that fills in missing entries of an info; goes inside :class:`GymEnvWrapper`.

    Args:
        env: environment of gymnasium or gym.
        info_example: entries that are not in every info, in their final shapes and types.
    """

    def __init__(self, env: GymLike, info_example: Mapping[Any, Any]) -> None:
        super().__init__(env)
        self.info_example = info_example

    def step(self, action: Any) -> Any:
        """Take a step of ``env`` and complete its info."""
        result = self.env.step(action)
        infill_info(result[-1], self.info_example)
        return result


class SelectObservation(gym.ObservationWrapper[Any, Any, Any]):
    """Wrapper that shows some entries of a vector observation, so that a task needs memory.

    ``gymnasium.make`` has two tasks without velocities: ``rlpyt/CartPoleNoVel-v1`` shows the
    position and the angle, ``rlpyt/PendulumNoVel-v1`` the cosine and the sine of the angle.

    Args:
        env: environment of gymnasium with an observation that is a vector.
        indexes: indexes of the entries to show, in order.

    Raises:
        ValueError: if the observation is not a vector, or lacks an index.
    """

    def __init__(self, env: gym.Env[Any, Any], indexes: Sequence[int]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"env={env} has observations {space}: give one with a vector")
        if not set(indexes) <= set(range(space.shape[0])):
            raise ValueError(
                f"indexes={list(indexes)}, but {env} has observations of {space.shape[0]} "
                f"entries: give indexes from 0 to {space.shape[0] - 1}"
            )
        self.indexes = list(indexes)
        low, high = space.low[self.indexes], space.high[self.indexes]
        self.observation_space = gym.spaces.Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: NDArray) -> NDArray:
        """Return the entries [len(indexes)] that are shown."""
        return observation[self.indexes]


def _make_partly_observed(whole_id: str, indexes: Sequence[int], **kwargs: Any) -> Any:
    # Without the wrappers of the whole task, since ``gymnasium.make`` adds them to this one.
    return SelectObservation(gym.make(whole_id, **kwargs).unwrapped, indexes)


for _name, _indexes in (("CartPole", (0, 2)), ("Pendulum", (0, 1))):
    gym.register(
        f"rlpyt/{_name}NoVel-v1",
        entry_point=f"{__name__}:_make_partly_observed",
        max_episode_steps=gym.spec(f"{_name}-v1").max_episode_steps,
        kwargs={"whole_id": f"{_name}-v1", "indexes": _indexes},
    )


# Package and extra of each namespace of ids that importing the package does not register.
_EXTRAS = {"ALE": ("ale_py", "atari"), "MinAtar": ("minatar", "minatar")}


def register_ids(env_id: str) -> None:
    """Register what importing does not, since every process needs it registered.

    These are the ids ``ALE/...`` and ``MinAtar/...``, if their package is installed, and a class of
    gymnasium after its module, as in ``my_module:MyEnv``.
    """
    module, _, name = env_id.partition(":")
    if name.isidentifier():
        EnvCls = getattr(importlib.import_module(module), name, None)
        if isinstance(EnvCls, type) and issubclass(EnvCls, gym.Env):
            gym.registry.pop(name, None)  # Perhaps of another module.
            gym.register(name, entry_point=env_id)
        elif EnvCls is not None or name not in gym.registry:
            raise ValueError(f"id={env_id!r}: {module} has no class {name} of gymnasium.Env")
        return
    namespace = env_id.partition("/")[0]
    package, _ = _EXTRAS.get(namespace, (None, ""))
    is_registered = any(env_id.startswith(f"{namespace}/") for env_id in gym.registry)
    if package is None or is_registered or importlib.util.find_spec(package) is None:
        return
    if package == "ale_py":
        gym.register_envs(importlib.import_module(package))
    else:
        importlib.import_module("minatar.gym").register_envs()


def make(
    *args: Any,
    info_example: Mapping[Any, Any] | None = None,
    leave_out: Sequence[str] = (),
    **kwargs: Any,
) -> GymEnvWrapper:
    """Make an environment by its id, as ``EnvCls=make, env_kwargs=dict(id="CartPole-v1")``.

    Args:
        *args: arguments of ``gymnasium.make``, or of ``gym.make`` if only gym has the id.
        info_example: entries of the info that the first step lacks, or that change shape or type
            later, in their final form.
        leave_out: keys of a Dict observation that the agent does not get, such as texts.
        **kwargs: keyword arguments of ``gymnasium.make`` or ``gym.make``.

    Raises:
        ValueError: if the id is unknown (the message names the closest ones), or ``leave_out`` has
            a key that observations lack.
    """
    env = make_unwrapped(*args, info_example=info_example, **kwargs)
    return GymEnvWrapper(without_entries(env, leave_out))


def without_entries(env: Any, keys: Sequence[str]) -> Any:
    """Return ``env`` without some entries of its Dict observations."""
    if not keys:
        return env
    known = list(getattr(env.observation_space, "spaces", ()))
    if not set(keys) < set(known):
        raise ValueError(
            f"leave_out={list(keys)}: give a list of some keys of the observations, {known}"
        )
    return FilterObservation(env, [key for key in known if key not in keys])


def make_unwrapped(*args: Any, info_example: Mapping[Any, Any] | None = None, **kwargs: Any) -> Any:
    """Make the environment that :func:`make` wraps."""
    env = _find_and_make(*args, **kwargs)
    return env if info_example is None else EnvInfoWrapper(env, info_example)


def _find_and_make(*args: Any, **kwargs: Any) -> Any:
    env_id = args[0] if args else kwargs.get("id")
    register_ids(str(env_id))
    try:
        return gym.make(*args, **kwargs)
    except gym.error.UnregisteredEnv as error:
        try:
            old_gym = importlib.import_module("gym")
        except ImportError:
            old_gym = None
        if old_gym is not None and env_id in old_gym.envs.registry:
            return old_gym.make(*args, **kwargs)
        package, extra = _EXTRAS.get(str(env_id).partition("/")[0], ("", ""))
        if package:
            import_extra(package, f"id={env_id!r}", extra)
        raise ValueError(
            f"id={env_id!r} is not registered{did_you_mean(str(env_id), gym.registry)}; import the "
            "package that registers it, or name a class after its module: my_module:MyEnv"
        ) from error


def _takes_seed(env: GymLike) -> bool:
    """Return whether ``reset`` takes a seed; in gym 0.21 ``seed`` is a method."""
    parameters = inspect.signature(env.reset).parameters.values()
    return any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)


def _observation_of(result: Any, space: Any) -> Any:
    """Return the observation in the result of ``reset``, which has no info in gym 0.21."""
    is_pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
    is_element = is_pair and type(space).__name__ == "Tuple" and space.contains(result)
    return result[0] if is_pair and not is_element else result
