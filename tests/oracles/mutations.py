"""Ways to make the library worse on purpose, and the oracles that must notice."""

import inspect
import sys

import pytest
import torch

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.iqn_agent import IqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_discrete_agent import DiscreteSacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos import losses
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.pg.rnd import RndPPO
from rlpyt.core import masks
from rlpyt.replays import priorities
from rlpyt.returns import advantages

Patch = pytest.MonkeyPatch
ON_POLICY = "a2c", "a2c_gaussian", "ppo", "ppo_recurrent", "ppo_masked", "impala"
DETERMINISTIC = "ddpg", "td3", "d4pg"
SOFT = "sac", "tqc", "sac_options", "redq", "droq", "sac_discrete", "sac_v"
VALUES = "dqn", "qr_dqn", "double_dqn", "c51", "rainbow", "iqn", "munchausen", "hindsight"


# --- How ------------------------------------------------------------------------------------------


def everywhere(patch, function, changed):
    """Replace a function of the library wherever it was imported."""
    for module in [m for name, m in sys.modules.items() if name.startswith("rlpyt.")]:
        for name, x in list(vars(module).items()):
            if x is function:
                patch.setattr(module, name, changed)


def with_arguments(patch, function, change):
    """Change the arguments of a function, by name."""
    signature = inspect.signature(function)

    def changed(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.arguments.update(change(bound.arguments))
        return function(*bound.args, **bound.kwargs)

    everywhere(patch, function, changed)


def subclasses(cls):
    yield cls
    for sub in cls.__subclasses__():
        yield from subclasses(sub)


# --- What is made worse ---------------------------------------------------------------------------


def wrong_sign(patch):
    for loss in (losses.policy_gradient_loss, losses.clipped_surrogate_loss):
        with_arguments(patch, loss, lambda given: {"advantage": -given["advantage"]})


def no_discount(patch):
    for function in (
        advantages.discount_return,
        advantages.generalized_advantage_estimation,
        advantages.vtrace,
        advantages.q_lambda_return,
        losses.n_step_target,
    ):
        with_arguments(patch, function, lambda given: {"discount": 1.0})


def no_truncation(patch):
    """Every algorithm takes a time limit for an end."""
    for cls in set(subclasses(RlAlgorithm)):
        if "optimize_agent" in vars(cls):
            patch.setattr(cls, "optimize_agent", without_limits(cls.optimize_agent))


def without_limits(optimize_agent):
    def changed(self, itr, samples, *args):
        info = samples.env.env_info
        info = info._replace(timeout=torch.zeros_like(info.timeout))
        samples = samples._replace(env=samples.env._replace(env_info=info))
        return optimize_agent(self, itr, samples, *args)

    return changed


def online_target(patch):
    for cls, name in (
        (DqnAgent, "target"),
        (IqnAgent, "target"),
        (R2d1Agent, "target"),
        (DdpgAgent, "target_q_at_mu"),
        (Td3Agent, "target_q_at_mu"),
        (D4pgAgent, "target_p_at_mu"),
        (SacAgent, "target_q"),
        (DiscreteSacAgent, "target_q"),
        (SacVAgent, "target_v"),
    ):
        patch.setattr(cls, name, by_online_networks(getattr(cls, name)))


def by_online_networks(method):
    def changed(self, *args, **kwargs):
        names = getattr(self, "target_names", ("model",))
        kept = {name: getattr(self, f"target_{name}") for name in names}
        for name in names:
            setattr(self, f"target_{name}", getattr(self, name))
        try:
            return method(self, *args, **kwargs)
        finally:
            for name, network in kept.items():
                setattr(self, f"target_{name}", network)

    return changed


def no_exponent(patch):
    with_arguments(patch, priorities.leaf_values, lambda given: {"alpha": 1.0})


def no_weights(patch):
    def one(self, leaves):
        return torch.ones(len(leaves)).numpy()

    patch.setattr(priorities.PrioritizedReplay, "weights_of", one)


def no_rescaling(patch):
    for function in (losses.value_scale, losses.inv_value_scale):
        everywhere(patch, function, lambda x, eps: x)


def no_mask(patch):
    everywhere(patch, masks.mask_probabilities, lambda prob, mask: prob)


def no_truncated_weights(patch):
    with_arguments(patch, advantages.vtrace, lambda given: {"rho_bar": 1e9, "c_bar": 1e9})


def no_bonus(patch):
    original = RndPPO.initialize

    def changed(self, *args, **kwargs):
        self.bonus_coeff = 0.0
        original(self, *args, **kwargs)

    patch.setattr(RndPPO, "initialize", changed)


def wrong_fractions(patch):
    with_arguments(patch, losses.quantile_huber_loss, lambda given: {"tau": 1 - given["tau"]})


def no_huber(patch):
    with_arguments(patch, losses.huber_td_loss, lambda given: {"delta_clip": None})


MUTATIONS = {
    "advantage of the wrong sign": (wrong_sign, ON_POLICY),
    "no discount": (
        no_discount,
        (*ON_POLICY, "pqn", *DETERMINISTIC, *SOFT, "crossq", *VALUES, "r2d1"),
    ),
    "a time limit taken for an end": (
        no_truncation,
        (*ON_POLICY, "pqn", *DETERMINISTIC, *SOFT, "crossq", *VALUES, "r2d1"),
    ),
    "target from the online network": (online_target, (*DETERMINISTIC, *SOFT, *VALUES, "r2d1")),
    "priorities without the exponent": (no_exponent, ("double_dqn", "rainbow", "d4pg", "r2d1")),
    "no importance weights": (no_weights, ("double_dqn", "rainbow", "d4pg", "r2d1")),
    "values not rescaled": (no_rescaling, ("r2d1",)),
    "masks ignored": (no_mask, ("ppo_masked",)),
    "importance weights not clipped": (no_truncated_weights, ("impala",)),
    "fractions upside down": (wrong_fractions, ("qr_dqn", "iqn", "tqc")),
    "no bonus": (no_bonus, ("rnd",)),
    "errors not clipped": (no_huber, ("dqn", "double_dqn", "hindsight")),
}
