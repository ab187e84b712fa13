"""Base of all agents: one model, its device, its modes and its shared copy."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch.nn.parallel import DistributedDataParallel

from rlpyt.agents.masks import MaskField, find_mask
from rlpyt.agents.recurrent import as_record, as_returned, from_plain, set_zero, to_plain
from rlpyt.core.masks import ACTION_MASK
from rlpyt.core.records import (
    AgentInputs as AgentInputs,
    AgentInputsRnn as AgentInputsRnn,
    AgentStep as AgentStep,
    EnvSpaces,
)
from rlpyt.distributions.base import Distribution
from rlpyt.models.autocast import model_class
from rlpyt.models.encoders import encoded, needs_encoder
from rlpyt.models.utils import fitting_state_dict, update_state_dict
from rlpyt.processes.rwlock import ReadWriteLock
from rlpyt.utils.buffer import buffer_to, existing_device, leaves
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import ConstructorSignature, save__init__args
from rlpyt.utils.types import Nested

T = TypeVar("T")


def without_ddp(model: Any) -> Any:
    """Return ``model`` without a ``DistributedDataParallel`` wrapper."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def with_ddp(model: torch.nn.Module, device_id: int | None) -> DistributedDataParallel:
    """Return ``model`` in ``DistributedDataParallel``; ``device_id`` is None on the CPU."""
    return DistributedDataParallel(model, device_ids=None if device_id is None else [device_id])


