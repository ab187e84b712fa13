from types import SimpleNamespace

import pytest
import torch

from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from tests.agents.parts import VectorCatDqnAgent, made
from tests.algos.parts import SETTINGS, initialized


def make_algo(**settings):
    agent = settings.pop("agent", None) or made(VectorCatDqnAgent())
    return initialized(CategoricalDQN(**{**SETTINGS, **settings}), agent)


class OfTable:
    """An agent whose networks return ``p`` [B,A,P] for any inputs."""

    def __init__(self, p):
        self.p, self.n_atoms = p, p.shape[-1]

    def __call__(self, *inputs):
        return self.p

    def target(self, *inputs):
        return self.p.detach()


def test_agent_is_told_the_range():
    algo = make_algo(V_min=-4, V_max=4)
    assert algo.agent.distribution.z.tolist() == [-4, -2, 0, 2, 4]


def test_mass_on_the_outermost_atoms_is_logged():
    """Atoms 0 to 4: returns are 1, 3.75 (a quarter at 3), 7 (beyond), and -2 (beyond)."""
    algo = make_algo(V_min=0, V_max=4)
    algo.agent = OfTable(torch.full((4, 2, 5), 0.2))
    samples = SimpleNamespace(
        agent_inputs=(),
        target_inputs=(),
        action=torch.zeros(4, dtype=torch.int64),
        return_=torch.tensor([1.0, 3.75, 7.0, -2.0]),
        done_n=torch.ones(4, dtype=torch.bool),
    )
    assert algo._get_loss_values(samples)["edgeMass"].item() == (0 + 0.75 + 1 + 1) / 4


@pytest.mark.parametrize(("edge_mass", "warns"), [([0.3, 0.0], True), ([0.19, 0.0], False)])
def test_range_that_is_too_small_is_told_once(edge_mass, warns, capsys):
    # A range of 10 with returns of 99 went unnoticed.
    algo = make_algo(V_min=0, V_max=4)
    algo.replay_buffer.samples.reward[:] = 0.25
    for _ in range(2):
        opt_info = algo._get_empty_optim_info()
        for mass in edge_mass:
            algo.record_opt_info(opt_info, {"edgeMass": torch.tensor(mass)})
        assert algo.fetch_opt_info(opt_info).edgeMass == pytest.approx(edge_mass)
    out = capsys.readouterr().out
    assert out.count("WARNING: 15% of the targets") == warns
    assert ("widen V_min, V_max, now 0, 4" in out) == warns
    assert ("no return is below 0 or above 25" in out) == warns
