"""No oracle agrees with a library that was made worse on purpose."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rlpyt.algos import losses
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.pg.base import PolicyGradientAlgo
from rlpyt.returns import advantages
from tests.oracles.registry import ORACLES

Change = Callable[[dict[str, Any]], Any]
PG = "a2c", "a2c_gaussian", "ppo", "ppo_recurrent", "impala"


def with_arguments(patch: pytest.MonkeyPatch, function: Any, change: Change) -> None:
    """Change the arguments of ``function``, by name, wherever the library calls it."""
    signature = inspect.signature(function)

    def changed(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.arguments.update(change(bound.arguments))
        return function(*bound.args, **bound.kwargs)

    for module in [m for name, m in sys.modules.items() if name.startswith("rlpyt.")]:
        for name, x in list(vars(module).items()):
            if x is function:
                patch.setattr(module, name, changed)


def before(patch: pytest.MonkeyPatch, cls: Any, method: str, change: Callable[[Any], None]) -> None:
    """Change an object before one of its methods runs."""
    original = getattr(cls, method)

    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        change(self)
        return original(self, *args, **kwargs)

    patch.setattr(cls, method, changed)


# --- What is made worse ---------------------------------------------------------------------------


def wrong_sign(patch: pytest.MonkeyPatch) -> None:
    for loss in (losses.policy_gradient_loss, losses.clipped_surrogate_loss):
        with_arguments(patch, loss, lambda given: {"advantage": -given["advantage"]})


def no_discount(patch: pytest.MonkeyPatch) -> None:
    for function in (
        advantages.discount_return,
        advantages.generalized_advantage_estimation,
        advantages.vtrace,
        advantages.q_lambda_return,
        losses.n_step_target,
    ):
        with_arguments(patch, function, lambda given: {"discount": 1.0})


def no_bootstrap(patch: pytest.MonkeyPatch) -> None:
    def end_at_limits(algo: Any) -> None:
        algo.bootstrap_timelimit = False

    for AlgoCls in (PolicyGradientAlgo, PQN):
        before(patch, AlgoCls, "initialize", end_at_limits)


MUTATIONS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], tuple[str, ...]]] = {
    "advantage of the wrong sign": (wrong_sign, PG),
    "no discount": (no_discount, (*PG, "pqn")),
    "no bootstrap at truncation": (no_bootstrap, (*PG, "pqn")),
}


@pytest.mark.parametrize(
    ("mutation", "name"), [(m, name) for m, (_, names) in MUTATIONS.items() for name in names]
)
def test_noticed(mutation: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[mutation][0](monkeypatch)
    assert not ORACLES[name].run().agrees()
