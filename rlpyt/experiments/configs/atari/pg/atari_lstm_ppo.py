"""PPO with a recurrent network on Atari games."""

from rlpyt.experiments.configs.atari.pg.atari_ff_ppo import configs as ff_configs
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["0"] = changed(ff_configs["0"], roles=dict(agent="atari_lstm"), env=dict(num_img_obs=1))
