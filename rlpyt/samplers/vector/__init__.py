"""Agent and a vector environment in one process."""
