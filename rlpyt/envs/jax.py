"""Simulators in JAX, of Brax, MuJoCo Playground and gymnax, with tensors on the device of JAX.

All environments step in one compiled call. Tensors and arrays of JAX share their memory (DLPack),
except that whole-number actions become int32. An episode that has ended is followed by the next one
as the simulator defines: Brax and Playground begin again in the first state of that environment,
gymnax in a new state. The last observation is kept, and truncation by a time limit told from
termination.

Source: Freeman et al. 2021, arXiv:2106.13281 (Brax); Zakka et al. 2025, arXiv:2502.08844 (MuJoCo
Playground); Lange 2022 (gymnax).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from torch.utils.dlpack import from_dlpack

from rlpyt.envs.device import DeviceEnvWrapper
from rlpyt.utils.names import did_you_mean, import_extra

# JAX would take three quarters of the GPU's memory, of which torch needs its share.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class Transition(NamedTuple):
    """Results [B,...] of one step of a simulator; after an end, the next episode has begun."""

    state: Any
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    final_obs: Any  # What the actions led to, also where an episode ended.


class Simulator(Protocol):
    """Functions of a simulator that JAX can compile, for B environments at once."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]

    def reset(self, keys: Any) -> tuple[Any, Any]:
        """Return states and observations [B,...] of first states drawn by ``keys`` [B,2]."""

    def step(self, keys: Any, states: Any, actions: Any) -> Transition:
        """Return the result of ``actions`` [B,...]; ``keys`` [B,2] are for this step alone."""


class JaxVectorEnv(gym.vector.VectorEnv[torch.Tensor, torch.Tensor, torch.Tensor]):
    """Environments of a simulator, with the interface of gymnasium's vectors and tensors.

    Each environment has a key, ``PRNGKey(seed)`` at first, that every reset and step splits in two:
    one half stays, the other is used.

    Args:
        simulator: simulator.
        num_envs: number of environments B.
        device: device of JAX, such as "cpu" or "cuda:0"; None for its default.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, simulator: Simulator, num_envs: int, device: str | None = None) -> None:
        jax = import_extra("jax", "rlpyt.envs.jax", "brax")
        self._jax = jax
        self.num_envs = num_envs
        self.single_observation_space = simulator.observation_space
        self.single_action_space = simulator.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        platform, _, index = (device or jax.default_backend()).partition(":")
        self._device = jax.devices(platform)[int(index or 0)]

        def begin(keys: Any) -> tuple[Any, Any]:
            kept, used = split(keys)
            state, observation = simulator.reset(used)
            return (kept, state), observation

        def begin_some(mask: Any, old: Any, keys: Any) -> tuple[Any, Any]:
            def chosen(new: Any, present: Any) -> Any:
                return jax.numpy.where(mask.reshape(-1, *[1] * (new.ndim - 1)), new, present)

            results: tuple[Any, Any] = jax.tree.map(chosen, strong(begin(keys)), old)
            return results

        def step(carried: tuple[Any, Any], actions: Any) -> tuple[Any, Any]:
            kept, used = split(carried[0])
            state, *results = simulator.step(used, carried[1], actions)
            return (kept, state), results

        def split(keys: Any) -> tuple[Any, Any]:
            pairs = jax.vmap(jax.random.split)(keys)
            return pairs[:, 0], pairs[:, 1]

        def strong(tree: Any) -> Any:  # Else the types of Python's numbers compile each step anew.
            return jax.tree.map(lambda x: jax.numpy.asarray(x, dtype=x.dtype), tree)

        self._begin = jax.jit(lambda keys: strong(begin(keys)))
        self._begin_some = jax.jit(begin_some)
        self._step = jax.jit(lambda *args: strong(step(*args)))
        self._carried, self._observation = self._begin(self._keys_of(range(num_envs)))

    def _keys_of(self, seeds: Sequence[int]) -> Any:
        numbers = self._jax.device_put(np.array(seeds, dtype=np.uint32), self._device)
        return self._jax.vmap(self._jax.random.PRNGKey)(numbers)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all environments, or only in ``options["reset_mask"]`` [B].

        Args:
            seed: seed of each environment; an integer seeds the first environment, and the
                following integers seed the others.
            options: dictionary, optionally with the mask, a tensor on the device.
        """
        mask = (options or {}).get("reset_mask")
        keys = self._carried[0]
        if seed is not None:
            keys = self._keys_of(
                range(seed, seed + self.num_envs) if isinstance(seed, int) else seed
            )
        if mask is None:
            self._carried, self._observation = self._begin(keys)
        else:
            old = self._carried, self._observation
            self._carried, self._observation = self._begin_some(self._array(mask), old, keys)
        return self._tensors(self._observation), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        if not actions.is_floating_point():
            actions = actions.int()  # JAX has no int64 unless asked for.
        self._carried, results = self._step(self._carried, self._array(actions))
        self._observation = results[0]
        *step, final_obs = self._tensors(results)
        return (*step, {"final_obs": final_obs})

    def _array(self, tensor: torch.Tensor) -> Any:
        return self._jax.dlpack.from_dlpack(tensor.contiguous())

    def _tensors(self, arrays: Any) -> Any:
        return self._jax.tree.map(from_dlpack, arrays)

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which :meth:`load_state_dict` continues exactly."""
        leaves = self._jax.tree.leaves((self._carried, self._observation))
        return {"arrays": [np.array(leaf) for leaf in leaves]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, saved by an environment with the same arguments."""
        old, structure = self._jax.tree.flatten((self._carried, self._observation))
        shapes = [leaf.shape for leaf in old]
        if [array.shape for array in state["arrays"]] != shapes:
            raise ValueError(
                f"num_envs is {self.num_envs}, and the saved state is of another number, or of "
                "another environment: resume with the same ones"
            )
        arrays = self._jax.device_put(state["arrays"], self._device)
        self._carried, self._observation = self._jax.tree.unflatten(structure, arrays)


