"""A2C on MuJoCo tasks."""

import torch

from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["a2c_1M"] = dict(
    roles=dict(algo="a2c", agent="mujoco"),
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=3e-5,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.0,
        clip_grad_norm=1e6,
        normalize_advantage=True,
    ),
    env=dict(id="Hopper-v5"),
    model={},
    optim={},
    runner=dict(n_steps=1e6, log_interval_steps=2e4),
    sampler=dict(batch_T=100, batch_B=8, max_decorrelation_steps=1000),
)

configs["a2c_1M_lstm"] = changed(configs["a2c_1M"], roles=dict(agent="mujoco_lstm"))

# Short batches, the normalization of ``mujoco_ppo``, and little noise from the start: these steps
# are too few to reduce a standard deviation of 0.6 or 1.
configs["a2c_1M_normalized"] = changed(
    configs["a2c_1M"],
    algo=dict(
        learning_rate=5e-4,
        clip_grad_norm=0.5,
        gae_lambda=0.9,
        normalize_advantage=False,
        normalize_return=True,
    ),
    model=dict(normalize_observation=True, init_log_std=-2.0, mu_nonlinearity=None),
    sampler=dict(batch_T=8, batch_B=4),
)

# More environments and noise, RMSprop, and a decaying learning rate: agents learn Walker2d with
# these settings, but not with the ones above.
configs["a2c_1M_rmsprop"] = changed(
    configs["a2c_1M_normalized"],
    algo=dict(
        learning_rate=7e-4,
        entropy_loss_coeff=0.01,
        OptimCls=torch.optim.RMSprop,
        gae_lambda=0.95,
        linear_lr_schedule=True,
    ),
    model=dict(init_log_std=-0.5),
    optim=dict(alpha=0.99, eps=1e-5),
    sampler=dict(batch_T=5, batch_B=16),
)
