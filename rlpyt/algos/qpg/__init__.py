"""Q-value policy gradient algorithms, all based on ``actor_critic``."""
