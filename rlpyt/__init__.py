"""Reinforcement learning on one machine: deep Q-learning, policy gradients, actor-critics."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlpyt.algos.dqn.cat_dqn import CategoricalDQN as CategoricalDQN
    from rlpyt.algos.dqn.dqn import DQN as DQN
    from rlpyt.algos.dqn.pqn import PQN as PQN
    from rlpyt.algos.dqn.r2d1 import R2D1 as R2D1
    from rlpyt.algos.pg.a2c import A2C as A2C
    from rlpyt.algos.pg.ppo import PPO as PPO
    from rlpyt.algos.qpg.ddpg import DDPG as DDPG
    from rlpyt.algos.qpg.sac import SAC as SAC
    from rlpyt.algos.qpg.td3 import TD3 as TD3
    from rlpyt.experiments.runs import Run as Run, train as train
    from rlpyt.experiments.trained import load as load
    from rlpyt.runners.async_rl import AsyncRl as AsyncRl, AsyncRlEval as AsyncRlEval
    from rlpyt.runners.minibatch_rl import (
        MinibatchRl as MinibatchRl,
        MinibatchRlEval as MinibatchRlEval,
    )
    from rlpyt.runners.sync_rl import SyncRl as SyncRl, SyncRlEval as SyncRlEval
    from rlpyt.samplers.parallel.cpu.sampler import CpuSampler as CpuSampler
    from rlpyt.samplers.parallel.gpu.alternating_sampler import (
        AlternatingSampler as AlternatingSampler,
    )
    from rlpyt.samplers.parallel.gpu.sampler import GpuSampler as GpuSampler
    from rlpyt.samplers.serial.sampler import SerialSampler as SerialSampler
    from rlpyt.samplers.vector.sampler import VectorSampler as VectorSampler

__version__ = "1.0.0"

_MODULES = {
    "algos.dqn.cat_dqn": ["CategoricalDQN"],
    "algos.dqn.dqn": ["DQN"],
    "algos.dqn.pqn": ["PQN"],
    "algos.dqn.r2d1": ["R2D1"],
    "algos.pg.a2c": ["A2C"],
    "algos.pg.ppo": ["PPO"],
    "algos.qpg.ddpg": ["DDPG"],
    "algos.qpg.sac": ["SAC"],
    "algos.qpg.td3": ["TD3"],
    "experiments.runs": ["Run", "train"],
    "experiments.trained": ["load"],
    "runners.async_rl": ["AsyncRl", "AsyncRlEval"],
    "runners.minibatch_rl": ["MinibatchRl", "MinibatchRlEval"],
    "runners.sync_rl": ["SyncRl", "SyncRlEval"],
    "samplers.parallel.cpu.sampler": ["CpuSampler"],
    "samplers.parallel.gpu.alternating_sampler": ["AlternatingSampler"],
    "samplers.parallel.gpu.sampler": ["GpuSampler"],
    "samplers.serial.sampler": ["SerialSampler"],
    "samplers.vector.sampler": ["VectorSampler"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that ``import rlpyt`` takes no time."""
    if name in _MODULE_OF:
        return getattr(import_module(f"rlpyt.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'rlpyt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
