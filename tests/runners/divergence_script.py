"""A program whose run diverges: python divergence_script.py LOG_DIR FAULT [guard's keywords].

FAULT: ``loss`` (the loss of update 30 is infinite, but for learning rates below 1e-3),
``observation`` (an environment returns infinity from step 60 on), ``reward`` (an environment in a
worker returns NaN from step 60 on), ``reward once`` (it does so only the first time).
"""

import json
import sys
from pathlib import Path

import numpy as np

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import make
from rlpyt.runners.divergence import DivergenceGuard
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


class FaultyA2C(A2C):
    """A2C whose loss is infinite in its 30th update if it learns too fast."""

    def loss(self, samples):
        loss, *rest = super().loss(samples)
        learning_rate = self.optimizer.param_groups[0]["lr"]
        if self.update_counter == 29 and learning_rate >= 1e-3:
            loss = loss * np.inf
        return loss, *rest


class FaultyEnv:
    """An environment with infinite observations or NaN as reward from its 60th step on."""

    def __init__(self, fault, mark, **kwargs):
        self.env = make(**kwargs)
        self.fault, self.mark, self.n_steps = fault, mark, 0

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, action):
        self.n_steps += 1
        observation, reward, *rest = self.env.step(action)
        is_over = self.fault == "reward once" and Path(self.mark).exists()
        if self.n_steps >= 60 and not is_over:
            Path(self.mark).touch()
            observation = observation + (np.inf if self.fault == "observation" else 0)
            reward = reward + (np.nan if "reward" in self.fault else 0)
        return observation, reward, *rest

    def state_dict(self):
        return {"env": self.env.state_dict(), "n_steps": self.n_steps}

    def load_state_dict(self, state):
        self.env.load_state_dict(state["env"])
        self.n_steps = state["n_steps"]


def main(log_dir, fault, guard):
    runner = MinibatchRl(
        algo=(FaultyA2C if fault == "loss" else A2C)(learning_rate=1e-3),
        agent=GenericFfAgent(),
        sampler=(CpuSampler if "reward" in fault else SerialSampler)(
            EnvCls=FaultyEnv,
            env_kwargs={"fault": fault, "mark": Path(log_dir) / "mark", "id": "CartPole-v1"},
            batch_T=5,
            batch_B=2,
            max_decorrelation_steps=0,
        ),
        n_steps=600,
        seed=3,
        affinity={"workers_cpus": 1},
        log_interval_steps=100,
        callbacks=[DivergenceGuard(**guard)],
    )
    with logger_context(log_dir, 0, "faulty", snapshot_mode="last", override_prefix=True):
        runner.train(checkpoint_interval_steps=100)
    return runner


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]) if sys.argv[3:] else {})
