"""Vector environments of gymnasium: B environments in one, stepped by one call.

Row b of every array belongs to environment b. A step returns two observations per environment: the
result of the action, and the one to continue from. They differ only when an episode ends; the
second is then the first observation of the next episode. So every action gives a transition, and
resets give none, in each of gymnasium's autoreset modes:

* ``SAME_STEP``: the environment has reset itself; the last observation of the episode is in its
  info. Gymnasium does not copy it, so an environment that returns the same array at every step
  needs another mode.
* ``NEXT_STEP``: the environment would reset itself instead of taking the next step. The wrapper
  resets finished environments at once (``options["reset_mask"]``), before that happens.
* ``DISABLED``: the environment waits for a reset, and the wrapper resets it in the same way.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch

from rlpyt.core.masks import redrawn
from rlpyt.core.rows import fitted, observation_rows, returned_by
from rlpyt.envs._info import InfoLayout, as_reals, infill_info, is_numeric, map_info
from rlpyt.envs.gym import (
    ConvertingWrapper,
    register_ids,
    share_action_space,
    without_entries,
)
from rlpyt.envs.gym_state import known_states, layer_state, layers_of, set_layer_states
from rlpyt.envs.statistics import chains
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.buffer import as_numpy, buffer_from_example, leaves
from rlpyt.utils.seed import Purpose, derived_seed, make_generator
from rlpyt.utils.types import BoolArray, NDArray, Nested

SAME_STEP, NEXT_STEP, DISABLED = "same_step", "next_step", "disabled"
_NEED_SAME_STEP = ("NormalizeObservation", "NormalizeReward", "RecordEpisodeStatistics")
# Classes whose reset takes options["reset_mask"] and a seed for each environment. Wrappers of
# gymnasium pass both on, but those that count episodes or normalize need SAME_STEP.
_OF_PARTS = frozenset(
    (
        "SyncVectorEnv",
        "AsyncVectorEnv",
        "AtariVectorEnv",
        "TorchCartPole",
        "TorchPendulum",
        "JaxVectorEnv",
    )
)
_FINAL = ("final_obs", "final_info")


class VectorStep(NamedTuple):
    """Result of one step of B environments."""

    observation: Nested  # [B,...] observations that the actions led to
    reward: NDArray  # [B] float32
    done: BoolArray  # [B] the episode of the learner ends here
    env_info: Nested  # [B,...] with ``timeout``
    next_inputs: Nested  # [B,...] ``observation``, or the first of the next episode after an end


class VectorEnvWrapper(ConvertingWrapper):
    """Vector environment with converted spaces, whose info becomes a record.

    Construction resets the environment and takes one step, to see the entries of the info. This
    step and the rules for the info are as in :class:`~rlpyt.envs.gym.GymEnvWrapper`.

    Args:
        env: vector environment of gymnasium.
        act_null_value: value that fills the null action.
        obs_null_value: value that fills the null observation.
        force_float32: whether float64 observations and actions become float32.
        autoreset_mode: mode of gymnasium, or its name; None for the mode that ``env`` declares.
        partial_reset: whether ``env.reset`` takes ``options["reset_mask"]``; None to decide by the
            class of ``env``.
        info_example: entries [B',...] that are not in every info, for any number of environments.

    Attributes:
        num_envs: number of environments B.
        observation_space: observation space of one environment.
        action_space: action space of the first environment; each has its own generator.

    Raises:
        ValueError: if the mode is unknown, or needs partial resets that ``env`` or a wrapper does
            not support, or that it would ignore because its workers share no memory.
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        act_null_value: Any = 0,
        obs_null_value: Any = 0,
        force_float32: bool = True,
        autoreset_mode: Any = None,
        partial_reset: bool | None = None,
        info_example: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__(env)
        self.num_envs: int = env.num_envs
        self.autoreset_mode = _mode_of(env, autoreset_mode)
        self._takes_seeds = type(env.unwrapped).__name__ in _OF_PARTS
        if partial_reset is None:
            partial_reset = self._takes_seeds
        self.partial_reset = partial_reset
        if self.autoreset_mode != SAME_STEP and not partial_reset:
            raise ValueError(
                f"{type(env.unwrapped).__name__} with autoreset_mode={self.autoreset_mode} needs "
                "resets of single environments, or resets would be taken for steps: make it with "
                "autoreset_mode SAME_STEP, or as a SyncVectorEnv, or pass partial_reset=True if "
                "its reset takes options['reset_mask']"
            )
        for layer in layers_of(env):
            name = type(layer).__name__
            if self.autoreset_mode != SAME_STEP and name in _NEED_SAME_STEP:
                # A reset of one environment empties its sums of all, or is an error.
                raise ValueError(
                    f"{name} computes wrong numbers where environments are reset one by one: make "
                    "them with autoreset_mode SAME_STEP, or wrap each of them, as "
                    "rlpyt.envs.vector.make(..., wrappers=[...]) does"
                )
        if self.autoreset_mode == NEXT_STEP and not getattr(env.unwrapped, "shared_memory", True):
            # Its workers would reset once more in the next step, whose action is lost.
            raise ValueError(
                f"{type(env.unwrapped).__name__} has shared_memory=False and autoreset_mode "
                "NEXT_STEP, in which it ignores resets of single environments: make it with "
                "autoreset_mode SAME_STEP or DISABLED"
            )
        own_actions = [copy.deepcopy(env.single_action_space) for _ in range(self.num_envs)]
        for part, space in zip(getattr(env.unwrapped, "envs", ()), own_actions):
            share_action_space(part, space)
        self._action_spaces = [
            GymSpaceWrapper(space, act_null_value, "act", force_float32) for space in own_actions
        ]
        self.action_space = self._action_spaces[0]
        self.observation_space = GymSpaceWrapper(
            env.single_observation_space, obs_null_value, "obs", force_float32
        )
        self._seeds: list[int] = make_generator().integers(2**31, size=env.num_envs).tolist()
        self._is_seed_due = True
        self._info_layout = self._try_one_step(_rows_for(self.num_envs, info_example or {}))

    def _try_one_step(self, info_example: dict[Any, Any]) -> InfoLayout:
        before = known_states(x for layers in chains(self.env) for x in layers[:-1])
        info = self.env.step(self.action_space.revert(self._first_actions()))[-1]
        set_layer_states(before)
        self._is_seed_due = True
        example = infill_info(info_example, as_reals(_without_masks(info)))
        zeros, no = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=bool)
        return InfoLayout({**example, **self._learners_reward(zeros, no, no)[1]})

    def _first_actions(self) -> Nested:
        """Reset, and return actions [B,...] to try, which the first observations allow."""
        first = self.reset()
        lacks_null = not self.action_space.contains(self.action_space.null_value())
        action = self.sample_actions(np.full(self.num_envs, lacks_null))
        return redrawn(action, first, self.action_space, self.sample_actions)

    # --- Steps -----------------------------------------------------------------------------------

    def step(self, action: Nested) -> VectorStep:
        """Apply ``action`` [B,...] and start the next episode wherever one ended."""
        gym_action = self.action_space.revert(action)
        observation, reward, terminated, truncated, info = self.env.step(gym_action)
        for refreeze in self._refreeze:
            refreeze()
        done = np.logical_or(terminated, truncated)
        any_done = bool(done.any())
        observation = self.observation_space.convert(observation)
        own_info = _without_masks(info)
        next_inputs = observation
        over = done
        if any_done and self.autoreset_mode == SAME_STEP:
            observation = self._with_final(observation, info, done)
            own_info = _final_infos(own_info, info.get("final_info"), done)
        timeout = np.logical_and(truncated, np.logical_not(terminated))
        if any_done:
            timeout |= done & np.asarray(own_info.get("timeout", False), dtype=bool)
            over = self._is_over(done, truncated, own_info)
        reward, more_info = self._learners_reward(reward, over, timeout)
        env_info = self._info_layout.read({**own_info, **more_info})
        if any_done and self.autoreset_mode != SAME_STEP and over.any():
            # The reset may write into the arrays of the environment.
            observation, reward = _copy(observation), _copy(reward)
            env_info = map_info(_copy, env_info)
            next_inputs = self.reset_some(over, observation)
        return VectorStep(observation, reward, done, env_info, next_inputs)

    def _is_over(self, done: BoolArray, truncated: BoolArray, info: Mapping[str, Any]) -> BoolArray:
        """Return a mask [B] of environments to reset.

        Where ``done`` is set elsewhere, only the learner's episode ends.
        """
        return done

    def _learners_reward(
        self, reward: NDArray, over: BoolArray, timeout: BoolArray
    ) -> tuple[NDArray, dict[str, Any]]:
        """Return the float32 reward to learn from, and entries to add to the info."""
        return np.asarray(reward, dtype=np.float32), {"timeout": timeout}

    def _with_final(self, observation: Nested, info: Mapping[str, Any], over: BoolArray) -> Nested:
        """Return a copy of ``observation`` with the last observations of finished episodes."""
        final = info.get("final_obs", info.get("final_observation"))
        if final is None:
            raise ValueError(
                f"{self.env} ended an episode with autoreset_mode SAME_STEP, but its info has no "
                "final_obs: make it with another autoreset_mode"
            )
        complete = _copy(observation)
        rows = observation_rows(complete, 1)
        for b in np.flatnonzero(over).tolist():
            with returned_by(self.env, b):
                rows[b] = self.observation_space.convert(final[b])
        return complete

    # --- Resets and seeds ------------------------------------------------------------------------

    def reset(self) -> Nested:
        """Start an episode in all environments and return their first observations [B,...]."""
        seeds: Any = None
        if self._is_seed_due:
            every = np.ones(self.num_envs, dtype=bool)
            seeds = self._seeds_of(every) if self._takes_seeds else self._seeds[0]
        self._is_seed_due = False
        observation = self.env.reset(seed=seeds)[0]
        for refreeze in self._refreeze:
            refreeze()
        return self._converted(observation)

    def _converted(self, observation: Any) -> Nested:
        return self.observation_space.convert(observation)

    def reset_some(self, which: BoolArray, observation: Nested, seeded: bool = False) -> Nested:
        """Start an episode in some of the environments.

        Args:
            which: mask [B] of the environments to reset, at least one.
            observation: present observations [B,...] of all environments.
            seeded: whether to use the seeds of :meth:`seed`, as in the first reset.

        Returns:
            A copy of ``observation`` with the first observations of the new episodes.

        Raises:
            ValueError: if the environment can only be reset as a whole.
        """
        if not self.partial_reset:
            raise ValueError(
                f"{type(self.env.unwrapped).__name__} can only be reset as a whole: pass "
                "max_decorrelation_steps=0 to the sampler, or make it as a SyncVectorEnv"
            )
        if seeded:
            self._seed_actions(as_numpy(which))
        seeds = self._seeds_of(which) if seeded and self._takes_seeds else None
        return self._reset_where(which, observation, seeds)

    def _reset_where(self, which: Any, observation: Nested, seeds: Any) -> Nested:
        observation = _copy(observation)
        first = self._converted(self.env.reset(seed=seeds, options={"reset_mask": which.copy()})[0])
        with returned_by(self.env):
            for array, part in zip(leaves(observation), leaves(first)):
                array[which] = fitted(part, array.shape, "observation")[which]
        return observation

    def _seeds_of(self, which: BoolArray) -> Any:
        """Return the seed of each environment for a reset of ``which`` [B]."""
        return self._seeds

    def seed(self, seed: int | Sequence[int]) -> None:
        """Seed everything random in each environment from its next reset on.

        Args:
            seed: seed of each environment; an integer seeds the first environment, and the
                following integers seed the others. Vector environments that take one seed get the
                first.
        """
        seeds = seed if isinstance(seed, Sequence) else range(seed, seed + self.num_envs)
        self._seeds, self._is_seed_due = [int(seed) for seed in seeds], True
        self._seed_actions(np.ones(self.num_envs, dtype=bool))
        self.observation_space.seed(derived_seed(self._seeds[0], Purpose.OBSERVATION_SPACE))

    def _seed_actions(self, which: BoolArray) -> None:
        for b in np.flatnonzero(which):
            self._action_spaces[b].seed(derived_seed(self._seeds[b], Purpose.ACTION_SPACE))

    # --- Spaces ----------------------------------------------------------------------------------

    def sample_actions(self, which: BoolArray | None = None) -> Nested:
        """Return random actions [B,...], each from the generator of its environment.

        Args:
            which: mask [B] of environments that act, None for all; others get the null action.
        """
        null_action = self.action_space.null_value()
        action = buffer_from_example(null_action, self.num_envs)
        action[:] = null_action
        for b, space in enumerate(self._action_spaces):
            if which is None or which[b]:
                action[b] = space.sample()
        return action

    # --- State -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a SyncVectorEnv from which :meth:`load_state_dict` continues exactly.

        Raises:
            NotImplementedError: if the environments keep their state in threads or processes.
        """
        *wrappers, innermost = layers_of(self.env)
        return {
            "wrappers": [layer_state(layer) for layer in wrappers],
            "envs": [[layer_state(layer) for layer in layers_of(e)] for e in _parts(innermost)],
            **self._state_of_draws(),
            "observation_space": self.observation_space.state_dict(),
        }

    def _state_of_draws(self) -> dict[str, Any]:
        """Return the seeds of the next episodes, and the generators of random actions."""
        return {
            "seeds": self._seeds,
            "is_seed_due": self._is_seed_due,
            "action_spaces": [space.state_dict() for space in self._action_spaces],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, saved by an environment with the same arguments."""
        *wrappers, innermost = layers_of(self.env)
        parts = _parts(innermost)
        if len(parts) != len(state["envs"]):
            raise ValueError(
                f"the saved vector environment had {len(state['envs'])} environments, this one has "
                f"{len(parts)}: resume with the same number"
            )
        innermost.reset()  # Starts an episode; the state then overwrites it.
        layers = [layer for part in parts for layer in layers_of(part)]
        set_layer_states(zip(wrappers, state["wrappers"]))
        set_layer_states(zip(layers, [s for states in state["envs"] for s in states]))
        self._load_draws(state)
        self.observation_space.load_state_dict(state["observation_space"])

    def _load_draws(self, state: dict[str, Any]) -> None:
        self._seeds, self._is_seed_due = state["seeds"], state["is_seed_due"]
        for space, space_state in zip(self._action_spaces, state["action_spaces"]):
            space.load_state_dict(space_state)


