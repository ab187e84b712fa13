"""Agents of the deep Q-network family for Atari games: one class for each kind of values."""
