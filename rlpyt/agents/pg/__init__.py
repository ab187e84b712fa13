"""Policy gradient agents."""
