"""Policies and critics of the Q-value policy gradient agents; the map is in :mod:`rlpyt.models`."""
