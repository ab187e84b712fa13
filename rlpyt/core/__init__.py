"""Data and interfaces shared by the roles: ``records``, ``protocols`` and ``masks``."""
