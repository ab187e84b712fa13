"""All oracles, in the order of the table."""

from tests.oracles import (
    actor_critics,
    memory,
    on_policy,
    on_policy_formulas,
    q_learning,
    soft_formulas,
)
from tests.oracles.comparing import ENTERED

MODULES = on_policy, on_policy_formulas, q_learning, memory, actor_critics, soft_formulas
ORACLES = {
    name: entry
    for module in MODULES
    for name, entry in ENTERED.items()
    if entry.run.__module__ == module.__name__
}
