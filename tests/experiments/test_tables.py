"""The tables: every entry builds its run with the classes it is named for; none shares values."""

from __future__ import annotations

import pytest

from rlpyt.experiments.catalog import ALGORITHMS, TABLES, entries
from rlpyt.experiments.configs.mujoco.pg import mujoco_ppo
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.settings import checked
from rlpyt.experiments.sweeps.variant import changed
from rlpyt.experiments.train import starting_point
from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel

# Entries of the original, with the sampler and runner in their names.
NAMED = {
    "atari_dqn/serial": "SerialSampler MinibatchRlEval",
    "atari_dqn/cpu": "CpuSampler MinibatchRlEval",
    "atari_dqn/async_big": "AsyncGpuSampler AsyncRlEval",
    "atari_dqn/no_eval": "SerialSampler MinibatchRl",
    "atari_r2d1/r2d1_long": "GpuSampler MinibatchRlEval",
    "atari_r2d1/async_gpu": "AsyncGpuSampler AsyncRlEval",
    "atari_r2d1/async_alt_dgx": "AsyncAlternatingSampler AsyncRlEval",
    "atari_ff_a2c/2gpu": "GpuSampler SyncRl",
    "mujoco_ppo/ppo_1M_serial": "SerialSampler MinibatchRl",
    "mujoco_ppo/ppo_1M_cpu": "CpuSampler MinibatchRl",
    "mujoco_ddpg/async_serial": "AsyncSerialSampler AsyncRlEval",
    "mujoco_td3/async_cpu": "AsyncCpuSampler AsyncRlEval",
    "mujoco_sac_v/async_gpu": "AsyncGpuSampler AsyncRlEval",
}


def made(config):
    if not config["env"]:
        config = changed(config, env={"id": "CartPole-v1"})
    if config["roles"]["algo"] == "d4pg":
        config = changed({"algo": {"V_min": 0, "V_max": 1}}, **config)
    return runner_call(checked(config), seed=0).make()


@pytest.mark.parametrize("name", entries())
def test_every_entry_is_accepted_by_its_classes(name):
    config = entries()[name]
    runner = made(config)
    for part, section in ((runner.algo, "algo"), (runner.sampler, "sampler"), (runner, "runner")):
        for setting, value in config[section].items():
            assert getattr(part, setting) == value, f"{section}.{setting}"
    for setting, value in config["agent"].items():
        assert getattr(runner.agent, setting) == value
    for setting, value in config.get("model", {}).items():
        assert runner.agent.model_kwargs[setting] == value


@pytest.mark.parametrize("name", NAMED)
def test_an_entry_uses_the_sampler_and_runner_it_is_named_for(name):
    runner = made(entries()[name])
    assert f"{type(runner.sampler).__name__} {type(runner).__name__}" == NAMED[name]
    if "Async" in NAMED[name]:
        assert "DbCpuResetCollector DbGpuResetCollector".count(runner.sampler.CollectorCls.__name__)
    is_alternating = "Alternating" in NAMED[name]
    assert ("Alternating" in type(runner.agent).__name__) == is_alternating


def test_every_algorithm_has_entries():
    algos = [entry["roles"]["algo"] for entry in entries().values()]
    assert set(algos) == ALGORITHMS.keys()
    assert all(f"{table}/" in " ".join(entries()) for table in TABLES)
    assert entries()["atari_dqn/rainbow"]["model"] == {"dueling": True, "noisy": True}
    sticky = [entry["env"] for name, entry in entries().items() if name.endswith("sticky")]
    assert len(sticky) >= 8
    assert {env["repeat_action_probability"] for env in sticky} == {0.25}


def test_networks_of_atari_100k_have_the_sizes_of_their_papers():
    """576 features in van Hasselt et al. 2019, 3136 in Mnih et al. 2015, of 84 x 84 pixels."""
    for name, ModelCls, n in (("der", AtariCatDqnModel, 576), ("drq_eps", AtariDqnModel, 3136)):
        entry = entries()[f"atari_100k/{name}"]
        model = ModelCls((4, *entry["env"]["img_shape"]), 6, **entry["model"])
        assert model.conv_out_size == n
        assert entry["algo"]["replay_ratio"] == entry["algo"]["batch_size"]  # One update a step.


