"""All settings are in pyproject.toml; this file serves tools which still look for a setup.py."""

from setuptools import setup

setup()