class BaseAgent:
    """Base class of all agents: acts for the sampler, and computes gradients for the algorithm.

    The constructor only stores its arguments. The sampler calls :meth:`initialize` once the spaces
    are known, and the runner then moves the agent to its device. With the start method "spawn", an
    agent can be passed to a new process, together with its locks and counters.

    Args:
        ModelCls: class or factory of the model, called with the keywords of
            :meth:`make_env_to_model_kwargs` and ``model_kwargs``.
        model_kwargs: further keywords of ``ModelCls``.
        initial_model_state_dict: state to load into the new model; for agents with several models,
            in the form of :meth:`state_dict`.

    Attributes:
        model: model to train; a ``DistributedDataParallel`` after :meth:`data_parallel`.
        shared_model: copy in shared memory, from which other processes act, or None.
        distribution: action distribution, given the model's outputs.
        device: device of ``model``.
        spans_episodes: whether a recurrent agent can be trained on sequences of several episodes,
            by ``reset``, a mask of the steps before which its state is zero.
        cpu_outputs: whether training batches stay on the CPU and outputs for losses are moved
            there, as in rlpyt 0.1.2; otherwise both are on ``device``.
        sampler_device: device of the sampler's batches, to which actions and values are moved.
        mask_field: name of the observation field with a mask of the allowed actions, which is
            removed before the network runs; None leaves all fields to the network.
    """

    __signature__ = ConstructorSignature()

    cpu_outputs = False
    sampler_device = torch.device("cpu")

    recurrent = False
    alternating = False
    spans_episodes: Any = False
    model: Any = None
    q_kind: str | None = None
    mask_field: str | None = ACTION_MASK
    _mask_reader: MaskField | None = None
    # Models that take one vector; an encoder turns other observations into one.
    vector_models: tuple[type[torch.nn.Module], ...] = ()

    ModelCls: Any = None
    model_kwargs: Any = None
    initial_model_state_dict: Mapping[str, Any] | None = None
    env_model_kwargs: dict[str, Any]
    env_spaces: EnvSpaces
    share_memory: bool

    def __init__(
        self,
        ModelCls: Callable[..., torch.nn.Module] | None = None,
        model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Mapping[str, Any] | None = None,
    ) -> None:
        save__init__args(locals())
        self.shared_model: Any = None
        self.distribution: Any = None
        self.device = torch.device("cpu")
        self._mode: str | None = None
        if self.model_kwargs is None:
            self.model_kwargs = {}
        self._rw_lock = ReadWriteLock()
        # A raw value: written by the optimizer's process only, read by samplers.
        self._send_count = mp.RawValue("l", 0)
        self._recv_count = 0

    # --- Methods that each kind of agent defines ---------------------------------------------

    def __call__(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Run the model for training, with gradients; return its outputs for a loss.

        Args:
            observation: observations [T,B,...] or [B,...].
            prev_action: previous actions [T,B,...] or [B,...].
            prev_reward: previous rewards [T,B] or [B].
        """
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")

    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        """Choose actions, without gradients; also for inputs without a batch dimension.

        Args:
            observation: observations [B,...], torch on any device.
            prev_action: previous actions [B,...], the null action at the start of an episode.
            prev_reward: previous rewards [B].

        Returns:
            Action and agent info, [B,...] on ``sampler_device``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Estimate the values [B] of observations, without advancing any state."""
        raise NotImplementedError(
            f"{type(self).__name__} has no value(): an algorithm with bootstrap_value=True needs "
            "an agent that estimates values"
        )

    def mask_outputs(self, outputs: Any, mask: torch.Tensor) -> Any:
        """Apply an action mask to the outputs of a network.

        Args:
            outputs: outputs of the network.
            mask: mask [...,A] of the allowed actions, on the same device.
        """
        raise NotImplementedError(
            f"{type(self).__name__} takes no action masks: define mask_outputs(), or rename the "
            "field of the mask"
        )

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return the keywords of ``ModelCls`` that the environment determines, such as shapes."""
        return {}

    # --- Set-up ------------------------------------------------------------------------------

    def initialize(
        self,
        env_spaces: EnvSpaces,
        share_memory: bool = False,
        **kwargs: Any,
    ) -> None:
        """Build the model; called by the sampler, before it starts its workers.

        Args:
            env_spaces: spaces of one environment.
            share_memory: whether to put the model in shared memory, for workers that act.
            **kwargs: ``global_B`` and ``env_ranks`` of :meth:`collector_initialize`, for agents
                that keep something for each environment; ``env_ranks`` is None if the workers act.

        Raises:
            ValueError: if ``ModelCls`` is missing or its keywords are given twice, or observations
                have an action mask that does not fit.
        """
        self.device = torch.device("cpu")  # An earlier run may have had another.
        self._mask_reader, env_spaces = find_mask(type(self).__name__, self.mask_field, env_spaces)
        self.env_spaces = env_spaces
        self.share_memory = share_memory
        self.env_model_kwargs = self.make_env_to_model_kwargs(env_spaces)
        self._build_models()
        if self.initial_model_state_dict is not None:
            try:
                self._load_initial_state(self.initial_model_state_dict)
            except (RuntimeError, KeyError) as error:
                raise ValueError(
                    f"initial_model_state_dict does not fit {type(self).__name__}: {error}"
                ) from error

    def _build_models(self) -> None:
        """Build every model; extended by agents with more than one."""
        self.model = self.build_network("model")
        self.shared_model = self.model.share_memory() if self.share_memory else None

    def build_network(self, name: str) -> Any:
        """Build a network, or another copy of it.

        Args:
            name: ``model``, or the attribute of a further network that a subclass trains.
        """
        if name == "model":
            return self._new_model(self.ModelCls, self.model_kwargs)
        raise NotImplementedError(f"build_network() of {type(self).__name__} builds no {name}")

    def _load_initial_state(self, state_dict: Mapping[str, Any]) -> None:
        self.model.load_state_dict(fitting_state_dict(self.model, state_dict))

    def _new_model(
        self, ModelCls: Callable[..., Any] | None, model_kwargs: Mapping[str, Any]
    ) -> Any:
        """Build a model for this environment.

        Raises:
            ValueError: if ``ModelCls`` is missing or its keywords are given twice.
        """
        if ModelCls is None:
            raise ValueError(
                f"{type(self).__name__} has no ModelCls: pass the class of its model, as in "
                f"{type(self).__name__}(ModelCls=MyModel)"
            )
        twice = sorted(self.env_model_kwargs.keys() & model_kwargs.keys())
        if twice:
            raise ValueError(
                f"model_kwargs of {type(self).__name__} has {twice}, but the environment "
                "determines that: leave it out, or override make_env_to_model_kwargs"
            )
        space = self.env_spaces.observation
        is_for_vectors = model_class(ModelCls) in self.vector_models
        # An agent with an encoder of its own gives the shape of its features instead.
        shape = self.env_model_kwargs.get("observation_shape")
        if is_for_vectors and needs_encoder(space) and shape == space.shape:
            ModelCls = encoded(ModelCls, space)
        try:
            return ModelCls(**self.env_model_kwargs, **model_kwargs)
        except TypeError as error:
            raise TypeError(
                f"{error}: {type(self).__name__} gives its model {sorted(self.env_model_kwargs)} "
                f"of the environment, see make_env_to_model_kwargs, and {sorted(model_kwargs)} of "
                "model_kwargs: pass model_kwargs that fit the model, if only {}"
            ) from error

    def collector_initialize(
        self, global_B: int = 1, env_ranks: Sequence[int] | None = None
    ) -> None:
        """Set the environments of this copy of the agent, before sampling starts.

        Args:
            global_B: number of environments in all processes.
            env_ranks: indexes of the environments in this process, from 0 to ``global_B - 1``.
        """

    def to_device(self, cuda_idx: int | str | torch.device | None = None) -> None:
        """Move the model, or a copy of a shared model, to a device.

        Args:
            cuda_idx: index of a CUDA device, or any device or its name; None to stay on the CPU.

        Raises:
            ValueError: if there is no such device.
        """
        device = torch.device("cpu")
        if cuda_idx is not None:
            remedy = "leave it out of the affinity to run on the CPU"
            device = existing_device("cuda_idx", cuda_idx, remedy)
        if device.type == "cpu":
            return
        if self.shared_model is not None:
            self.model = self.build_network("model")
            self.model.load_state_dict(self.shared_model.state_dict())
        self.device = device
        self.model.to(self.device)
        for part in vars(self).values():
            if isinstance(part, Distribution):
                part.copy_to(device)
        logger.log(f"Initialized agent model on device: {self.device}.")

    def data_parallel(self) -> int | None:
        """Average the gradients of ``model`` over all processes of the torch process group.

        Returns:
            The index of the CUDA device, or None on the CPU.
        """
        device_id = self.device.index if self.device.type == "cuda" else None
        self.model = with_ddp(self.model, device_id)
        logger.log(f"Initialized DistributedDataParallel agent model on device: {self.device}.")
        return device_id

    def async_cpu(self, share_memory: bool = True) -> None:
        """Act from a separate copy of the shared model, which the optimizer's process updates.

        Does nothing if the agent acts on a CUDA device, where it already has a copy.

        Args:
            share_memory: whether to put the copy in shared memory, for the sampler's workers.

        Raises:
            ValueError: if the agent was not initialized with ``share_memory=True``.
        """
        if self.device.type != "cpu":
            return
        if self.shared_model is None:
            raise ValueError("async_cpu() needs an agent initialized with share_memory=True")
        self.model = self.build_network("model")
        self.model.load_state_dict(self.shared_model.state_dict())
        if share_memory:
            self.model.share_memory()

    # --- Recurrent state: nothing to do for other agents -------------------------------------

    def reset(self) -> None:
        """Reset the agent's state for every environment."""

    def reset_one(self, idx: int) -> None:
        """Reset the agent's state for one environment.

        Args:
            idx: index of the environment in the batch of the next step.
        """

    def toggle_alt(self) -> None:
        """Switch to the other half of the environments, in alternating sampling."""

    # --- Schedule, statistics and modes ------------------------------------------------------

    def give_min_itr_learn(self, min_itr_learn: int) -> None:
        """Receive the first iteration that trains from an actor-critic algorithm."""

    def update_obs_rms(self, observation: Nested) -> None:
        """Add observations [T,B,...] to the running statistics of the model, if it keeps any."""

    def train_mode(self, itr: int) -> None:
        """Prepare to train in iteration ``itr``."""
        self._switch_to("train")

    def sample_mode(self, itr: int) -> None:
        """Prepare to sample, with exploration, in iteration ``itr``."""
        self._switch_to("sample")

    def eval_mode(self, itr: int) -> None:
        """Prepare to act for evaluation in iteration ``itr``."""
        self._switch_to("eval")

    def _switch_to(self, mode: str) -> None:
        is_training = mode == "train"
        # Runner and collector both ask for the mode; to walk through all modules takes longer.
        if mode != self._mode or self.model.training != is_training:
            for network in self._trained_networks():
                network.train(is_training)
        self._mode = mode

    def _trained_networks(self) -> list[Any]:
        return [self.model]

    # --- Parameters and state ----------------------------------------------------------------

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters to optimize."""
        parameters: Iterator[torch.nn.Parameter] = self.model.parameters()
        return parameters

    def state_dict(self) -> dict[str, Any]:
        """Return parameters and buffers, under names that do not depend on data_parallel."""
        state: dict[str, Any] = without_ddp(self.model).state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the parameters and buffers of :meth:`state_dict`."""
        model = without_ddp(self.model)
        model.load_state_dict(fitting_state_dict(model, state_dict))

    def _move_target(self, name: str, tau: float) -> None:
        """Move the network ``target_<name>`` towards the network ``name``, with weight ``tau``."""
        target, model = getattr(self, f"target_{name}"), without_ddp(getattr(self, name))
        update_state_dict(target, model.state_dict(), tau, strip_ddp=False)

    def sample_state_dict(self) -> dict[str, Any]:
        """Return the state that is kept between sampled steps; empty if not recurrent."""
        return {}

    def load_sample_state_dict(self, state: dict[str, Any]) -> None:
        """Continue sampling from the state of :meth:`sample_state_dict`."""

    # --- Sharing parameters between processes ------------------------------------------------

    def sync_shared_memory(self) -> None:
        """Copy the trained parameters to the shared model, if there is a separate one."""
        if self.shared_model is not None and self.shared_model is not self.model:
            self.shared_model.load_state_dict(without_ddp(self.model).state_dict())

    def send_shared_memory(self) -> None:
        """Publish the trained parameters, from the optimizer's process."""
        with self._rw_lock.write_lock:
            self.sync_shared_memory()
            # Counted even where the trained model is the shared one: samplers copy by the count.
            self._send_count.value += 1

    def recv_shared_memory(self) -> None:
        """Load the latest published parameters, unless this process has them."""
        if self.shared_model is None or self.shared_model is self.model:
            return
        with self._rw_lock:
            if self._recv_count < self._send_count.value:
                without_ddp(self.model).load_state_dict(self.shared_model.state_dict())
                self._recv_count = self._send_count.value

    @property
    def received_version(self) -> int:
        """Number of the published parameters that this process has loaded; 0 before the first."""
        return self._recv_count

    # --- Forward passes ----------------------------------------------------------------------

    def run_model(self, model: Any, *inputs: Nested, **kwargs: Any) -> Any:
        """Run a network on the agent's device; outputs stay there.

        Args:
            model: network of this agent; without gradients, a ``DistributedDataParallel`` wrapper
                is left out, since it would wait for the gradients of other processes.
            *inputs: inputs of the network, on any device.
            **kwargs: keywords of the network, passed on unchanged.
        """
        if isinstance(model, DistributedDataParallel) and not _will_be_trained(model):
            model = model.module
        if self._mask_reader is not None:
            observation, *others = self.to_model_device(*inputs)
            observation, mask = self._mask_reader.split(observation)
            outputs = self._forward(model, observation, *others, **kwargs)
            return self.mask_outputs(outputs, mask)
        return self._forward(model, *inputs, **kwargs)

    def _forward(self, model: Any, *inputs: Nested, **kwargs: Any) -> Any:
        if self.device.type == "cpu":
            return model(*inputs, **kwargs)
        outputs = model(*buffer_to(inputs, device=self.device), **kwargs)
        found = {x.device for x in leaves(outputs) if isinstance(x, torch.Tensor)}
        if found - {self.device}:
            name = type(without_ddp(model)).__name__
            raise ValueError(
                f"{name} returned tensors on {sorted(map(str, found))}, but the agent is on "
                f"{self.device}: make constants of the model buffers, which move with it "
                "(register_buffer)"
            )
        return outputs

    @property
    def acting_model(self) -> Any:
        """The model without a ``DistributedDataParallel`` wrapper."""
        return without_ddp(self.model)

    def to_model_device(self, *inputs: Nested) -> tuple[Nested, ...]:
        """Move the inputs of a network to its device; costs nothing on the CPU."""
        if self.device.type == "cpu":
            return inputs
        moved: tuple[Nested, ...] = buffer_to(inputs, device=self.device)
        return moved

    def for_loss(self, outputs: T) -> T:
        """Return network outputs for a loss, moved to the CPU if ``cpu_outputs``."""
        return buffer_to(outputs, device="cpu") if self.cpu_outputs else outputs

    def for_sampler(self, outputs: T) -> T:
        """Move actions and values to the device of the sampler's batches."""
        return outputs if self.device.type == "cpu" else buffer_to(outputs, self.sampler_device)


def _will_be_trained(model: DistributedDataParallel) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for p in model.parameters())


