"""A2C with a feed-forward network on Atari games."""

from rlpyt.experiments.configs.tables import Config, changed

configs: dict[str, Config] = {}

configs["0"] = dict(
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=3e-4,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.01,
        clip_grad_norm=1.0,
    ),
    env=dict(game="pong"),
    model={},
    optim={},
    runner=dict(n_steps=50e6, log_interval_steps=1e5),
    sampler=dict(batch_T=5, batch_B=32, max_decorrelation_steps=1000),
)
configs["low_lr"] = changed(configs["0"], algo=dict(learning_rate=4e-4))
configs["2gpu"] = changed(configs["0"], sampler=dict(batch_B=16))  # in each of two processes
