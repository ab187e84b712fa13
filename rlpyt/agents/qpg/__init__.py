"""Q-value policy gradient agents; the map is in :mod:`rlpyt.agents`."""
