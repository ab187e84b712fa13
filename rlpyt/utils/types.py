"""Types for annotations: arrays, and nested structures of arrays."""

from __future__ import annotations

from typing import Any, Union

import numpy as np
import numpy.typing as npt
import torch

# A leaf of a buffer: numpy for environments, torch for agents; both may share memory.
Array = Union[np.ndarray, torch.Tensor]

NDArray = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.integer[Any]]

# An array, ``None`` (an absent field), or a tuple or record of nested structures. The type is open
# because Python has none for records whose fields are named at run time.
Nested = Any
