"""Configuration tables of Atari games."""
