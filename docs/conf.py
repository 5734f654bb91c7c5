"""Configuration of the documentation: ``pip install '.[docs]'``, then ``sphinx-build -W docs site``."""

import sys
from pathlib import Path

import bgsub

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "bgsub"
author = "The bgsub developers"
project_copyright = author
release = version = bgsub.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "mathml",
    "reference",
    "commands",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_extensions"]
nitpicky = False  # types in docstrings are words

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "fieldlist", "colon_fence", "attrs_block"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings tell types, with shapes
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, as the parameters; no entries of their own
default_role = "py:obj"  # a link where there is such a name, else code

html_theme = "furo"
html_title = f"bgsub {release}"
html_static_path = ["_static"]
html_css_files = ["bgsub.css"]
html_show_sphinx = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"

linkcheck_timeout = 20
linkcheck_anchors = False


def _to_pages(_app, _file, _page, content):
    """Let links of an included file lead to the pages that include their files."""
    content[0] = content[0].replace("(results/streams_table.md)", "(experiments-streams.md)")


def setup(app):
    """Heed the files that pages include."""
    app.connect("include-read", _to_pages)
