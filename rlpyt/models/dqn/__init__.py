"""Q-networks; the map is in :mod:`rlpyt.models`."""
