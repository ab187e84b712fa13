"""One gradient update and what is logged of it, as every kind of algorithm does it."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import torch

from rlpyt.algos._optim import optimized_parameters, take_step
from rlpyt.algos.base import RlAlgorithm
from rlpyt.utils import torch_compat


@cache
def opt_info_class(fields: tuple[str, ...]) -> Any:
    """A namedtuple class ``OptInfo`` with these fields."""
    return namedtuple("OptInfo", fields)


class GradientUpdates(RlAlgorithm):
    """Takes steps down the gradient, with clipping, and refuses those which are not finite.

    Attributes:
        opt_info_stride: of values which are logged per sample, only every so many-th is.
    """

    opt_info_stride = 8
    _itr = 0

    clip_grad_norm: float | None

    def minimize(
        self, loss: torch.Tensor, optimizer: Any, parameters: Iterable[torch.nn.Parameter]
    ) -> tuple[float, float]:
        """Take one step of ``optimizer`` down the gradient of ``loss``.

        Args:
            loss: scalar.
            optimizer: of ``parameters``.
            parameters: whose gradients are clipped together.

        Returns:
            The loss, and the norm of the gradients before clipping.

        Raises:
            FloatingPointError: if one of them is not finite; no step is taken then.
        """
        for parameter in optimized_parameters(optimizer):
            parameter.grad = None  # What zero_grad() does, without its hooks for profilers.
        loss.backward()
        norm = self.clip_gradients(list(parameters))
        # On a GPU these two are the only values waited for.
        loss_value, grad_norm = loss.item(), float(norm)
        self._check_finite(loss=loss_value, gradNorm=grad_norm)
        take_step(optimizer)
        return loss_value, grad_norm

    def clip_gradients(self, parameters: list[torch.nn.Parameter]) -> Any:
        """Scale gradients down to the norm ``clip_grad_norm`` (None: leave them).

        Returns:
            Their norm before.
        """
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = torch_compat.total_norm(gradients).item()
        if self.clip_grad_norm is not None and norm > self.clip_grad_norm:
            torch._foreach_mul_(gradients, self.clip_grad_norm / norm)
        return norm

    def _check_finite(self, **values: float) -> None:
        for name, value in values.items():
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"{name} of {type(self).__name__} is {value} in iteration {self._itr}, after "
                    f"{self.update_counter} updates: lower learning_rate={self.learning_rate} or "
                    f"clip_grad_norm={self.clip_grad_norm}, scale rewards down, and look for "
                    "non-finite observations; torch.autograd.set_detect_anomaly(True) finds the "
                    "operation"
                )

    def _get_empty_optim_info(self) -> Any:
        """A record of ``opt_info_fields``, each an empty list."""
        fields = tuple(self.opt_info_fields)
        return opt_info_class(fields)(*([] for _ in fields))

    def record_opt_info(self, opt_info: Any, values: Mapping[str, Any]) -> None:
        """Append values of one update to the lists of ``opt_info``, as numbers.

        Args:
            opt_info: record of lists.
            values: numbers, scalar tensors, or tensors of which every ``opt_info_stride``-th
                element is kept.
        """
        for name in self.opt_info_fields:
            value = values.get(name)
            if isinstance(value, float):
                getattr(opt_info, name).append(value)
            elif isinstance(value, torch.Tensor) and not value.dim():
                getattr(opt_info, name).append(value.item())
            elif value is not None:
                flat = torch.as_tensor(value).detach().reshape(-1)
                getattr(opt_info, name).extend(flat[:: self.opt_info_stride].tolist())
