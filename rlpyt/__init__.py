"""Reinforcement learning on one machine: every deep model-free family on one fast base."""

__version__ = "1.0.0"
