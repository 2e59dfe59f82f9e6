"""Settings of the documentation site: Sphinx with Markdown pages and an API reference from docstrings."""

import shortlist

project = "shortlist"
author = "The shortlist developers"
copyright = author
release = shortlist.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
source_suffix = {".md": "markdown"}
exclude_patterns = ["openapi.json"]

html_theme = "furo"
html_title = f"shortlist {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_preserve_defaults = True
suppress_warnings = ["ref.python"]
