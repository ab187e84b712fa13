"""A2C with a recurrent network on Atari games."""

from rlpyt.experiments.configs.atari.pg.atari_ff_a2c import configs as ff_configs
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["0"] = changed(
    ff_configs["0"],
    roles=dict(agent="atari_lstm"),
    env=dict(num_img_obs=1),
    sampler=dict(batch_T=20, batch_B=32),
)
configs["4frame"] = changed(
    configs["0"],
    algo=dict(learning_rate=1e-4),
    env=dict(num_img_obs=4),
    sampler=dict(batch_T=5, batch_B=16),
)
configs["like_ff"] = changed(
    configs["4frame"], algo=dict(learning_rate=7e-4), sampler=dict(batch_B=32)
)
