"""PPO on MuJoCo tasks."""

from rlpyt.experiments.configs.mujoco.pg.mujoco_a2c import configs as a2c_configs
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["ppo_1M_serial"] = changed(
    a2c_configs["a2c_1M"],
    roles=dict(algo="ppo"),
    algo=dict(
        learning_rate=3e-4,
        value_loss_coeff=1.0,
        gae_lambda=0.95,
        minibatches=32,
        epochs=10,
        ratio_clip=0.2,
        linear_lr_schedule=True,
    ),
    runner=dict(log_interval_steps=2048 * 10),
    sampler=dict(batch_T=2048, batch_B=1, max_decorrelation_steps=0),
)
configs["ppo_1M_cpu"] = changed(
    configs["ppo_1M_serial"], roles=dict(sampler="cpu"), sampler=dict(batch_T=256, batch_B=8)
)
configs["ppo_32ep_1mb"] = changed(configs["ppo_1M_cpu"], algo=dict(minibatches=1, epochs=32))

configs["ppo_1M_lstm"] = changed(
    configs["ppo_1M_cpu"], roles=dict(agent="mujoco_lstm"), algo=dict(minibatches=4)
)

# Choices that matter according to Andrychowicz et al. 2021 (arXiv:2006.05990): normalized
# observations and returns, small first actions around an unbounded mean, clipped gradients.
configs["ppo_1M_normalized"] = changed(
    configs["ppo_1M_serial"],
    algo=dict(clip_grad_norm=0.5, normalize_return=True),
    model=dict(normalize_observation=True, init_log_std=-0.5, mu_nonlinearity=None),
)