def make(
    id: str,
    num_envs: int,
    autoreset_mode: str = NEXT_STEP,
    vectorization_mode: str = "sync",
    info_example: Mapping[Any, Any] | None = None,
    vector_kwargs: Mapping[str, Any] | None = None,
    leave_out: Sequence[str] = (),
    **kwargs: Any,
) -> VectorEnvWrapper:
    """Make a vector environment by the id of its parts, as an ``EnvCls`` of the vector sampler.

    Args:
        id: id of a gymnasium environment.
        num_envs: number of environments, passed by the sampler.
        autoreset_mode: name of the mode, ``"next_step"``, ``"same_step"`` or ``"disabled"``.
        vectorization_mode: name of the kind, ``"sync"`` or ``"async"``, see ``gymnasium.make_vec``.
        info_example: entries [B,...] of the info that the first step lacks.
        vector_kwargs: arguments of the class of the vector environment.
        leave_out: keys of a Dict observation that the agent does not get, such as texts.
        kwargs: arguments of the environments, or of ``gymnasium.make_vec``.
    """
    register_ids(id)
    mode = gym.vector.AutoresetMode[autoreset_mode.upper()]
    vector_kwargs = {"autoreset_mode": mode, **(vector_kwargs or {})}
    if leave_out:
        cut = partial(without_entries, keys=leave_out)
        kwargs["wrappers"] = [*(kwargs.get("wrappers") or ()), cut]
    env = gym.make_vec(
        id,
        num_envs=num_envs,
        vectorization_mode=vectorization_mode,
        vector_kwargs=vector_kwargs,
        **kwargs,
    )
    return VectorEnvWrapper(env, info_example=info_example)