class RecurrentAgentMixin(BaseAgent):
    """Mixin that keeps the recurrent state of the last step; list it before the agent class.

    The agent's ``step`` passes ``prev_rnn_state`` to the model, and the model's new state to
    :meth:`advance_rnn_state`. None stands for zeros. While the agent trains or is evaluated, the
    state from sampling is set aside. A model may return its state as a plain tuple, as an LSTM of
    torch does: the agent keeps it as a record, and gives the model plain tuples.
    """

    recurrent = True
    _no_rnn_state: Any = None
    _prev_rnn_state: Any = None
    _sample_rnn_state: Any = None

    def _build_models(self) -> None:
        super()._build_models()
        self._prev_rnn_state = self._sample_rnn_state = self._no_rnn_state  # New networks.

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B,H] before the next step, or None."""
        return self._prev_rnn_state

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Keep the state [N,B,H] after a step."""
        self._prev_rnn_state = new_rnn_state

    def run_model(self, model: Any, *inputs: Nested, **kwargs: Any) -> Any:
        outputs = super().run_model(model, *map(as_returned, inputs), **kwargs)
        if isinstance(outputs, tuple) and type(outputs[-1]) is tuple:
            *others, rnn_state = outputs
            outputs = (*others, as_record(rnn_state))
        return outputs

    def _set_rnn_state(self, state: Nested) -> None:
        self._prev_rnn_state = state

    def reset(self) -> None:
        self._set_rnn_state(self._no_rnn_state)

    def reset_one(self, idx: int) -> None:
        set_zero(self.prev_rnn_state, idx)

    def _leave_sampling(self) -> None:
        if self._mode == "sample":
            self._sample_rnn_state = self._prev_rnn_state
        self._set_rnn_state(self._no_rnn_state)

    def train_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().train_mode(itr)

    def sample_mode(self, itr: int) -> None:
        if self._mode != "sample":
            self._set_rnn_state(self._sample_rnn_state)
        super().sample_mode(itr)

    def eval_mode(self, itr: int) -> None:
        self._leave_sampling()
        super().eval_mode(itr)

    def sample_state_dict(self) -> dict[str, Any]:
        state = self._prev_rnn_state if self._mode == "sample" else self._sample_rnn_state
        return {**super().sample_state_dict(), "rnn_states": to_plain(state)}

    def load_sample_state_dict(self, state: dict[str, Any]) -> None:
        super().load_sample_state_dict(state)
        states = from_plain(state["rnn_states"])
        self._sample_rnn_state = self._no_rnn_state if states is None else states
        if self._mode == "sample":
            self._set_rnn_state(self._sample_rnn_state)


