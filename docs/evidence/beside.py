"""Train with Stable-Baselines3 and with this library: one machine, one thread, equal settings.

    python docs/evidence/beside.py sb3 ppo HalfCheetah-v5 0 RUNS
    python docs/evidence/beside.py rlpyt ppo HalfCheetah-v5 0 RUNS

The settings are those of RL Baselines3 Zoo. A run writes its learning curve and the returns of 100
episodes of the final agent, without exploration, where ``collect.py`` finds them:
``RUNS/<library>_<algorithm>/<environment>/seed<n>/run_0``.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch

import rlpyt
from rlpyt.experiments.results.runs import STEPS

N_EPISODES = 100
SECONDS = "Diagnostics/CumTime (s)"


class Task(NamedTuple):
    """Equal settings for both libraries."""

    n_steps: float
    theirs: dict[str, Any]
    ours: dict[str, Any]
    entry: str


LARGE = dict(net_arch=[256, 256])
SAC = Task(
    1e5,
    dict(learning_starts=10_000),
    {"min_steps_learn": 1e4, "eval_n_envs": 0, "runner": "minibatch", "replay_size": 1e5},
    "mujoco_sac/sac_serial_bstl",
)
CHEETAH = dict(log_std_init=-2, ortho_init=False, activation_fn=torch.nn.ReLU, **LARGE)
OF_PPO: dict[str, Any] = {
    "batch_T": 512,
    "hidden_sizes": [256, 256],
    "hidden_nonlinearity": "torch.nn.ReLU",
    "mu_nonlinearity": None,
    "init_log_std": -2,
    "optim.eps": 1e-5,
    "linear_lr_schedule": False,
    "log_interval_steps": 10240,
}
OF_DQN: dict[str, Any] = {
    "batch_B": 1,
    "n_step_return": 1,
    "double_dqn": False,
    "target_update_tau": 1,
    "hidden_sizes": [256, 256],
    "bootstrap_timelimit": True,
    "record_next_observation": True,
    "log_interval_steps": 5e3,
    "eps_eval": 0,
}
# Half of our value loss is squared, so its coefficient is twice theirs; their target network moves
# between the updates, by environment steps.
TASKS = {
    ("ppo", "HalfCheetah-v5"): Task(
        1e6,
        dict(
            n_steps=512,
            batch_size=64,
            gamma=0.98,
            learning_rate=2.0633e-5,
            ent_coef=0.000401762,
            clip_range=0.1,
            n_epochs=20,
            gae_lambda=0.92,
            max_grad_norm=0.8,
            vf_coef=0.58096,
            policy_kwargs=CHEETAH,
        ),
        {
            **OF_PPO,
            "minibatches": 8,
            "discount": 0.98,
            "algo.learning_rate": 2.0633e-5,
            "entropy_loss_coeff": 0.000401762,
            "ratio_clip": 0.1,
            "epochs": 20,
            "gae_lambda": 0.92,
            "clip_grad_norm": 0.8,
            "value_loss_coeff": 2 * 0.58096,
        },
        "mujoco_ppo/ppo_1M_normalized",
    ),
    ("ppo", "Hopper-v5"): Task(
        1e6,
        dict(
            n_steps=512,
            batch_size=32,
            gamma=0.999,
            learning_rate=9.80828e-5,
            ent_coef=0.00229519,
            clip_range=0.2,
            n_epochs=5,
            gae_lambda=0.99,
            max_grad_norm=0.7,
            vf_coef=0.835671,
            policy_kwargs=CHEETAH,
        ),
        {
            **OF_PPO,
            "minibatches": 16,
            "discount": 0.999,
            "algo.learning_rate": 9.80828e-5,
            "entropy_loss_coeff": 0.00229519,
            "ratio_clip": 0.2,
            "epochs": 5,
            "gae_lambda": 0.99,
            "clip_grad_norm": 0.7,
            "value_loss_coeff": 2 * 0.835671,
        },
        "mujoco_ppo/ppo_1M_normalized",
    ),
    ("dqn", "CartPole-v1"): Task(
        5e4,
        dict(
            learning_rate=2.3e-3,
            batch_size=64,
            buffer_size=100_000,
            learning_starts=1000,
            target_update_interval=10,
            train_freq=256,
            gradient_steps=128,
            exploration_fraction=0.16,
            exploration_final_eps=0.04,
            policy_kwargs=LARGE,
        ),
        {
            **OF_DQN,
            "batch_T": 256,
            "algo.learning_rate": 2.3e-3,
            "algo.batch_size": 64,
            "replay_size": 1e5,
            "min_steps_learn": 1e3,
            "target_update_interval": 128,
            "replay_ratio": 32,
            "eps_steps": 8e3,
            "eps_final": 0.04,
        },
        "dqn",
    ),
    ("dqn", "LunarLander-v3"): Task(
        1e5,
        dict(
            learning_rate=6.3e-4,
            batch_size=128,
            buffer_size=50_000,
            learning_starts=0,
            target_update_interval=250,
            train_freq=4,
            gradient_steps=-1,
            exploration_fraction=0.12,
            exploration_final_eps=0.1,
            policy_kwargs=LARGE,
        ),
        {
            **OF_DQN,
            "batch_T": 4,
            "algo.learning_rate": 6.3e-4,
            "algo.batch_size": 128,
            "replay_size": 5e4,
            "min_steps_learn": 128,
            "target_update_interval": 250,
            "replay_ratio": 128,
            "eps_steps": 12e3,
            "eps_final": 0.1,
        },
        "dqn",
    ),
    ("sac", "HalfCheetah-v5"): SAC,
    ("sac", "Hopper-v5"): SAC,
}


def train_theirs(algorithm: str, env_id: str, seed: int, directory: Path) -> Callable[..., Any]:
    """Train with Stable-Baselines3; return the policy without exploration."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    class Log(BaseCallback):  # type: ignore[misc]
        """One row every 5000 steps: the mean return of the last 100 episodes."""

        def _on_training_start(self) -> None:
            self.start, self.rows = time.perf_counter(), [(STEPS, "ReturnAverage", SECONDS)]

        def _on_step(self) -> bool:
            if self.num_timesteps % 5000 == 0:
                returns = [episode["r"] for episode in self.model.ep_info_buffer]
                mean = np.mean(returns) if returns else np.nan
                seconds = time.perf_counter() - self.start
                self.rows.append((self.num_timesteps, mean, seconds))
                write(directory / "progress.csv", self.rows)
            return True

    task = TASKS[algorithm, env_id]
    envs: Any = make_vec_env(env_id, n_envs=1, seed=seed)
    if algorithm == "ppo":
        envs = VecNormalize(envs, gamma=task.theirs["gamma"])
    model = getattr(sb3, algorithm.upper())("MlpPolicy", envs, seed=seed, **task.theirs)
    model.learn(int(task.n_steps), callback=Log())
    normalize = getattr(envs, "normalize_obs", lambda observation: observation)
    return lambda observation: model.predict(normalize(observation), deterministic=True)[0]