class BraxSimulator:
    """Environment with the interface of Brax, and Brax's wrappers for time limits and resets.

    Args:
        env: environment for one state.
        AutoResetWrapper: class of the last wrapper, which begins the next episode.
        episode_length: number of simulated steps after which an episode is truncated.
        action_repeat: number of simulated steps with one action.
    """

    def __init__(
        self, env: Any, AutoResetWrapper: Any, episode_length: int, action_repeat: int
    ) -> None:
        envs = import_extra("brax.envs", "rlpyt.envs.jax", "brax")
        training = import_extra("brax.envs.wrappers.training", "rlpyt.envs.jax", "brax")
        jax = import_extra("jax", "rlpyt.envs.jax", "brax")

        class KeptObservation(envs.Wrapper):  # type: ignore[misc, name-defined]
            """Wrapper that keeps the last observation, which the next wrapper replaces."""

            def reset(self, rng: Any) -> Any:
                return self._keep(self.env.reset(rng))

            def step(self, state: Any, action: Any) -> Any:
                return self._keep(self.env.step(state, action))

            def _keep(self, state: Any) -> Any:
                state.info["final_obs"] = state.obs
                return state

        env = training.EpisodeWrapper(training.VmapWrapper(env), episode_length, action_repeat)
        self._env = AutoResetWrapper(KeptObservation(env))
        first = jax.eval_shape(self._env.reset, np.zeros((1, 2), np.uint32))
        self.observation_space = _unbounded(first.obs)
        size = (env.action_size,)
        self.action_space: gym.Space[Any] = gym.spaces.Box(-1.0, 1.0, size, np.float32)

    def reset(self, keys: Any) -> tuple[Any, Any]:
        state = self._env.reset(keys)
        return state, state.obs

    def step(self, keys: Any, states: Any, actions: Any) -> Transition:
        state = self._env.step(states, actions)
        truncated = state.info["truncation"].astype(bool)
        terminated = state.done.astype(bool) & ~truncated
        ends = terminated, truncated
        return Transition(state, state.obs, state.reward, *ends, state.info["final_obs"])


class GymnaxSimulator:
    """Environment of gymnax.

    Args:
        id: id in gymnax, such as "CartPole-v1".
        params: parameters to change, such as ``max_steps_in_episode``, by name.
        kwargs: arguments of ``gymnax.make``.
    """

    def __init__(self, id: str, params: dict[str, Any], **kwargs: Any) -> None:
        gymnax = import_extra("gymnax", "rlpyt.envs.jax", "gymnax")
        spaces = import_extra("gymnax.environments.spaces", "rlpyt.envs.jax", "gymnax")
        jax = import_extra("jax", "rlpyt.envs.jax", "gymnax")
        if id not in gymnax.registered_envs:
            raise ValueError(
                f"id is {id!r}: not in gymnax{did_you_mean(id, gymnax.registered_envs)}"
            )
        env, default = gymnax.make(id, **kwargs)
        self._params = default.replace(**params)
        self._reset = jax.vmap(env.reset, in_axes=(0, None))
        self._step = jax.vmap(env.step, in_axes=(0, 0, 0, None))
        convert = spaces.gymnax_space_to_gym_space
        self.observation_space = convert(env.observation_space(self._params))
        self.action_space = convert(env.action_space(self._params))

    def reset(self, keys: Any) -> tuple[Any, Any]:
        observation, state = self._reset(keys, self._params)
        return state, observation

    def step(self, keys: Any, states: Any, actions: Any) -> Transition:
        results = self._step(keys, states, actions, self._params)
        observation, state, reward, terminated, truncated, info = results
        final = info["final_observation"]
        return Transition(state, observation, reward, terminated, truncated, final)