class AlternatingRecurrentAgentMixin(RecurrentAgentMixin):
    """Mixin that keeps one recurrent state for each half of the environments, which take turns.

    ``prev_rnn_state`` and :meth:`reset_one` refer to the active half, which acts next;
    :meth:`advance_rnn_state` stores its new state and switches to the other half.
    """

    alternating = True
    _alt = 0
    _no_rnn_state = _prev_rnn_state = _sample_rnn_state = (None, None)

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B/2,H] of the active half before its next step, or None."""
        return self._prev_rnn_state[self._alt]

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Keep the state [N,B/2,H] of the active half after a step; switch to the other half."""
        first, second = self._prev_rnn_state
        self._prev_rnn_state = (first, new_rnn_state) if self._alt else (new_rnn_state, second)
        self.toggle_alt()

    def get_alt(self) -> int:
        """Return the index of the active half, 0 or 1."""
        return self._alt

    def toggle_alt(self) -> None:
        self._alt ^= 1

    def _set_rnn_state(self, state: Nested) -> None:
        super()._set_rnn_state(state)
        self._alt = 0


def setting_of_model(model_kwargs: Mapping[str, Any], name: str, value: Any, default: Any) -> Any:
    """Return a setting that an agent and its model share, and that either of them may be given.

    Args:
        model_kwargs: keywords of the model.
        name: name of the setting, for the agent and for the model.
        value: argument of the agent.
        default: default of this argument.

    Raises:
        ValueError: if both are given, with different values.
    """
    of_model = model_kwargs.get(name, value)
    if of_model != value and value != default:
        raise ValueError(
            f"{name} of the agent is {value}, but the keywords of its model have {name}="
            f"{of_model}: give only one of them"
        )
    return of_model
