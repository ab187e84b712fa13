"""Configuration tables of MuJoCo tasks."""
