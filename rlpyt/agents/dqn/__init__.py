"""Agents of the deep Q-network family; the map is in :mod:`rlpyt.agents`."""
