"""The documentation site: Sphinx with MyST Markdown, notebooks and the theme furo. `make docs` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

import graphbandit

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

project = "graphbandit"
author = "the graphbandit developers"
copyright = author
version = release = graphbandit.__version__

OWN = [path.stem for path in sorted((DOCS / "_extensions").glob("*.py")) if "\ndef setup(" in path.read_text(encoding="utf-8")]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", *OWN]
exclude_patterns = ["_extensions", "_static", "**/.ipynb_checkpoints", "jupyter_execute"]

# Markdown
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"  # formulas need no script and no network

# Tutorials are run when they have changed, each in a folder of its own.
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS.parent / "build" / "notebooks")
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # that something is being compiled
suppress_warnings = ["myst-nb.lexer"]  # only a notebook that is run says which language it is in

# API
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike"} | {
    name: name for name in ("Bools", "Edges", "Floats", "Ints", "MakePolicy", "Radius", "Seed", "Table")
}
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_param = False  # else every word of a type is looked up as a name
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "graphbandit"
html_favicon = "../src/graphbandit/serving/http/page/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