def test_entries_share_nothing():
    ids = [id(section) for entry in entries().values() for section in entry.values()]
    assert len(set(ids)) == len(ids)


def test_ppo_with_several_environments_keeps_its_minibatches():
    """Two entries were the same dict, so that both had one minibatch and 32 epochs."""
    cpu, one = mujoco_ppo.configs["ppo_1M_cpu"], mujoco_ppo.configs["ppo_32ep_1mb"]
    assert (cpu["algo"]["minibatches"], cpu["algo"]["epochs"]) == (32, 10)
    assert (one["algo"]["minibatches"], one["algo"]["epochs"]) == (1, 32)


def test_changed_copies_deeply():
    base = {"algo": {"sizes": [1, 2]}}
    new = changed(base, algo={"lr": 1}, env={"id": "x"})
    new["algo"]["sizes"].append(3)
    assert base == {"algo": {"sizes": [1, 2]}}
    assert new == {"algo": {"sizes": [1, 2, 3], "lr": 1}, "env": {"id": "x"}}


def test_evaluation_plays_the_game_that_is_trained_with_the_same_sticky_actions():
    config = starting_point("atari_dqn/dqn_sticky", "breakout")
    sampler = made(config).sampler
    assert sampler.eval_env_kwargs == {
        "game": "breakout",
        "episodic_lives": False,
        "horizon": 27000,
        "repeat_action_probability": 0.25,
    }


@pytest.mark.parametrize(
    ("words", "entry", "env"),
    [
        (("dqn", "pong"), "atari_dqn/dqn", "pong"),
        (("rainbow", "SpaceInvaders"), "atari_dqn/rainbow", "space_invaders"),
        (("pqn", "pong"), "atari_dqn/pqn", "pong"),
        (("sac_discrete", "pong"), "atari_dqn/sac_discrete", "pong"),
        (("dqn", "CartPole-v1"), "generic/dqn", "CartPole-v1"),
        (("sac_v", "Pendulum-v1"), "generic/sac_v", "Pendulum-v1"),
    ],
)
def test_an_algorithm_starts_from_the_entry_for_the_environment(words, entry, env):
    config = starting_point(*words)
    assert config["algo"] == entries()[entry]["algo"]
    assert config["env"].get("game", config["env"].get("id")) == env


@pytest.mark.filterwarnings("ignore:.*is out of date")  # Version v0 is that of the paper.
@pytest.mark.parametrize("name", ["young_tian_dqn", "ppo"])
def test_settings_of_minatar_hold_for_its_games_whose_evaluation_ends(name):
    pytest.importorskip("minatar")
    sampler = made(starting_point(f"minatar/{name}", "MinAtar/Seaquest-v0")).sampler
    env = sampler.EnvCls(**sampler.eval_env_kwargs)
    assert env.spec.id == "MinAtar/Seaquest-v0"
    assert env.spec.max_episode_steps == 10_000
    assert env.action_space.n == 6
    assert env.unwrapped.game.sticky_action_prob == 0.1


def test_evaluation_ends_in_every_entry_of_minatar():
    minatar = {name: entry for name, entry in entries().items() if name.startswith("minatar/")}
    assert len(minatar) > 10
    assert all(entry["eval_env"] == {"max_episode_steps": 10_000} for entry in minatar.values())


def test_ppo_of_minatar_keeps_its_learning_rate():
    pytest.importorskip("minatar")
    # With a rate that falls from 2.5e-4, Breakout stays at a fifth of its return.
    runner = made(starting_point("minatar/ppo", "MinAtar/Breakout-v0"))
    assert (runner.algo.learning_rate, runner.algo.linear_lr_schedule) == (1e-3, False)
    # With hidden layers and normalized returns, Asterix was at a quarter of the return after 0.93e6
    # steps.
    assert (runner.agent.model_kwargs["hidden_sizes"], runner.algo.normalize_return) == ([], False)


def test_entries_with_noisy_layers_take_no_random_actions():
    noisy = [entry for entry in entries().values() if entry.get("model", {}).get("noisy")]
    assert len(noisy) >= 3
    for entry in noisy:
        agent = made(entry).agent
        agent.set_default_epsilons_to_zero()
        assert (agent.eps_init, agent.eps_final, agent.eps_eval) == (0, 0, 0)
