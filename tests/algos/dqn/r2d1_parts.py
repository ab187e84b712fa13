"""A recurrent agent in a maze of short episodes, and R2D1 set up for it."""

from functools import partial

import torch

from rlpyt.agents.dqn.mlp_agent import MlpR2d1Agent
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.core.records import BatchSpec
from rlpyt.envs.toy import TMaze
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.reference.recurrent_q_learning import Settings, rows_of

SPEC = BatchSpec(T=6, B=3)
SETTINGS = {
    "discount": 0.9,
    "batch_T": 5,
    "batch_B": 7,
    "warmup_T": 3,
    "store_rnn_state_interval": 4,
    "n_step_return": 2,
    "min_steps_learn": 90,
    "replay_size": 300,
    "replay_ratio": 56 / 18,  # One update in each iteration.
    "eps_steps": 500,
    "target_update_interval": 5,
}


LSTM = {"hidden_sizes": [8, 8], "lstm_size": 6}


class Run:
    """Samples and trains; keeps all that was sampled as rows of each environment."""

    settings = SETTINGS
    env = {"EnvCls": TMaze, "env_kwargs": {"length": 1}, "max_decorrelation_steps": 0}
    make_agent = partial(MlpR2d1Agent, model_kwargs=LSTM)

    def __init__(
        self,
        AlgoCls=R2D1,
        mid_batch_reset=True,
        agent=None,
        spec=SPEC,
        EnvCls=None,
        recorded=False,
        **settings,
    ):
        self.algo = AlgoCls(**{**self.settings, **settings})
        self.agent = self.make_agent() if agent is None else agent
        self.sampler = SerialSampler(
            **{**self.env, **({"EnvCls": EnvCls} if EnvCls else {})},
            batch_T=spec.T,
            batch_B=spec.B,
            CollectorCls=CpuResetCollector if mid_batch_reset else CpuWaitResetCollector,
            record_next_observation=recorded,
        )
        examples = self.sampler.initialize(self.agent, seed=3)
        self.algo.initialize(self.agent, 100, spec, mid_batch_reset, examples)
        self.rows = [[] for _ in range(spec.B)]
        self.itr = 0

    def collect(self):
        """One batch of the sampler."""
        samples, _ = self.sampler.obtain_samples(self.itr)
        for b, rows in enumerate(self.rows):
            rows += rows_of(samples, b, self.algo.mid_batch_reset)
        return samples

    def store(self, n_itrs):
        """Fill the buffer without training."""
        for _ in range(n_itrs):
            self.algo.add_samples_to_buffer(self.itr, self.collect())
            self.itr += 1

    def train(self, n_itrs):
        """Iterations as of a runner."""
        infos = []
        for _ in range(n_itrs):
            samples = self.collect()
            self.agent.train_mode(self.itr)
            infos.append(self.algo.optimize_agent(self.itr, samples))
            self.itr += 1
        return infos

    def disturb(self):
        """Make the networks differ from the ones that acted, and from each other."""
        with torch.no_grad():
            for model in (self.agent.model, self.agent.target_model):
                for p in model.parameters():
                    p += 0.3 * torch.randn_like(p)

    def naive_settings(self):
        algo = self.algo
        return Settings(
            algo.discount,
            algo.batch_T,
            algo.warmup_T,
            algo.n_step_return,
            algo.delta_clip,
            algo.double_dqn,
            algo.value_scale_eps,
            algo.pri_eta,
            algo.bootstrap_timelimit,
        )
