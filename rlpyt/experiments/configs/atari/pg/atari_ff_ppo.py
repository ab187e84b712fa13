"""PPO with a feed-forward network on Atari games."""

from rlpyt.experiments.configs.atari.dqn.atari_dqn import STICKY
from rlpyt.experiments.configs.atari.pg.atari_ff_a2c import configs as a2c_configs
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["0"] = changed(
    a2c_configs["0"],
    roles=dict(algo="ppo"),
    algo=dict(
        learning_rate=1e-3,
        value_loss_coeff=1.0,
        gae_lambda=0.98,
        minibatches=4,
        epochs=4,
        linear_lr_schedule=True,
    ),
    sampler=dict(batch_T=64),
)

# Smaller batches, more minibatches, normalized advantages and a constant learning rate, for Pong in
# about a million steps. Epsilon is that of Huang et al. 2022, "The 37 Implementation Details of
# Proximal Policy Optimization".
configs["short"] = changed(
    configs["0"],
    algo=dict(
        learning_rate=5e-4,
        value_loss_coeff=0.5,
        clip_grad_norm=0.5,
        gae_lambda=0.95,
        minibatches=16,
        linear_lr_schedule=False,
        normalize_advantage=True,
    ),
    optim=dict(eps=1e-5),
    runner=dict(n_steps=1.2e6, log_interval_steps=2.5e4),
    sampler=dict(batch_T=128, batch_B=8),
)
configs["sticky"] = changed(configs["short"], env=STICKY)
