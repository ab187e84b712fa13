"""Samplers with a copy of the agent in every worker."""
