"""PPO with a feed-forward network on Atari games."""

from rlpyt.experiments.configs._changed import Config

configs: dict[str, Config] = {}

configs["0"] = dict(
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=1e-3,
        value_loss_coeff=1.0,
        entropy_loss_coeff=0.01,
        clip_grad_norm=1.0,
        gae_lambda=0.98,
        minibatches=4,
        epochs=4,
        linear_lr_schedule=True,
    ),
    env=dict(game="pong"),
    model={},
    optim={},
    runner=dict(n_steps=50e6, log_interval_steps=1e5),
    sampler=dict(batch_T=64, batch_B=32, max_decorrelation_steps=1000),
)
