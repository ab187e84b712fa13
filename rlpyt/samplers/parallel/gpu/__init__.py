"""Samplers whose workers only step environments, while the agent acts for all in one process."""
