"""Formulas as MathML, which browsers draw natively: no script, no font and no network.

Docutils, on which Sphinx is built, translates LaTeX; this extension inserts the result into the pages of
Sphinx.

Docutils, on which Sphinx is built, translates LaTeX; this hands its result to the pages of Sphinx.
"""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

NORM = re.compile(r'<mo(?: class="\w+")?>‖</mo>')
BAR = '<mo stretchy="false">|</mo>'
APPLIED = re.compile(r"(<mo>&ApplyFunction;</mo>)(?!\s*(?:<mrow>\s*)?<mo[^>]*>\()")

ACCENT = re.compile(r'<munderover>\s*(<mi[^/]*</mi>)\s*(<mi[^/]*</mi>)\s*(<mo stretchy="false">.</mo>)\s*</munderover>')


def formula(text: str, *, block: bool) -> str:
    r"""Return a formula in LaTeX as a MathML element.

    >>> formula("x^2", block=False).replace("\n", "")
    '<math xmlns="http://www.w3.org/1998/Math/MathML"><msup><mi>x</mi><mn>2</mn></msup></math>'
    """
    try:
        written = str(tex2mathml(text, as_block=block))
    except Exception as error:
        raise SphinxError(f"This formula cannot be read: {text!r}: {error}") from error
    # The two bars of a norm must be alike, and a function needs a gap before an argument without brackets, as in TeX.
    written = NORM.sub('<mo stretchy="false" lspace="0" rspace="0">‖</mo>', written)
    written = written.replace(BAR, '<mo stretchy="false" lspace="0" rspace="0">|</mo>')
    # Docutils sets the index of an accented letter below it.
    written = ACCENT.sub(r'<msub><mover accent="true">\1\3</mover>\2</msub>', written)
    return APPLIED.sub(r'\1<mspace width="0.17em"></mspace>', written)


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    translator.body.append(f'<span class="math">{formula(node.astext(), block=False)}</span>')
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, which scrolls if it is too wide."""
    translator.body.append(f'<div class="math">{formula(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
