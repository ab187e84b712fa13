"""Replay buffers of sequences; the map is in :mod:`rlpyt.replays`."""