def _mode_of(env: gym.vector.VectorEnv[Any, Any, Any], given: Any) -> str:
    mode = env.metadata.get("autoreset_mode") if given is None else given
    name = getattr(mode, "name", str(mode)).lower().replace("-", "_")
    known = {name.replace("_", ""): name for name in (SAME_STEP, NEXT_STEP, DISABLED)}
    found = known.get(name.replace("_", ""))
    if found is None:
        raise ValueError(
            f"autoreset_mode={mode!r} must be one of {', '.join(known.values())}: pass the mode of "
            "this environment (gymnasium since 1.1 has it in metadata['autoreset_mode'])"
        )
    return found


def _rows_for(num_envs: int, info: Any) -> Any:
    """Return a copy of ``info`` whose entries [B',...] are repeated or cut to ``num_envs`` rows."""
    if isinstance(info, Mapping):
        return {key: _rows_for(num_envs, value) for key, value in info.items()}
    rows = info if isinstance(info, torch.Tensor) else np.asarray(info)
    return rows[np.arange(num_envs) % len(rows)] if rows.ndim else info


def _without_masks(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries without masks, and without entries of finished episodes."""
    return {
        key: _without_masks(value) if isinstance(value, Mapping) else _as_numbers(value)
        for key, value in info.items()
        if key not in _FINAL
        and key != "TimeLimit.truncated"
        and not (key[:1] == "_" and key[1:] in info)
    }


def _as_numbers(value: Any) -> Any:
    """Return numbers or lists that gymnasium keeps as objects as an array, with 0 for None."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "O":
        return value
    given = [x for x in value if x is not None]
    if not given or not all(is_numeric(x) and not isinstance(x, Mapping) for x in given):
        return value
    zero = np.zeros_like(given[0])
    try:
        return np.array([zero if x is None else x for x in value])
    except ValueError:  # Their shapes differ.
        return value


def _final_infos(info: dict[str, Any], final: Any, over: BoolArray) -> dict[str, Any]:
    """Return ``info`` with the entries of finished episodes where ``over`` is true."""
    if final is None:
        return info
    merged = dict(info)
    for key, value in _without_masks(final).items():
        mine = info.get(key)
        if isinstance(value, Mapping):
            merged[key] = _final_infos(dict(mine or {}), value, over)
        elif mine is None:
            merged[key] = value
        else:
            shape = (-1,) + (1,) * (np.ndim(value) - 1)
            merged[key] = np.where(over.reshape(shape), value, mine)
    return merged


def _copy(buffer: Nested) -> Nested:
    if isinstance(buffer, tuple):
        return buffer._make([_copy(part) for part in buffer])  # type: ignore[attr-defined]
    return buffer.copy()


def _parts(vector_env: Any) -> list[Any]:
    """Return the environments of a SyncVectorEnv."""
    if not hasattr(vector_env, "envs"):
        raise NotImplementedError(
            f"{type(vector_env).__name__} cannot save its state: use a SyncVectorEnv to resume runs"
        )
    return list(vector_env.envs)
