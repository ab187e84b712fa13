"""Policy gradient on Atari games."""
