"""Actor-critics of the policy gradient agents; the map is in :mod:`rlpyt.models`."""
