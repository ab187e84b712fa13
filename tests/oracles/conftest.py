"""Without the other libraries there is nothing to compare with."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("sb3_contrib") else ["test_*.py"]
