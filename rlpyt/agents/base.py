"""Base of all agents: one model, its device, its modes and its shared copy."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from rlpyt.agents.recurrent import (
    AlternatingRecurrentAgentMixin as AlternatingRecurrentAgentMixin,
    RecurrentAgentMixin as RecurrentAgentMixin,
)
from rlpyt.core.records import (
    AgentInputs as AgentInputs,
    AgentInputsRnn as AgentInputsRnn,
    AgentStep as AgentStep,
    EnvSpaces,
)
from rlpyt.models.utils import fitting_state_dict
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.rwlock import ReadWriteLock
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested


def without_ddp(model: Any) -> Any:
    """Return the module inside a ``DistributedDataParallel`` wrapper, or ``model`` itself."""
    return model.module if isinstance(model, DistributedDataParallel) else model


class BaseAgent:
    """Acts for the sampler and computes with gradients for the algorithm, by one model.

    The constructor only stores its arguments. The sampler calls :meth:`initialize` once the spaces
    are known, and the runner then moves the agent to its device. Under the start method "spawn" an
    agent can be handed to a process at its start, like the locks and counters which it holds.

    Args:
        ModelCls: class or factory of the model, called with the keywords of
            :meth:`make_env_to_model_kwargs` and ``model_kwargs``.
        model_kwargs: further keywords of ``ModelCls``.
        initial_model_state_dict: loaded into the new model; for agents with several models, of the
            form of their :meth:`state_dict`.

    Attributes:
        model: the model which is trained; a ``DistributedDataParallel`` after
            :meth:`data_parallel`.
        shared_model: the copy in shared memory from which other processes act, or None.
        distribution: turns outputs of the model into actions.
        device: of ``model``.
    """

    recurrent = False
    alternating = False

    model_kwargs: dict[str, Any]
    initial_model_state_dict: Any
    env_model_kwargs: dict[str, Any]
    env_spaces: EnvSpaces
    share_memory: bool

    def __init__(
        self,
        ModelCls: Any = None,
        model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Any = None,
    ) -> None:
        save__init__args(locals())
        self.ModelCls: Any
        self.model: Any = None
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

    # --- What a kind of agent defines --------------------------------------------------------

    def __call__(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Run the model for training, with gradients; outputs are on the CPU.

        Args:
            observation: [T,B,...] or [B,...].
            prev_action: [T,B,...] or [B,...].
            prev_reward: [T,B] or [B].
        """
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")

    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        """Choose actions, without gradients; also for inputs without a batch dimension.

        Args:
            observation: [B,...], torch on the CPU.
            prev_action: [B,...], the null action at the start of an episode.
            prev_reward: [B].

        Returns:
            Action and agent info, [B,...] on the CPU.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Estimate the values [B] of observations, on the CPU, without advancing any state."""
        raise NotImplementedError(
            f"{type(self).__name__} estimates no values: an algorithm which sets bootstrap_value "
            "needs an agent which does"
        )

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Keywords of ``ModelCls`` which follow from the environment, such as shapes."""
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
            env_spaces: of one environment.
            share_memory: put the model in shared memory, for workers which act by themselves.
            **kwargs: for agents which keep something of each environment: ``global_B`` and
                ``env_ranks`` of :meth:`collector_initialize`, the latter None if the workers act by
                themselves.

        Raises:
            ValueError: if ``ModelCls`` is missing or its keywords are given twice.
        """
        self.env_spaces = env_spaces
        self.share_memory = share_memory
        self.env_model_kwargs = self.make_env_to_model_kwargs(env_spaces)
        self._build_models()
        if self.initial_model_state_dict is not None:
            self._load_initial_state(self.initial_model_state_dict)

    def _build_models(self) -> None:
        """Make every model of the agent; extended by agents with more than one."""
        self.model = self.build_model(self.ModelCls, self.model_kwargs)
        if self.share_memory:
            self.model.share_memory()
            self.shared_model = self.model

    def _load_initial_state(self, state_dict: Any) -> None:
        self.model.load_state_dict(fitting_state_dict(self.model, state_dict))

    def build_model(self, ModelCls: Any, model_kwargs: Mapping[str, Any]) -> Any:
        """Make a model for this environment.

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
                f"model_kwargs of {type(self).__name__} holds {twice}, which the agent takes from "
                "the environment: leave it out, or override make_env_to_model_kwargs"
            )
        return ModelCls(**self.env_model_kwargs, **model_kwargs)

    def collector_initialize(
        self, global_B: int = 1, env_ranks: Sequence[int] | None = None
    ) -> None:
        """Learn which environments this copy of the agent acts for, before sampling starts.

        Args:
            global_B: number of environments over all processes.
            env_ranks: indexes among those, of the environments in this process.
        """

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Move the model to a CUDA device; a shared model stays on the CPU, and a copy moves.

        Args:
            cuda_idx: index of the device; None to stay on the CPU.

        Raises:
            ValueError: if there is no such device.
        """
        if cuda_idx is None:
            return
        if cuda_idx >= torch.cuda.device_count():
            raise ValueError(
                f"cuda_idx is {cuda_idx}, but torch sees {torch.cuda.device_count()} CUDA devices: "
                "leave it out of the affinity to run on the CPU"
            )
        if self.shared_model is not None:
            self.model = self.build_model(self.ModelCls, self.model_kwargs)
            self.model.load_state_dict(self.shared_model.state_dict())
        self.device = torch.device("cuda", index=cuda_idx)
        self.model.to(self.device)
        logger.log(f"Initialized agent model on device: {self.device}.")

    def data_parallel(self) -> int | None:
        """Average the gradients of ``model`` over all processes of the torch process group.

        Returns:
            The index of the CUDA device, or None on the CPU.
        """
        device_id = self.device.index if self.device.type == "cuda" else None
        self.model = DistributedDataParallel(
            self.model,
            device_ids=None if device_id is None else [device_id],
            output_device=device_id,
        )
        logger.log(f"Initialized DistributedDataParallel agent model on device: {self.device}.")
        return device_id

    def async_cpu(self, share_memory: bool = True) -> None:
        """Act from an own copy of the shared model, while the optimizer's process changes that.

        Does nothing if the agent acts on a CUDA device, where it has an own copy anyway.

        Args:
            share_memory: put the copy in shared memory, for the sampler's workers.

        Raises:
            ValueError: if the agent was not initialized with ``share_memory=True``.
        """
        if self.device.type != "cpu":
            return
        if self.shared_model is None:
            raise ValueError("async_cpu() needs an agent initialized with share_memory=True")
        self.model = self.build_model(self.ModelCls, self.model_kwargs)
        self.model.load_state_dict(self.shared_model.state_dict())
        if share_memory:
            self.model.share_memory()

    # --- State of one environment, which recurrent agents keep -------------------------------

    def reset(self) -> None:
        """Forget the past of every environment."""

    def reset_one(self, idx: int) -> None:
        """Forget the past of one environment.

        Args:
            idx: index of the environment in the batch which is stepped next.
        """

    def toggle_alt(self) -> None:
        """Turn to the other half of the environments, in alternating sampling."""

    # --- Modes -------------------------------------------------------------------------------

    def train_mode(self, itr: int) -> None:
        """Prepare to be trained in iteration ``itr``."""
        self.model.train()
        self._mode = "train"

    def sample_mode(self, itr: int) -> None:
        """Prepare to act, exploring, in iteration ``itr``."""
        self.model.eval()
        self._mode = "sample"

    def eval_mode(self, itr: int) -> None:
        """Prepare to act for evaluation in iteration ``itr``."""
        self.model.eval()
        self._mode = "eval"

    # --- Parameters and state ----------------------------------------------------------------

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """All that the optimizer adapts."""
        parameters: Iterator[torch.nn.Parameter] = self.model.parameters()
        return parameters

    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers; the same for one process and for many."""
        state: dict[str, Any] = without_ddp(self.model).state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the parameters and buffers of :meth:`state_dict`."""
        model = without_ddp(self.model)
        model.load_state_dict(fitting_state_dict(model, state_dict))

    def sample_state_dict(self) -> dict[str, Any]:
        """What the agent remembers from one sampled step to the next; nothing, if not recurrent."""
        return {}

    def load_sample_state_dict(self, state: dict[str, Any]) -> None:
        """Go on sampling from the state of :meth:`sample_state_dict`."""

    # --- Sharing parameters between processes ------------------------------------------------

    def sync_shared_memory(self) -> None:
        """Copy the trained parameters to the shared model, if that is another one."""
        if self.shared_model is not None and self.shared_model is not self.model:
            self.shared_model.load_state_dict(without_ddp(self.model).state_dict())

    def send_shared_memory(self) -> None:
        """Publish the trained parameters, from the optimizer's process."""
        with self._rw_lock.write_lock:
            self.sync_shared_memory()
            # Counted even where the trained model is the shared one: samplers copy by the count.
            self._send_count.value += 1

    def recv_shared_memory(self) -> None:
        """Take the parameters which were published last, if they are new to this process."""
        if self.shared_model is None or self.shared_model is self.model:
            return
        with self._rw_lock:
            if self._recv_count < self._send_count.value:
                without_ddp(self.model).load_state_dict(self.shared_model.state_dict())
                self._recv_count = self._send_count.value

    # --- Between devices ---------------------------------------------------------------------

    @property
    def acting_model(self) -> Any:
        """The model for forward passes outside training, where no process waits for another."""
        return without_ddp(self.model)

    def to_model_device(self, *inputs: Nested) -> tuple[Nested, ...]:
        """Move the inputs of the model to where it is; costs nothing on the CPU."""
        if self.device.type == "cpu":
            return inputs
        moved: tuple[Nested, ...] = buffer_to(inputs, device=self.device)
        return moved

    def to_cpu(self, outputs: Nested) -> Nested:
        """Move outputs of the model to the CPU; costs nothing if they are there."""
        return outputs if self.device.type == "cpu" else buffer_to(outputs, device="cpu")
