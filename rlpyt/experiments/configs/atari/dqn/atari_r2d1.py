"""R2D1 on Atari games."""

from rlpyt.experiments.configs.atari.dqn.atari_dqn import STICKY
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

_GAME = dict(game="pong", clip_reward=False, horizon=int(27e3), num_img_obs=4)

configs["r2d1"] = dict(
    roles=dict(algo="r2d1", env="atari"),
    agent={},
    algo=dict(
        discount=0.997,
        batch_T=80,
        batch_B=32,
        warmup_T=40,
        store_rnn_state_interval=40,
        replay_ratio=4,
        learning_rate=1e-4,
        clip_grad_norm=80.0,
        min_steps_learn=int(1e5),
        double_dqn=True,
        prioritized_replay=True,
        n_step_return=5,
        pri_alpha=0.9,
        pri_beta_init=0.6,
        pri_beta_final=0.6,
        input_priority_shift=2,
    ),
    env=dict(_GAME, episodic_lives=True),
    eval_env=dict(_GAME, episodic_lives=False),
    model=dict(dueling=True),
    optim={},
    runner=dict(n_steps=100e6, log_interval_steps=1e6),
    sampler=dict(
        batch_T=30,
        batch_B=32,
        max_decorrelation_steps=1000,
        eval_n_envs=4,
        eval_max_steps=int(161e3),
        eval_max_trajectories=100,
    ),
)


def evaluated_in(n_envs: int) -> dict[str, int]:
    """Return settings to evaluate one whole game in each of ``n_envs`` environments."""
    return dict(eval_n_envs=n_envs, eval_max_steps=int(28e3 * n_envs))


configs["r2d1_sticky"] = changed(configs["r2d1"], env=STICKY)
configs["r2d1_long"] = changed(
    configs["r2d1"],
    roles=dict(sampler="gpu"),
    agent=dict(eps_final=0.1, eps_final_min=0.0005),
    algo=dict(replay_size=int(4e6), batch_B=64, replay_ratio=1),
    env=dict(episodic_lives=False),
    runner=dict(n_steps=20e9, log_interval_steps=10e6),
    sampler=dict(batch_T=40, batch_B=192) | evaluated_in(6),
)

# Variants that show what takes the time.
configs["r2d1_profile"] = changed(
    configs["r2d1_long"],
    algo=dict(min_steps_learn=int(5e4)),
    runner=dict(n_steps=1e6, log_interval_steps=1e6),
    sampler=dict(eval_max_trajectories=2),
)
configs["r2d1_prof_halftrain"] = changed(
    configs["r2d1_profile"], algo=dict(batch_B=32, replay_ratio=0.5)
)
configs["r2d1_prof_quartertrain"] = changed(
    configs["r2d1_profile"], algo=dict(batch_B=16, replay_ratio=0.25)
)
configs["r2d1_long_4tr"] = changed(
    configs["r2d1_long"], algo=dict(replay_ratio=4), sampler=evaluated_in(12)
)

# Asynchronous sampling, named after the machine that the shapes are for.
for _key, _sampler, _batch_B, _n_eval in (
    ("async_gpu", "gpu", 256, 20),
    ("async_alt_pabti", "alternating", 264, 44),
    ("async_alt_dgx", "alternating", 312, 78),
    ("async_alt_got", "alternating", 252, 36),
    ("async_gpu_dgx", "gpu", 312, 39),
):
    configs[_key] = changed(
        configs["r2d1_long"],
        roles=dict(sampler=_sampler, runner="async"),
        sampler=dict(batch_B=_batch_B) | evaluated_in(_n_eval),
    )

configs["r2d1_test"] = changed(
    configs["r2d1_long"],
    algo=dict(
        batch_T=10,
        batch_B=16,
        warmup_T=5,
        store_rnn_state_interval=5,
        replay_size=int(1e5),
        min_steps_learn=int(1e4),
        eps_steps=int(1e5),
    ),
    sampler=dict(batch_T=5, batch_B=8),
)