def _unbounded(observation: Any) -> gym.Space[Any]:
    """Return the space of arrays with the shapes [B,...] and types of ``observation``."""
    if isinstance(observation, dict):
        return gym.spaces.Dict({key: _unbounded(part) for key, part in observation.items()})
    return gym.spaces.Box(-np.inf, np.inf, observation.shape[1:], observation.dtype)


def make_brax(
    id: str,
    num_envs: int,
    device: str | None = None,
    episode_length: int = 1000,
    action_repeat: int = 1,
    **kwargs: Any,
) -> DeviceEnvWrapper:
    """Make environments of Brax, as an ``EnvCls`` of the device sampler.

    Args:
        id: name in Brax, such as "halfcheetah".
        num_envs: number of environments, passed by the sampler.
        device: device of JAX, such as "cpu" or "cuda:0"; None for its default.
        episode_length: number of simulated steps after which an episode is truncated.
        action_repeat: number of simulated steps with one action.
        kwargs: arguments of the environment, such as ``backend``.

    Raises:
        ImportError: if Brax is not installed.
        ValueError: if Brax has no such environment.
    """
    envs = import_extra("brax.envs", "rlpyt.envs.jax", "brax")
    training = import_extra("brax.envs.wrappers.training", "rlpyt.envs.jax", "brax")
    try:
        env = envs.get_environment(id, **kwargs)
    except KeyError:
        raise ValueError(f"id is {id!r}: Brax has no such environment") from None
    simulator = BraxSimulator(env, training.AutoResetWrapper, episode_length, action_repeat)
    return DeviceEnvWrapper(JaxVectorEnv(simulator, num_envs, device))


def make_playground(
    id: str,
    num_envs: int,
    device: str | None = None,
    episode_length: int | None = None,
    action_repeat: int | None = None,
    **kwargs: Any,
) -> DeviceEnvWrapper:
    """Make environments of MuJoCo Playground, which MJX simulates, for the device sampler.

    Args:
        id: name in Playground, such as "CartpoleBalance".
        num_envs: number of environments, passed by the sampler.
        device: device of JAX, such as "cpu" or "cuda:0"; None for its default.
        episode_length: number of simulated steps after which an episode is truncated; None for that
            of the environment.
        action_repeat: number of simulated steps with one action; None for that of the environment.
        kwargs: settings of the environment to change, such as ``ctrl_dt``.

    Raises:
        ImportError: if Playground is not installed.
        ValueError: if Playground has no such environment.
    """
    playground = import_extra("mujoco_playground", "rlpyt.envs.jax", "playground")
    registry = playground.registry
    if id not in registry.ALL_ENVS:
        raise ValueError(f"id is {id!r}: not in Playground{did_you_mean(id, registry.ALL_ENVS)}")
    default = registry.get_default_config(id)
    simulator = BraxSimulator(
        registry.load(id, config_overrides=kwargs),
        playground.wrapper.BraxAutoResetWrapper,
        default.episode_length if episode_length is None else episode_length,
        default.action_repeat if action_repeat is None else action_repeat,
    )
    return DeviceEnvWrapper(JaxVectorEnv(simulator, num_envs, device))


def make_gymnax(
    id: str,
    num_envs: int,
    device: str | None = None,
    params: dict[str, Any] | None = None,
    **kwargs: Any,
) -> DeviceEnvWrapper:
    """Make environments of gymnax, as an ``EnvCls`` of the device sampler.

    Args:
        id: id in gymnax, such as "CartPole-v1".
        num_envs: number of environments, passed by the sampler.
        device: device of JAX, such as "cpu" or "cuda:0"; None for its default.
        params: parameters to change, such as ``max_steps_in_episode``, by name.
        kwargs: arguments of ``gymnax.make``.

    Raises:
        ImportError: if gymnax is not installed.
        ValueError: if gymnax has no such environment.
    """
    simulator = GymnaxSimulator(id, params or {}, **kwargs)
    return DeviceEnvWrapper(JaxVectorEnv(simulator, num_envs, device))
