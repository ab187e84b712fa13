"""Old import path of the formulas in :mod:`rlpyt.returns`."""

from __future__ import annotations

from rlpyt.returns.advantages import (
    discount_return as discount_return,
    discount_return_tl as discount_return_tl,
    generalized_advantage_estimation as generalized_advantage_estimation,
    generalized_advantage_estimation_tl as generalized_advantage_estimation_tl,
)
from rlpyt.returns.n_step import discount_return_n_step as discount_return_n_step
from rlpyt.returns.valid import valid_from_done as valid_from_done
