"""Algorithms set up with real agents and samplers on toy environments."""

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import TMaze
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler

FF = {"model_kwargs": {"hidden_sizes": [8]}}
LSTM = {"model_kwargs": {"hidden_sizes": [8], "lstm_size": 4}}


class Setup:
    """An algorithm, its agent and its sampler, as a runner connects them."""

    def __init__(
        self,
        algo,
        agent=None,
        EnvCls=TMaze,
        env_kwargs=None,
        T=5,
        B=3,
        CollectorCls=CpuResetCollector,
        n_itr=10,
        record_next_observation=False,
    ):
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

    def sample(self, itr=0):
        """One batch; the agent is left as it is for training."""
        self.agent.sample_mode(itr)
        samples, _ = self.sampler.obtain_samples(itr)
        self.agent.train_mode(itr)
        return samples

    def train(self, first_itr=0, last_itr=1):
        """Iterations, and what they report."""
        return [
            self.algo.optimize_agent(itr, self.sample(itr)) for itr in range(first_itr, last_itr)
        ]

    def parameters(self):
        """All parameters of the agent."""
        return [x for p in self.agent.parameters() for x in p.detach().flatten().tolist()]


def lstm_agent():
    """A small recurrent agent."""
    return GenericLstmAgent(**LSTM)


class Recorder(PPO):
    """Keeps the minibatches, and the ratios of policies in them."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.seen = []
        self.ratios = []

    def _get_loss_values(self, batch):
        values = super()._get_loss_values(batch)
        self.seen.append(batch)
        self.ratios.append(values["ratio"])
        return values
