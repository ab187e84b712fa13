"""Algorithms set up with real agents and samplers on toy environments."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.envs.toy import TMaze
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler

FF = {"model_kwargs": {"hidden_sizes": [8]}}
LSTM = {"model_kwargs": {"hidden_sizes": [8], "lstm_size": 4}}


class Setup:
    """An algorithm, its agent and its sampler, as a runner connects them."""

    def __init__(
        self,
        algo: Any,
        agent: Any = None,
        EnvCls: Any = TMaze,
        env_kwargs: dict[str, Any] | None = None,
        T: int = 5,
        B: int = 3,
        CollectorCls: Any = CpuResetCollector,
        n_itr: int = 10,
        record_next_observation: bool = False,
    ) -> None:
        self.algo = algo
        self.agent = GenericFfAgent(**FF) if agent is None else agent
        self.sampler = SerialSampler(
            EnvCls=EnvCls,
            env_kwargs=env_kwargs or {},
            batch_T=T,
            batch_B=B,
            CollectorCls=CollectorCls,
            max_decorrelation_steps=0,
            record_next_observation=record_next_observation,
        )
        self.examples = self.sampler.initialize(
            self.agent, seed=0, bootstrap_value=algo.bootstrap_value
        )
        algo.initialize(
            agent=self.agent,
            n_itr=n_itr,
            batch_spec=self.sampler.batch_spec,
            mid_batch_reset=self.sampler.mid_batch_reset,
            examples=self.examples,
        )

    def sample(self, itr: int = 0) -> Any:
        """One batch; the agent is left as it is for training."""
        self.agent.sample_mode(itr)
        samples, _ = self.sampler.obtain_samples(itr)
        self.agent.train_mode(itr)
        return samples

    def train(self, first_itr: int = 0, last_itr: int = 1) -> list[Any]:
        """Iterations, and what they report."""
        return [
            self.algo.optimize_agent(itr, self.sample(itr)) for itr in range(first_itr, last_itr)
        ]

    def parameters(self) -> list[float]:
        """All parameters of the agent."""
        return [x for p in self.agent.parameters() for x in p.detach().flatten().tolist()]


def lstm_agent() -> GenericLstmAgent:
    """A small recurrent agent."""
    return GenericLstmAgent(**LSTM)
