"""Data-efficient Q-learning on the 26 games of Atari 100k: 100,000 steps, 400,000 frames.

The score of a run is ``GameScoreAverage`` in the last row of its log: the mean of 100 episodes of
whole games, after training. The first row has the score of random actions.

Source: Kaiser et al. 2020, arXiv:1903.00374 (the benchmark).
"""

from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

# van Hasselt et al. 2019, arXiv:1906.05243, appendix.
configs["der"] = dict(
    roles=dict(algo="cat_dqn", env="atari"),
    agent={},
    algo=dict(
        discount=0.99,
        batch_size=32,
        learning_rate=1e-4,
        clip_grad_norm=10.0,
        min_steps_learn=1600,
        replay_size=int(1e5),
        replay_ratio=32,  # One update a step.
        target_update_interval=2000,
        n_step_return=20,
        double_dqn=True,
        prioritized_replay=True,
        pri_alpha=0.5,
        pri_beta_steps=int(1e5),
    ),
    env=dict(game="pong", img_shape=[84, 84], episodic_lives=True),
    eval_env=dict(episodic_lives=False, horizon=int(27e3)),
    model=dict(
        dueling=True,
        noisy=True,
        channels=[32, 64],
        kernel_sizes=[5, 5],
        strides=[5, 5],
        paddings=[0, 0],
        fc_sizes=256,
    ),
    optim=dict(eps=1.5e-4),
    runner=dict(n_steps=1e5, log_interval_steps=1e5),
    sampler=dict(
        batch_T=1,
        batch_B=1,
        max_decorrelation_steps=0,  # Its steps would not be among the 100,000.
        eval_n_envs=8,
        eval_n_episodes=100,
    ),
)

# Yarats et al. 2021, arXiv:2004.13649, with the epsilons and the target network of Agarwal et al.
# 2021, arXiv:2108.13264.
configs["drq_eps"] = changed(
    configs["der"],
    roles=dict(algo="dqn"),
    agent=dict(eps_init=1.0, eps_final=0.01, eps_eval=0.001),
    algo=dict(
        n_step_return=10,
        prioritized_replay=False,
        target_update_interval=1,
        eps_steps=1600 + 5000,  # Annealed from the first update on.
        augmentation=dict(pad=4, intensity=0.05),
    ),
    model=dict(
        noisy=False,
        channels=[32, 64, 64],
        kernel_sizes=[8, 4, 3],
        strides=[4, 2, 1],
        paddings=[0, 0, 0],
        fc_sizes=512,
    ),
)
for _name in ("pri_alpha", "pri_beta_steps"):
    del configs["drq_eps"]["algo"][_name]
