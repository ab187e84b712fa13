"""All oracles, entered by the modules that define them."""

from tests.oracles import on_policy as on_policy
from tests.oracles.comparing import ORACLES as ORACLES
