"""Policy gradient on MuJoCo tasks."""
