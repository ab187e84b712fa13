"""Training by an entry of the configuration tables.

    python -m rlpyt.experiments.train mujoco_ppo ppo_1M_serial --set env.id=HalfCheetah-v5 --seed 1

``--set`` changes any value of the entry and may be repeated. With ``--save_state 10`` the run saves
its state at every tenth log row; after a stop, the command with ``--resume`` continues from there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent
from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.core.records import TrajInfo
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.envs.gym import make as gym_make
from rlpyt.experiments.configs.atari.dqn import atari_dqn, atari_r2d1
from rlpyt.experiments.configs.atari.pg import (
    atari_ff_a2c,
    atari_ff_ppo,
    atari_lstm_a2c,
    atari_lstm_ppo,
)
from rlpyt.experiments.configs.mujoco.pg import mujoco_a2c, mujoco_ppo
from rlpyt.experiments.configs.mujoco.qpg import (
    mujoco_ddpg,
    mujoco_sac,
    mujoco_sac_v,
    mujoco_td3,
)
from rlpyt.experiments.configs.tables import Config, changed
from rlpyt.runners.callbacks import Callback, SaveState, load_run_state
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.variant import load_variant, update_config
from rlpyt.utils.logging.context import logger_context


class Family(NamedTuple):
    """Classes that the entries of a configuration table are for."""

    configs: dict[str, Config]
    AlgoCls: Any
    AgentCls: Any
    RunnerCls: Any

    def build_runner(
        self,
        config: Config,
        affinity: Mapping[str, Any],
        seed: int | None = None,
        SamplerCls: Any = SerialSampler,
        callbacks: Sequence[Callback] = (),
        **sampler_kwargs: Any,
    ) -> Any:
        """Make the runner, with its algorithm, agent and sampler.

        Args:
            config: sections ``agent, algo, env, eval_env, model, optim, runner, sampler``.
            affinity: affinity of the runner.
            seed: seed of everything random.
            SamplerCls: class of the sampler.
            callbacks: callbacks of the runner.
            sampler_kwargs: changes of the section ``sampler``, such as the collector's class.
        """
        env_kwargs = config["env"]
        atari = "game" in env_kwargs
        # Evaluation is on the game or task that is trained.
        eval_env_kwargs = dict(config.get("eval_env", env_kwargs))
        eval_env_kwargs.update({k: env_kwargs[k] for k in ("game", "id") if k in env_kwargs})
        model = {"model_kwargs": config["model"]} if config.get("model") else {}
        optim = {"optim_kwargs": config["optim"]} if config.get("optim") else {}
        sampler = SamplerCls(
            EnvCls=AtariEnv if atari else gym_make,
            env_kwargs=env_kwargs,
            eval_env_kwargs=eval_env_kwargs,
            TrajInfoCls=AtariTrajInfo if atari else TrajInfo,
            **{**config["sampler"], **sampler_kwargs},
        )
        return self.RunnerCls(
            algo=self.AlgoCls(**optim, **config["algo"]),
            agent=self.AgentCls(**model, **config["agent"]),
            sampler=sampler,
            affinity=affinity,
            seed=seed,
            callbacks=callbacks,
            **config["runner"],
        )


FAMILIES = {
    "atari_dqn": Family(atari_dqn.configs, DQN, AtariDqnAgent, MinibatchRlEval),
    "atari_catdqn": Family(atari_dqn.configs, CategoricalDQN, AtariCatDqnAgent, MinibatchRlEval),
    "atari_r2d1": Family(atari_r2d1.configs, R2D1, AtariR2d1Agent, MinibatchRlEval),
    "atari_ff_a2c": Family(atari_ff_a2c.configs, A2C, AtariFfAgent, MinibatchRl),
    "atari_ff_ppo": Family(atari_ff_ppo.configs, PPO, AtariFfAgent, MinibatchRl),
    "atari_lstm_a2c": Family(atari_lstm_a2c.configs, A2C, AtariLstmAgent, MinibatchRl),
    "atari_lstm_ppo": Family(atari_lstm_ppo.configs, PPO, AtariLstmAgent, MinibatchRl),
    "mujoco_a2c": Family(mujoco_a2c.configs, A2C, MujocoFfAgent, MinibatchRl),
    "mujoco_ppo": Family(mujoco_ppo.configs, PPO, MujocoFfAgent, MinibatchRl),
    "mujoco_ddpg": Family(mujoco_ddpg.configs, DDPG, DdpgAgent, MinibatchRlEval),
    "mujoco_td3": Family(mujoco_td3.configs, TD3, Td3Agent, MinibatchRlEval),
    "mujoco_sac": Family(mujoco_sac.configs, SAC, SacAgent, MinibatchRlEval),
    "mujoco_sac_v": Family(mujoco_sac_v.configs, SAC_V, SacVAgent, MinibatchRlEval),
}


def get_config(family: str, config_key: str) -> Config:
    """Return the entry ``config_key`` of a family's table.

    Raises:
        ValueError: if there is no such family or entry; the message lists those there are.
    """
    for argument, value, known in (
        ("family", family, FAMILIES),
        ("config_key", config_key, FAMILIES[family].configs if family in FAMILIES else {}),
    ):
        if value not in known:
            raise ValueError(f"{argument}={value!r} must be one of {', '.join(known)}")
    return FAMILIES[family].configs[config_key]


def train(
    family: str,
    config: Config,
    log_dir: str,
    run_ID: int | str = 0,
    affinity: Mapping[str, Any] | None = None,
    seed: int | None = None,
    save_state: int = 0,
    resume: bool = False,
) -> None:
    """Train and log into ``log_dir``.

    Args:
        family: name of the family, a key of ``FAMILIES``.
        config: sections of settings, see ``Family.build_runner``.
        log_dir: directory of the log.
        run_ID: number or name of the run in ``log_dir``.
        affinity: affinity of the runner.
        seed: seed of everything random.
        save_state: number of log rows between saved states of the run; 0 saves none.
        resume: whether to continue from the state saved in ``log_dir``.
    """
    callbacks = [SaveState(interval_logs=save_state)] if save_state else []
    runner = FAMILIES[family].build_runner(config, affinity or {}, seed, callbacks=callbacks)
    env = config["env"]
    name = f"{family}_{env.get('game', env.get('id'))}"
    with logger_context(
        log_dir,
        run_ID,
        name,
        {**config, "seed": seed},
        snapshot_mode="last",
        resume=resume,
    ):
        if resume:
            state_file = Path(log_dir) / f"run_{run_ID}" / "run_state.pkl"
            runner.load_state_dict(load_run_state(state_file))
        runner.train()


def build_and_train(
    slot_affinity_code: str, log_dir: str, run_ID: int | str, family: str, config_key: str
) -> None:
    """Train one run of a sweep, as :mod:`rlpyt.utils.launching.exp_launcher` starts it.

    Args:
        slot_affinity_code: code of the part of the machine that the run has.
        log_dir: directory of the log, with the variant, which changes the entry of the table.
        run_ID: number of the run, and its seed.
        family: name of the family, a key of ``FAMILIES``.
        config_key: name of the entry in the family's table.

    Raises:
        ValueError: if the affinity is for several learning processes.
        KeyError: if the variant names a setting that the entry does not have.
    """
    affinity = affinity_from_code(slot_affinity_code)
    if isinstance(affinity, list) or "optimizer" in affinity:
        raise ValueError(
            f"slot_affinity_code={slot_affinity_code!r} is for several learning processes, but "
            "runs of the tables have one: leave out gpu_per_run and async_sample"
        )
    config = update_config(get_config(family, config_key), load_variant(log_dir))
    train(family, config, log_dir, run_ID, affinity, seed=int(run_ID))


def parse_change(text: str) -> tuple[str, str, Any]:
    """Split ``"algo.learning_rate=1e-3"`` into section, key and value, which is JSON or text."""
    path, equals, value = text.partition("=")
    section, dot, key = path.partition(".")
    if not (equals and dot and section and key):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form section.key=value")
    try:
        return section, key, json.loads(value)
    except json.JSONDecodeError:
        return section, key, value


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("config_key", help="entry of the family's table")
    parser.add_argument(
        "--set", type=parse_change, action="append", default=[], metavar="SECTION.KEY=VALUE"
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the run, random by default")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--cuda_idx", type=int, default=None, help="GPU to use; CPU by default")
    parser.add_argument("--threads", type=int, default=None, help="of torch")
    parser.add_argument("--log_dir", default=None, help="name below data/local, or absolute path")
    parser.add_argument(
        "--save_state", type=int, default=0, help="log rows between saved states; 0 saves none"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue from the state in --log_dir"
    )
    given = parser.parse_args(args)
    try:
        config = get_config(given.family, given.config_key)
    except ValueError as error:
        parser.error(str(error))
    for section, key, value in given.set:
        if section not in config:
            parser.error(f"--set: section {section!r} must be one of {', '.join(config)}")
        config = changed(config, **{section: {key: value}})
    affinity = {"cuda_idx": given.cuda_idx}
    if given.threads is not None:
        affinity["master_torch_threads"] = given.threads
    if given.resume and given.log_dir is None:
        parser.error("--resume needs the --log_dir of the run to continue")
    train(
        given.family,
        config,
        given.log_dir or given.family,
        given.run_ID,
        affinity,
        given.seed,
        given.save_state,
        given.resume,
    )


if __name__ == "__main__":
    main()
