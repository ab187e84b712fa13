"""MinAtar games: Atari games on a grid of 10 x 10, whose runs take minutes to hours on one CPU.

MinAtar has sticky actions, with probability 0.1. Convolutions and rates follow Young and Tian 2019,
arXiv:1903.03176; ``young_tian_dqn`` has all of their settings. Their results are for version
``-v0``, with all six actions, which the entries ``young_tian_dqn`` and ``ppo`` use; version ``-v1``
has only the actions that the game needs. Episodes of evaluation end after 10,000 steps, since a
good agent may never lose.
"""

import torch

from rlpyt.experiments.configs import generic
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

_IMAGE = dict(channels=[16], kernel_sizes=[3], strides=[1], paddings=[0], fc_sizes=128)

_COMMON: Config = dict(
    env=dict(id="MinAtar/Breakout-v1"),
    eval_env=dict(max_episode_steps=10_000),
    model=dict(image_kwargs=_IMAGE),
    runner=dict(n_steps=5e6, log_interval_steps=5e4),
)


def _minatar(algorithm: str, **sections: Config) -> Config:
    """Return the entry of ``generic`` for MinAtar, with changes of its sections."""
    return changed(changed(generic.configs[algorithm], **_COMMON), **sections)


_REPLAY = dict(
    replay_size=1e5,
    min_steps_learn=5e3,
    target_update_tau=1,
    target_update_interval=1000,
    n_step_return=1,
)
configs["dqn"] = _minatar(
    "dqn",
    algo=dict(_REPLAY, learning_rate=2.5e-4, batch_size=32, replay_ratio=8, eps_steps=1e5),
    model=dict(hidden_sizes=[128]),
    sampler=dict(batch_T=4, batch_B=8),
)
# The settings of the authors, Young and Tian 2019: one update for each step.
configs["young_tian_dqn"] = changed(
    configs["dqn"],
    agent=dict(eps_final=0.1, eps_eval=0),
    algo=dict(
        replay_ratio=32,
        double_dqn=False,
        clip_grad_norm=None,
        OptimCls=torch.optim.RMSprop,
    ),
    env=dict(id="MinAtar/Breakout-v0"),
    model=dict(hidden_sizes=[]),
    optim=dict(alpha=0.95, eps=0.01, centered=True),
    sampler=dict(batch_T=1, batch_B=1),
)
for _key in ("cat_dqn", "qr_dqn", "iqn"):
    configs[_key] = changed(configs["dqn"], roles=dict(algo=_key))
configs["rainbow"] = changed(
    configs["cat_dqn"],
    agent=dict(eps_final=0),  # Noisy layers explore.
    algo=dict(prioritized_replay=True, pri_beta_steps=5e6, n_step_return=3),
    model=dict(dueling=True, noisy=True),
)
for _key, _settings in generic.MUNCHAUSEN.items():
    configs[_key] = changed(configs["dqn"], **_settings)
configs["r2d1"] = changed(
    changed(generic.R2D1, **_COMMON),
    algo=dict(
        learning_rate=2.5e-4,
        replay_size=1e6,
        min_steps_learn=1e4,
        replay_ratio=8,
        target_update_interval=100,
        eps_steps=1e5,
        pri_beta_steps=1e5,
    ),
    sampler=dict(batch_B=16),
)
# The settings of the authors, Gallici et al. 2024, arXiv:2407.04811.
configs["pqn"] = _minatar(
    "pqn",
    agent=dict(eps_final=0.05),
    algo=dict(
        discount=0.99,
        learning_rate=5e-4,
        q_lambda=0.65,
        minibatches=32,
        epochs=2,
        OptimCls=torch.optim.RAdam,
        clip_grad_norm=10,
        eps_steps=1e6,
        linear_lr_schedule=True,
        bootstrap_timelimit=False,
    ),
    model=dict(hidden_sizes=[], layer_norm=True, image_kwargs=dict(_IMAGE, layer_norm=True)),
    runner=dict(n_steps=1e7, log_interval_steps=1e5),
    sampler=dict(batch_T=32, batch_B=128, record_next_observation=False),
)
configs["pqn_lstm"] = changed(
    configs["pqn"], roles=dict(agent="mlp_lstm"), model=dict(lstm_size=128)
)
# Learning rate, batch size and entropy of Christodoulou 2019, arXiv:1910.07207.
configs["sac_discrete"] = _minatar(
    "sac_discrete",
    algo=dict(
        _REPLAY,
        learning_rate=3e-4,
        batch_size=64,
        replay_ratio=16,
        target_entropy_fraction=0.98,
    ),
    model=dict(hidden_sizes=[128]),
    sampler=dict(batch_T=4, batch_B=8),
)
configs["ppo"] = _minatar(
    "ppo",
    algo=dict(
        learning_rate=1e-3,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.01,
        epochs=4,
        linear_lr_schedule=False,
        normalize_return=False,
    ),
    env=dict(id="MinAtar/Breakout-v0"),
    model=dict(hidden_sizes=[]),
    sampler=dict(batch_T=128, batch_B=16),
)
configs["a2c"] = _minatar("a2c", runner=dict(n_steps=1e7, log_interval_steps=1e5))
configs["ppo_lstm"] = changed(configs["ppo"], roles=dict(agent="generic_lstm"))
