"""Deep Q-learning: one module for each algorithm, all based on ``dqn``."""
