"""Training in two processes: ``sync_script.py train|long DIRECTORY [DIRECTORY_OF_A_FAILURE]``."""

import sys
from pathlib import Path

import torch

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs import gym
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.logging.context import logger_context
from tests.runners.sync_parts import Telling, fail


class TellingA2C(Telling, A2C):
    how = None

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        if self.how == "raise" and itr == 3 and self.told_rank == 1:
            fail("raise")
        return super().optimize_agent(itr, samples)


def main(how, directory):
    torch.set_num_threads(1)
    Path(directory).mkdir(exist_ok=True)
    algo = TellingA2C()
    algo.how, algo.directory = how, directory
    sampler = CpuSampler(gym.make, {"id": "CartPole-v1"}, batch_T=5, batch_B=2)
    runner = SyncRl(
        algo=algo,
        agent=GenericFfAgent(),
        sampler=sampler,
        n_steps=1e6 if how == "long" else 160,
        log_interval_steps=80,
        seed=5,
        affinity=[{"workers_cpus": 1, "set_affinity": False}] * 2,
    )
    with logger_context(directory, 0, "test", snapshot_mode="last", override_prefix=True):
        runner.train()


if __name__ == "__main__":
    main(*sys.argv[1:3])
    if sys.argv[3:]:
        main("raise", sys.argv[3])
