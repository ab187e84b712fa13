"""Q-value policy gradient algorithms; the base classes are in ``actor_critic``."""
