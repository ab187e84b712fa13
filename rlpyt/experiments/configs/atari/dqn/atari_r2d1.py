"""R2D1 on Atari games."""

from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

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
    env=dict(
        game="pong",
        episodic_lives=True,
        clip_reward=False,
        horizon=int(27e3),
        num_img_obs=4,
    ),
    eval_env=dict(
        game="pong",
        episodic_lives=False,
        clip_reward=False,
        horizon=int(27e3),
        num_img_obs=4,
    ),
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


configs["r2d1_sticky"] = changed(
    configs["r2d1"], env=dict(repeat_action_probability=0.25, episodic_lives=False)
)
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
configs["async_gpu"] = changed(
    configs["r2d1_long"],
    roles=dict(sampler="gpu", runner="async"),
    sampler=dict(batch_T=40, batch_B=256) | evaluated_in(20),
)
configs["async_alt_pabti"] = changed(
    configs["r2d1_long"],
    roles=dict(sampler="alternating", runner="async"),
    sampler=dict(batch_T=40, batch_B=264) | evaluated_in(44),
)
configs["async_alt_dgx"] = changed(
    configs["r2d1_long"],
    roles=dict(sampler="alternating", runner="async"),
    sampler=dict(batch_T=40, batch_B=312) | evaluated_in(78),
)
configs["async_alt_got"] = changed(
    configs["r2d1_long"],
    roles=dict(sampler="alternating", runner="async"),
    sampler=dict(batch_T=40, batch_B=252) | evaluated_in(36),
)
configs["async_gpu_dgx"] = changed(
    configs["r2d1_long"],
    roles=dict(sampler="gpu", runner="async"),
    sampler=dict(batch_T=40, batch_B=312) | evaluated_in(39),
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
