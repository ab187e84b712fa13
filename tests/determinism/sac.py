"""Runs of SAC, its ensembles of critics, SAC_V, discrete and recurrent SAC."""

from rlpyt.agents.qpg import sac_agent, sac_discrete_agent, sac_lstm_agent, sac_v_agent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.algos.qpg.sac_ensembles import REDQ, TQC, CrossQ
from rlpyt.algos.qpg.sac_lstm import RecurrentSAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.envs import gym
from rlpyt.samplers.serial.sampler import SerialSampler

SETTINGS = {
    "batch_size": 16,
    "min_steps_learn": 24,
    "replay_size": 60,  # Wraps within the run.
    "replay_ratio": 2,
    "n_step_return": 2,
}
SMALL = {"hidden_sizes": [8]}


def small(AgentCls, **kwargs):
    nets = {"model_kwargs": SMALL, "q_model_kwargs": SMALL, "v_model_kwargs": SMALL}
    return AgentCls(**{**nets, **kwargs})


def runner(RunnerCls, algo, agent, env_id="Pendulum-v1", **kwargs):
    return RunnerCls(
        algo=algo,
        agent=agent,
        sampler=SerialSampler(
            gym.make,
            {"id": env_id, "max_episode_steps": 17},
            batch_T=2,
            batch_B=4,
            max_decorrelation_steps=5,
            eval_n_envs=2,
            eval_max_steps=40,
        ),
        **kwargs,
    )


def learned(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC(**SETTINGS), small(sac_agent.SacAgent), **kwargs)


def fixed(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC(fixed_alpha=0.2, **SETTINGS), small(sac_agent.SacAgent), **kwargs)


def prior(RunnerCls, **kwargs):
    algo = SAC(action_prior="gaussian", **SETTINGS)
    return runner(RunnerCls, algo, small(sac_agent.SacAgent), **kwargs)


def redq(RunnerCls, **kwargs):
    algo = REDQ(target_subset=2, policy_update_interval=3, **SETTINGS)
    return runner(RunnerCls, algo, small(sac_agent.SacAgent, n_critics=4), **kwargs)


def droq(RunnerCls, **kwargs):
    algo = REDQ(target_subset=2, policy_update_interval=1, **SETTINGS)
    q_model = {**SMALL, "layer_norm": True, "dropout": 0.1}
    return runner(RunnerCls, algo, small(sac_agent.SacAgent, q_model_kwargs=q_model), **kwargs)


def tqc(RunnerCls, **kwargs):
    q_model = {**SMALL, "n_quantiles": 5}
    agent = small(sac_agent.SacAgent, n_critics=3, q_model_kwargs=q_model)
    return runner(RunnerCls, TQC(dropped_quantiles=2, **SETTINGS), agent, **kwargs)


def crossq(RunnerCls, **kwargs):
    net = {**SMALL, "batch_renorm": True}
    agent = small(sac_agent.SacAgent, model_kwargs=net, q_model_kwargs=net, target_networks=False)
    return runner(RunnerCls, CrossQ(learning_rate=3e-4, **SETTINGS), agent, **kwargs)


def sac_v(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC_V(**SETTINGS), small(sac_v_agent.SacAgent), **kwargs)


def discrete(RunnerCls, **kwargs):
    agent = sac_discrete_agent.DiscreteSacAgent(model_kwargs=SMALL)
    return runner(RunnerCls, DiscreteSAC(**SETTINGS), agent, "CartPole-v1", **kwargs)


LSTM = {"hidden_sizes": [8], "lstm_size": 6}
SEQUENCES = {"batch_T": 4, "batch_B": 4, "warmup_T": 2, "store_rnn_state_interval": 2}


def recurrent(RunnerCls, **kwargs):
    settings = {**SETTINGS, **SEQUENCES, "min_steps_learn": 48, "replay_ratio": 6}
    del settings["batch_size"]
    agent = sac_lstm_agent.SacLstmAgent(model_kwargs=LSTM, q_model_kwargs=LSTM)
    return runner(RunnerCls, RecurrentSAC(**settings), agent, "rlpyt/PendulumNoVel-v1", **kwargs)
