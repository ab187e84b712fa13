"""Settings of the documentation; ``sphinx-build -W docs docs/_build`` builds it without network."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]

import rlpyt  # noqa: E402

project = "rlpyt"
author = "rlpyt contributors"
copyright = "2026, rlpyt contributors"
version = release = rlpyt.__version__

viewcode_follow_imported_members = False  # Sources of other names would link back to nowhere.
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docstrings",
    "mathml",
    "package_pages",
]
if not tags.has("without_source"):  # noqa: F821, given by Sphinx
    extensions.append("sphinx.ext.viewcode")
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = html_favicon = "_static/logo.svg"
html_math_renderer = "mathml"
pygments_dark_style = "github-dark"  # The default underlines modules like links.
html_title = f"rlpyt {release}"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_fence_as_directive = ["math"]  # GitHub shows such fences as formulas too.
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_use_type_comments = False  # Types are annotations; looking for comments takes seconds.
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# Aliases of rlpyt.utils.types keep their names.
autodoc_type_aliases = {
    name: name for name in ("Array", "BoolArray", "IntArray", "NDArray", "Nested")
}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
