"""Replay buffers of single transitions; the map is in :mod:`rlpyt.replays`."""
