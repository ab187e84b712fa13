"""Data and interfaces shared by the roles: ``records`` and ``protocols``."""
