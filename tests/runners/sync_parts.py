"""Algorithms that report their process, or fail in it, and samplers whose ranks share a batch."""

import os
import signal
import time
from pathlib import Path

import torch

from rlpyt.core.records import BatchSpec
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.seed import get_seed
from tests.runners.parts import CountingAlgo, QuietAgent


class ColumnsSampler(SerialSampler):
    """Collects the batch of all ranks in each of them, and hands out the columns of its rank."""

    def initialize(self, agent, seed=None, rank=0, world_size=1, **kwargs):
        examples = super().initialize(agent, seed=11, **kwargs)
        T, B = self.batch_spec.T, self.batch_spec.B // world_size
        self.batch_spec = BatchSpec(T, B)
        self.columns = slice(rank * B, (rank + 1) * B)
        return examples

    def obtain_samples(self, itr):
        with torch.random.fork_rng():
            torch.manual_seed(itr)  # Of the actions: alike in all ranks.
            samples, infos = super().obtain_samples(itr)
        return samples[:, self.columns], infos


class Telling:
    """First base of an algorithm: saves what its process knows after each iteration."""

    directory = None

    def initialize(self, *args, rank=0, **kwargs):
        super().initialize(*args, rank=rank, **kwargs)
        self.told_rank = rank

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        opt_info = super().optimize_agent(itr, samples)
        told = {
            "seed": get_seed(),
            "agent": self.agent.state_dict(),
            "eps_final": getattr(self.agent, "eps_final", None),
            "min_itr_learn": getattr(self, "min_itr_learn", None),
            "eps_itrs": list(getattr(self.agent, "_eps_itr_min_max", [])),
            "pid": os.getpid(),
            "observations": samples.env.observation.clone(),
        }
        torch.save(told, Path(self.directory) / f"rank_{self.told_rank}_itr_{itr}.pt")
        return opt_info


class ParallelQuietAgent(QuietAgent):
    def data_parallel(self):
        self.calls.append("data_parallel")


class FailingAlgo(CountingAlgo):
    """Fails in one rank, while the others wait for it."""

    def __init__(self, how, rank, at=2):
        super().__init__()
        self.how, self.bad_rank, self.at = how, rank, at

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        if itr == self.at and self.init_kwargs["rank"] == self.bad_rank:
            fail(self.how)
        return super().optimize_agent(itr, samples)


def fail(how):
    if how == "raise":
        raise ZeroDivisionError("a bug of the user")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1000)
