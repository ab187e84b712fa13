"""The records of a sampler batch, under their public path."""

from __future__ import annotations

from rlpyt.core.records import AgentSamples as AgentSamples
from rlpyt.core.records import AgentSamplesBsv as AgentSamplesBsv
from rlpyt.core.records import BatchSpec as BatchSpec
from rlpyt.core.records import EnvSamples as EnvSamples
from rlpyt.core.records import Samples as Samples
from rlpyt.core.records import TrajInfo as TrajInfo
from rlpyt.utils.collections import AttrDict as AttrDict
from rlpyt.utils.collections import namedarraytuple as namedarraytuple
from rlpyt.utils.collections import namedtuple as namedtuple
