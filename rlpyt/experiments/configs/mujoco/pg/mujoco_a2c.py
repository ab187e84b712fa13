"""A2C on MuJoCo tasks."""

from rlpyt.experiments.configs._changed import Config, changed

configs: dict[str, Config] = {}

configs["a2c_1M"] = dict(
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=3e-5,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.0,
        clip_grad_norm=1e6,
        normalize_advantage=True,
    ),
    env=dict(id="Hopper-v5"),
    model={},
    optim={},
    runner=dict(n_steps=1e6, log_interval_steps=2e4),
    sampler=dict(batch_T=100, batch_B=8, max_decorrelation_steps=1000),
)

# Short batches, and what is normalised in ``mujoco_ppo``'s entry of the same name.
configs["a2c_1M_normalized"] = changed(
    configs["a2c_1M"],
    algo=dict(
        learning_rate=3e-4,
        clip_grad_norm=0.5,
        gae_lambda=0.95,
        normalize_advantage=False,
        normalize_return=True,
    ),
    model=dict(normalize_observation=True, init_log_std=-0.5, mu_nonlinearity=None),
    sampler=dict(batch_T=5, batch_B=16),
)
