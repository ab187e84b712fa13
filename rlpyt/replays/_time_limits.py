"""The part of a buffer which knows whether a time limit ended an episode."""

from __future__ import annotations

from typing import Any

from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.returns.n_step import timeout_n_step


class TimeLimits(BaseNStepReturnBuffer):
    """Storage with the field ``timeout``: done because of a time limit.

        timeout_n_t = timeout at the first done among t, ..., t+n-1, or False if there is none

    Raises:
        ValueError: if the example has no field ``timeout``.

    Attributes:
        samples_timeout_n: [T,B]; with n = 1 this is ``samples.timeout`` itself.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 3.
    """

    batch_fields = ("timeout", "timeout_n")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "timeout" not in self.samples._fields:
            raise ValueError(
                f"the example has the fields {self.samples._fields} but not timeout: add it in the "
                "algorithm's examples_to_buffer and samples_to_buffer (env_info.timeout, which the "
                "gymnasium wrapper gives), or use a buffer without time limits"
            )
        self.samples_timeout_n = self.samples.timeout
        if self.n_step_return > 1:
            self.samples_timeout_n = self.allocate_like(self.samples.timeout, "timeout_n")

    @property
    def row_fields(self) -> dict[str, Any]:
        known = {"timeout": self.samples.timeout, "timeout_n": self.samples_timeout_n}
        return {**known, **super().row_fields}

    def compute_returns(self, T: int) -> None:
        super().compute_returns(T)
        if self.n_step_return == 1:
            return
        completed, needed = self.rows_completed(T)
        if completed is not None:
            self.samples_timeout_n[completed] = timeout_n_step(
                self.samples.done[needed], self.samples.timeout[needed], self.n_step_return
            )
