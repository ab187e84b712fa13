"""Description of the package: the README, with links that work outside of the repository."""

import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def description() -> str:
    """Return the README with absolute links, to the files of this version."""
    (source,) = re.findall('^Source = "(.+)"$', (HERE / "pyproject.toml").read_text(), re.M)
    (version,) = re.findall(
        '^__version__ = "(.+)"$', (HERE / "rlpyt" / "__init__.py").read_text(), re.M
    )

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({source}/{kind}/v{version}/{link[3]})"

    relative = r"(!?)\[([^]]*)\]\((?!#|[a-z]+:)([^)]+)\)"
    return re.sub(relative, absolute, (HERE / "README.md").read_text(encoding="utf-8"))


setup(long_description=description(), long_description_content_type="text/markdown")
