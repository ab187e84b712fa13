"""All oracles, entered by the modules that define them."""

from tests.oracles import (
    actor_critics as actor_critics,
    memory as memory,
    on_policy as on_policy,
    on_policy_formulas as on_policy_formulas,
    q_learning as q_learning,
    soft_formulas as soft_formulas,
)
from tests.oracles.comparing import ORACLES as ORACLES
