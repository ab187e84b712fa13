"""Policy gradient algorithms."""
