"""Formulas as MathML, which browsers render without scripts."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Node, display: str) -> str:
    try:
        formula = convert(node.astext(), display=display)
        if "\\" in formula:
            raise ValueError("unknown LaTeX command")
        return formula
    except Exception as error:  # any error is one of the formula
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{_mathml(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app):
    """Take the place of Sphinx's own renderers of formulas."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
