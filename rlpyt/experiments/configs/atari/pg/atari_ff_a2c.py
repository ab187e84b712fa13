"""A2C with a feed-forward network on Atari games."""

from rlpyt.experiments.configs.atari.dqn.atari_dqn import STICKY
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["0"] = dict(
    roles=dict(algo="a2c", env="atari"),
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=3e-4,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.01,
        clip_grad_norm=1.0,
    ),
    env=dict(game="pong"),
    model=dict(orthogonal_init=True),
    optim={},
    runner=dict(n_steps=50e6, log_interval_steps=1e5),
    sampler=dict(batch_T=5, batch_B=32, max_decorrelation_steps=1000),
)
configs["low_lr"] = changed(configs["0"], algo=dict(learning_rate=4e-4))
# The batch size is per process, in a run of two processes.
configs["2gpu"] = changed(
    configs["0"],
    roles=dict(sampler="gpu", runner="sync"),
    sampler=dict(batch_B=16),
    affinity=dict(processes=2),
)
configs["sticky"] = changed(configs["0"], env=STICKY)
