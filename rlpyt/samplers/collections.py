"""The records of a sampler batch, under their public path."""

from __future__ import annotations

from rlpyt.core.records import (
    AgentSamples as AgentSamples,
    AgentSamplesBsv as AgentSamplesBsv,
    BatchSpec as BatchSpec,
    EnvSamples as EnvSamples,
    Samples as Samples,
    TrajInfo as TrajInfo,
)
from rlpyt.utils.collections import (
    AttrDict as AttrDict,
    namedarraytuple as namedarraytuple,
    namedtuple as namedtuple,
)
