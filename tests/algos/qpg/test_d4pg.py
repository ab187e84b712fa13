"""D4PG: what differs from DDPG."""

import numpy as np
import pytest

from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.time_limit import TlPrioritizedReplayBuffer, TlUniformReplayBuffer
from tests.agents.qpg.ddpg_parts import made
from tests.algos.qpg.ddpg_parts import RANGE, SETTINGS, batch, examples, initialized, make_algo


def test_agent_is_told_the_range():
    algo = make_algo(D4PG, made(D4pgAgent, n_atoms=5), V_min=-4, V_max=4)
    assert algo.agent.z.tolist() == [-4, -2, 0, 2, 4]


def test_range_that_is_too_small_is_told_once(capsys):
    algo = make_algo(D4PG, V_min=-0.1, V_max=0.1)
    infos = [algo.optimize_agent(i, batch(np.random.default_rng(i))) for i in range(4)]
    assert len(infos[-1].edgeMass) == 4
    assert min(infos[-1].edgeMass) > 0.1
    assert capsys.readouterr().out.count("widen V_min, V_max, now -0.1, 0.1") == 1


@pytest.mark.parametrize(
    ("has_timeout", "prioritized_replay", "BufferCls"),
    [
        (True, False, TlUniformReplayBuffer),
        (True, True, TlPrioritizedReplayBuffer),
        (False, True, PrioritizedReplayBuffer),
    ],
)
def test_class_of_buffer(has_timeout, prioritized_replay, BufferCls):
    algo = D4PG(**SETTINGS, **RANGE, prioritized_replay=prioritized_replay, pri_alpha=0.3)
    initialized(algo, examples=examples(has_timeout))
    assert type(algo.replay_buffer) is BufferCls
    if prioritized_replay:
        assert (algo.replay_buffer.alpha, algo.replay_buffer.beta) == (0.3, 1.0)
    for itr in range(4):
        info = algo.optimize_agent(itr, batch(np.random.default_rng(itr), has_timeout))
    assert len(info.qLoss) == 4
