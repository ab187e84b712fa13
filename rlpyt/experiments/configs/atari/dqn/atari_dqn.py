"""DQN, its extensions up to Rainbow, and its distributional variants on Atari games."""

import torch

from rlpyt.experiments.configs.generic import MUNCHAUSEN
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

_GAME: Config = dict(
    roles=dict(env="atari"),
    agent={},
    algo={},
    env=dict(game="pong", episodic_lives=True),
    eval_env=dict(game="pong", episodic_lives=False, horizon=int(27e3)),
    model={},
    optim={},
    runner=dict(n_steps=50e6, log_interval_steps=1e6),
    sampler=dict(
        batch_T=2,
        batch_B=16,
        max_decorrelation_steps=1000,
        eval_n_envs=4,
        eval_max_steps=int(125e3),
        eval_max_trajectories=100,
    ),
)

configs["dqn"] = changed(
    _GAME,
    roles=dict(algo="dqn"),
    algo=dict(
        discount=0.99,
        batch_size=128,
        learning_rate=1e-4,
        clip_grad_norm=10.0,
        min_steps_learn=int(5e4),
        replay_size=int(1e6),
        n_step_return=1,
        double_dqn=False,
        prioritized_replay=False,
    ),
    model=dict(dueling=False),
)

# Extensions, one at a time and together.
DOUBLE = dict(double_dqn=True)
PRIORITIZED = dict(prioritized_replay=True)
DUELING = dict(dueling=True)
configs["double"] = changed(configs["dqn"], algo=DOUBLE)
configs["prioritized"] = changed(configs["dqn"], algo=PRIORITIZED)
configs["dueling"] = changed(configs["dqn"], model=DUELING)
configs["double_pri_duel"] = changed(configs["dqn"], algo=DOUBLE | PRIORITIZED, model=DUELING)
configs["catdqn"] = changed(
    configs["dqn"], roles=dict(algo="cat_dqn"), algo=dict(learning_rate=2.5e-4)
)
configs["ernbw"] = changed(
    configs["catdqn"],
    algo=DOUBLE | PRIORITIZED | dict(learning_rate=6.25e-5, n_step_return=3),
    model=DUELING,
)
# With noisy layers in place of random actions: Hessel et al. 2018, arXiv:1710.02298, table 1.
configs["rainbow"] = changed(
    configs["ernbw"],
    algo=dict(
        batch_size=32,
        min_steps_learn=int(2e4),
        target_update_interval=2000,
        pri_alpha=0.5,
    ),
    model=dict(noisy=True),
    optim=dict(eps=1.5e-4),
)
# Dabney et al. 2018, arXiv:1710.10044 and arXiv:1806.06923.
configs["qr_dqn"] = changed(
    configs["dqn"],
    roles=dict(algo="qr_dqn"),
    algo=dict(learning_rate=5e-5, batch_size=32),
    optim=dict(eps=0.01 / 32),
)
configs["iqn"] = changed(configs["qr_dqn"], roles=dict(algo="iqn"))
# With Adam, as for QR-DQN: Vieillard et al. 2020, arXiv:2007.14430.
configs["munchausen_dqn"] = changed(configs["qr_dqn"], **MUNCHAUSEN["munchausen_dqn"])
configs["munchausen_iqn"] = changed(configs["iqn"], **MUNCHAUSEN["munchausen_iqn"])
configs["rmsprop"] = changed(
    configs["dqn"],
    algo=dict(learning_rate=2.5e-4, OptimCls=torch.optim.RMSprop),
    optim=dict(alpha=0.95, eps=1e-6),
    runner=dict(n_steps=15e6),
)

# The settings of the authors, Gallici et al. 2024, arXiv:2407.04811.
configs["pqn"] = changed(
    _GAME,
    roles=dict(algo="pqn"),
    agent=dict(eps_final=0.001),
    algo=dict(
        discount=0.99,
        learning_rate=2.5e-4,
        q_lambda=0.65,
        minibatches=32,
        epochs=2,
        OptimCls=torch.optim.RAdam,
        clip_grad_norm=10,
        eps_steps=5e6,
        linear_lr_schedule=False,
    ),
    sampler=dict(batch_T=32, batch_B=128),
)
# The settings of the author, Christodoulou 2019, arXiv:1910.07207.
configs["sac_discrete"] = changed(
    _GAME,
    roles=dict(algo="sac_discrete"),
    algo=dict(
        discount=0.99,
        batch_size=64,
        learning_rate=3e-4,
        min_steps_learn=int(2e4),
        replay_size=int(1e6),
        replay_ratio=16,
        target_update_tau=1,
        target_update_interval=2000,
        n_step_return=1,
        target_entropy_fraction=0.98,
    ),
)

# Shorter runs.
configs["fast_log"] = changed(
    configs["dqn"],
    runner=dict(n_steps=15e6, log_interval_steps=1e5),
    sampler=dict(eval_max_steps=int(70e3), eval_max_trajectories=50),
)
configs["short_run"] = changed(configs["dqn"], runner=dict(n_steps=15e6))
configs["no_eval"] = changed(
    configs["dqn"], runner=dict(log_interval_steps=1e5), sampler=dict(eval_n_envs=0)
)

# Shapes of the sampler's batch.
configs["serial"] = changed(
    configs["dqn"], roles=dict(sampler="serial"), sampler=dict(batch_T=8, batch_B=2)
)
configs["cpu"] = changed(
    configs["dqn"], roles=dict(sampler="cpu"), sampler=dict(batch_T=4, batch_B=4)
)
configs["async_big"] = changed(
    configs["dqn"],
    roles=dict(sampler="gpu", runner="async"),
    sampler=dict(batch_T=4, batch_B=256, eval_n_envs=4),
)

# Sticky actions, and no loss of a life as an end: Machado et al. 2018, arXiv:1709.06009.
STICKY = dict(repeat_action_probability=0.25, episodic_lives=False)
for _key in ("dqn", "double_pri_duel", "catdqn", "rainbow", "qr_dqn", "iqn"):
    configs[f"{_key}_sticky"] = changed(configs[_key], env=STICKY)

# Tests within minutes that everything runs.
configs["debug"] = changed(
    configs["dqn"],
    algo=dict(min_steps_learn=int(1e4), replay_size=int(1e4), eps_steps=int(2e4)),
    runner=dict(n_steps=3e4, log_interval_steps=1e4),
    sampler=dict(
        batch_T=8,
        batch_B=2,
        max_decorrelation_steps=20,
        eval_max_steps=int(8e3),
        eval_max_trajectories=4,
    ),
)
configs["debug_vec_eps"] = changed(
    configs["debug"], agent=dict(eps_final_min=0.001), sampler=dict(batch_T=4, batch_B=4)
)
