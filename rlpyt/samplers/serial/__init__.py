"""Agent and environments in one process."""
