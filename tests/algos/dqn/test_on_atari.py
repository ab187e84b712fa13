"""A few iterations of a game with each method, from the images to the updated network."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_iqn_agent import AtariIqnAgent
from rlpyt.agents.dqn.atari.atari_qrdqn_agent import AtariQrDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.envs.atari.atari_env import AtariEnv
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.envs.stub_emulator import use_stub
from tests.selection import FULL

EXTENSIONS = {"double_dqn": True, "prioritized_replay": True, "n_step_return": 3}
NOISY = {"noisy": True, "dueling": True}
METHODS = {
    "rainbow": (partial(CategoricalDQN, **EXTENSIONS), AtariCatDqnAgent, NOISY),
    "qr_dqn": (QRDQN, partial(AtariQrDqnAgent, n_quantiles=8), {}),
    "qr_dqn-extended": (
        partial(QRDQN, **EXTENSIONS),
        partial(AtariQrDqnAgent, n_quantiles=8),
        NOISY,
    ),
    "iqn": (partial(IQN, n_tau=4, n_target_tau=4), AtariIqnAgent, {}),
    "iqn-extended": (
        partial(IQN, **EXTENSIONS, n_tau=4, n_target_tau=4),
        AtariIqnAgent,
        NOISY,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS if FULL else ["iqn-extended"])
def test_a_game(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stub(monkeypatch)
    make_algo, make_agent, options = METHODS[name]
    small = {"fc_sizes": 8, "channels": [4, 4], "kernel_sizes": [8, 4], "strides": [4, 4]}
    agent = make_agent(model_kwargs={**small, "paddings": [0, 0], **options})
    algo = make_algo(batch_size=8, replay_size=80, min_steps_learn=16, replay_ratio=1)
    runner = MinibatchRl(
        algo=algo,
        agent=agent,
        sampler=SerialSampler(
            EnvCls=AtariEnv,
            env_kwargs={"game": "pong"},
            batch_T=4,
            batch_B=2,
            max_decorrelation_steps=0,
        ),
        n_steps=160,  # The replay buffer wraps.
        log_interval_steps=160,
        seed=0,
        affinity={"master_torch_threads": 1},
    )
    runner.train()
    assert algo.update_counter == 18
    assert type(algo.replay_buffer).__name__.endswith("ReplayFrameBuffer")
    assert all(torch.isfinite(p).all() for p in agent.parameters())
    moved = [
        not torch.equal(p, agent.target_model.state_dict()[name])
        for name, p in agent.model.state_dict().items()
    ]
    assert all(moved)
