"""Configuration of Sphinx for the site. scripts/build_site.py copies it beside the pages; formulas become MathML,
without any script.
"""

import html

project = "Image–text retrieval: five papers, one system, matched conditions"
html_title, author, copyright = "Image–text retrieval", "", ""
extensions = ["myst_nb"]
nb_code_prompt_show, nb_code_prompt_hide = "code", "hide the code"
nb_execution_mode, myst_enable_extensions = "off", ["deflist", "dollarmath"]
html_theme, html_show_copyright, html_show_sphinx = "furo", False, False
html_copy_source, html_show_sourcelink, html_last_updated_fmt = False, False, None
html_static_path, html_css_files = ["_static"], ["study.css"]
html_math_renderer = "mathml"
exclude_patterns, suppress_warnings = ["_build"], ["mystnb.unknown_mime_type", "misc.highlighting_failure"]
myst_heading_anchors = 3
_PLAIN = {
    r"\lVert": "‖",
    r"\rVert": "‖",
    r"\lfloor": "⌊",
    r"\rfloor": "⌋",
}  # what the converter does not know after \big


def mathml(source: str, display: str) -> str:
    """A formula in LaTeX as MathML; the source itself where it cannot be converted."""
    from latex2mathml.converter import convert

    for command, character in _PLAIN.items():
        source = source.replace(command, character)
    try:
        return convert(source, display=display)
    except Exception:  # whatever the converter raises for a formula that it does not know
        return f"<code>{html.escape(source)}</code>"


def _inline(writer, node) -> None:
    from docutils.nodes import SkipNode

    writer.body.append(mathml(node.astext(), "inline"))
    raise SkipNode


def _block(writer, node) -> None:
    from docutils.nodes import SkipNode

    writer.body.append(f'<div class="math-block">{mathml(node.astext(), "block")}</div>')
    raise SkipNode


def setup(app) -> None:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