def train_ours(algorithm: str, env_id: str, seed: int, directory: Path) -> Callable[..., Any]:
    """Train with this library; return the policy without exploration."""
    task = TASKS[algorithm, env_id]
    run = rlpyt.train(task.entry, env_id, task.n_steps, seed, log_dir=directory.parent, **task.ours)
    return lambda observation: run.agent.act(observation, deterministic=True)[0]


def play(act: Callable[..., Any], env_id: str) -> list[tuple[int, float]]:
    """Return length and return of 100 episodes; the same starts for every agent."""
    env, episodes = gymnasium.make(env_id), []
    for seed in range(N_EPISODES):
        observation, _ = env.reset(seed=1_000_000 + seed)
        length, total, over = 0, 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            length, total, over = length + 1, total + float(reward), terminated or truncated
        episodes.append((length, total))
    return episodes


def write(file: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write a table as csv."""
    with open(file, "w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", choices=["sb3", "rlpyt"])
    parser.add_argument("algorithm", choices=sorted({algorithm for algorithm, _ in TASKS}))
    parser.add_argument("environment", choices=sorted({env_id for _, env_id in TASKS}))
    parser.add_argument("seed", type=int)
    parser.add_argument("runs", type=Path, help="directory of all runs")
    given = parser.parse_args()
    algorithm, env_id, seed = given.algorithm, given.environment, given.seed
    if (algorithm, env_id) not in TASKS:
        parser.error(f"choose one of {', '.join(' '.join(task) for task in TASKS)}")
    setting = f"{given.library}_{algorithm}"
    directory = Path(given.runs, setting, env_id, f"seed{seed}", "run_0").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    train = {"sb3": train_theirs, "rlpyt": train_ours}[given.library]
    act = train(algorithm, env_id, seed, directory)
    episodes = play(act, env_id)
    write(directory / "params_evaluation.csv", [("Length", "Return"), *episodes])
    print(f"{np.mean([total for _, total in episodes]):.1f} over {N_EPISODES} episodes")
