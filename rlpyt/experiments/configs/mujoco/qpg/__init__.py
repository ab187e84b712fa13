"""Q-value policy gradient algorithms on MuJoCo tasks."""
