"""Runs of R2D1."""

from rlpyt.agents.dqn.mlp_agent import MlpR2d1Agent
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.toy import TMaze
from rlpyt.samplers.serial.sampler import SerialSampler


def maze(CollectorCls):
    def make(RunnerCls, **kwargs):
        algo = R2D1(
            batch_T=4,
            batch_B=6,
            warmup_T=2,
            store_rnn_state_interval=3,
            n_step_return=2,
            min_steps_learn=40,
            replay_size=60,  # Wraps within the run.
            replay_ratio=4,
            eps_steps=100,
            target_update_interval=3,
            pri_beta_final=1.0,
            pri_beta_steps=150,
        )
        sampler = SerialSampler(
            EnvCls=TMaze,
            env_kwargs={"length": 1},
            batch_T=5,
            batch_B=4,
            CollectorCls=CollectorCls,
            max_decorrelation_steps=3,
            eval_n_envs=2,
            eval_max_steps=20,
        )
        agent = MlpR2d1Agent(eps_final=0.1, model_kwargs={"hidden_sizes": 8, "lstm_size": 6})
        return RunnerCls(algo=algo, agent=agent, sampler=sampler, **kwargs)

    return make
