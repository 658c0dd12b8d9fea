"""Pieces of HTML of the explorer, and its style sheet, whose colours follow the theme of the page."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8
from PIL import Image

_MIXED = {  # a strong colour is mixed with that of the text, so it is dark on a light page and light on a dark one
    "soft": "var(--xmr-fg) 74%, var(--xmr-bg)", "line": "var(--xmr-fg) 24%, var(--xmr-bg)",
    "fill": "var(--xmr-fg) 7%, var(--xmr-bg)", "right": "#029e73 62%, var(--xmr-fg)",
    "wrong": "#d55e00 62%, var(--xmr-fg)", "accent": "#0173b2 62%, var(--xmr-fg)",
}  # fmt: skip
_VARIABLES = ";".join(f"--xmr-{name}:color-mix(in srgb, {mixed})" for name, mixed in _MIXED.items())

STYLE = f"""<style>
.xmr {{--xmr-fg:var(--jp-ui-font-color0,CanvasText); --xmr-bg:var(--jp-layout-color0,Canvas); {_VARIABLES};
  color:var(--xmr-fg); container-type:inline-size; padding:2px; overflow:visible}}
.xmr .widget-html-content, .xmr .jupyter-widgets label, .xmr .widget-label {{color:var(--xmr-fg)}}
.xmr .widget-html, .xmr .widget-html-content {{height:auto; line-height:1.3; overflow:visible; min-width:0}}
.xmr .jupyter-widgets {{max-width:100%}}
.xmr input::placeholder {{color:var(--xmr-soft); opacity:1; font-style:italic}}
.xmr input, .xmr select {{color:var(--xmr-fg); background-color:var(--xmr-bg)}}
.xmr select {{appearance:auto !important; background-image:none !important}}
.xmr :focus-visible {{outline:3px solid var(--xmr-accent) !important; outline-offset:1px}}
.xmr .xmr-skip:not(:focus) {{position:absolute; clip-path:inset(50%)}}
.xmr h3, .xmr h4 {{margin:4px 0; font-size:1.05em; color:var(--xmr-fg)}}
.xmr-soft {{color:var(--xmr-soft); font-size:90%}}
.xmr-right {{color:var(--xmr-right); font-weight:bold}} .xmr-wrong {{color:var(--xmr-wrong); font-weight:bold}}
.xmr-info {{color:var(--xmr-soft)}} .xmr-error {{color:var(--xmr-wrong)}} .xmr-busy {{color:var(--xmr-accent)}}
.xmr .xmr-gallery {{display:contents}} .xmr .xmr-map {{order:1}} .xmr-answers {{order:2}}
.xmr-answers {{container-type:inline-size; overflow:visible}}
.xmr-row {{display:flex; flex-wrap:wrap; gap:6px; align-items:center; margin:3px 0}}
.xmr-row label {{white-space:nowrap}} .xmr-field-sentence {{flex:1 1 300px; display:flex; gap:6px; align-items:center}}
.xmr-field-sentence input {{flex:1 1 auto; min-width:120px}}
.xmr-gallery :is(input:not([type=range]), select) {{padding:4px; border:1px solid var(--xmr-line); max-width:100%;
  font:inherit}}
.xmr-gallery input[type=number] {{width:70px}} .xmr-gallery button:disabled {{opacity:.62; cursor:default}}
.xmr-said {{position:sticky; top:0; z-index:3; background:var(--xmr-bg); min-height:1.5em; padding:2px 0}}
.xmr-waiting .xmr-frame, .xmr-stale .xmr-frame {{opacity:.45}} .xmr-waiting {{cursor:progress}}
.xmr-tools, .xmr-chips, .xmr-query {{display:flex; flex-wrap:wrap; gap:6px; align-items:center; margin:3px 0}}
.xmr-tools input[type=range] {{vertical-align:middle; width:120px}}
.xmr-gallery button {{color:var(--xmr-fg); background:var(--xmr-fill); border:1px solid var(--xmr-line);
  border-radius:2px; padding:2px 7px; margin:1px; font:inherit; font-size:92%; cursor:pointer}}
.xmr-gallery button[aria-pressed=true] {{background:var(--xmr-fg); color:var(--xmr-bg)}}
.xmr-chips button {{border-radius:10px}}
.xmr-frame {{position:relative}}
.xmr-line {{position:absolute; inset:0; width:100%; height:100%; pointer-events:none; z-index:2}}
.xmr-line line {{stroke:var(--xmr-accent); stroke-width:2}}
.xmr-columns {{display:flex; flex-wrap:wrap; gap:6px; align-items:flex-start; overflow:visible; margin:0}}
.xmr-column {{flex:1 1 360px; min-width:0; overflow:visible}}
.xmr-grid {{display:grid; grid-template-columns:repeat(auto-fill,minmax(min(var(--xmr-size,156px),100%),1fr));
  grid-auto-flow:row dense; gap:6px; overflow:visible; margin:0}}
.xmr-grid.xmr-texts {{grid-template-columns:minmax(0,1fr)}}
.xmr-grid.xmr-pairs {{grid-template-columns:repeat(2,minmax(0,calc(var(--xmr-size,156px)*1.2)))}}
.xmr-card {{border:2px solid var(--xmr-line); border-radius:4px; padding:4px; margin:0; overflow:hidden; width:auto;
  display:flex; flex-direction:column; justify-content:space-between; box-sizing:border-box; min-width:0}}
.xmr-texts > .xmr-card {{flex-direction:row; align-items:center; gap:8px}}
.xmr-texts > .xmr-card > :first-child {{flex:1 1 0}}
.xmr-card:has(.xmr-relevant) {{border-color:var(--xmr-right)}}
.xmr-card.xmr-open {{border-color:var(--xmr-accent); outline:3px solid var(--xmr-accent)}}
.xmr-photo {{display:block; width:100%; height:calc(var(--xmr-size,156px) * .87); object-fit:contain;
  background:var(--xmr-fill); cursor:zoom-in}}
.xmr-asked {{max-width:240px; max-height:180px; cursor:zoom-in}}
.xmr-query > div {{flex-basis:100%}} .xmr-query input {{min-width:180px}}
.xmr-name {{overflow-wrap:anywhere}}
.xmr-caption {{display:-webkit-box; -webkit-line-clamp:2; -webkit-box-orient:vertical; overflow:hidden}}
.xmr-panel {{grid-column:1/-1; border:2px solid var(--xmr-accent); border-radius:4px; padding:6px; margin:0;
  overflow:hidden; width:auto}}
.xmr-panel > div {{overflow:auto; max-height:max(240px,calc(100vh - 460px))}}
.xmr-panel button {{scroll-margin:300px 0 max(260px,calc(100vh - 440px))}}
.xmr-dialog {{color:var(--xmr-fg); background:var(--xmr-bg); border:1px solid var(--xmr-line); max-width:94vw;
  max-height:94vh; overflow:auto}}
.xmr-dialog::backdrop {{background:#000a}}
.xmr-dialog .xmr-large {{max-height:74vh; min-width:min(480px,100%); object-fit:contain}}
.xmr-map .js-plotly-plot {{flex:1 1 auto; min-width:0; position:relative}}
.xmr-marks {{position:absolute; inset:0; pointer-events:none; overflow:hidden; z-index:1}}
.xmr-marks span {{position:absolute; transform:translate(-50%,-50%)}} .xmr-marks span[hidden] {{display:none}}
.xmr-answer {{background:#a34700; color:#ffffff; border:1px solid #ffffff; font-size:11px; line-height:1.2;
  padding:0 2px}}
.xmr-star {{color:#e69f00; font-size:26px; line-height:1; text-shadow:0 0 2px #000,0 0 2px #000}}
[data-voila] .jp-OutputArea-child:has(.widget-hprogress .progress-bar-success):not(:has(.xmr)) {{display:none}}
.xmr-figures {{display:flex; flex-wrap:wrap; gap:8px}}
.xmr-figures figure {{margin:0; max-width:180px}} .xmr-figures figcaption {{color:var(--xmr-fg); font-size:90%}}
.xmr-figures img {{display:block; max-width:100%; max-height:180px; min-width:96px; image-rendering:auto}}
.xmr-large {{display:block; max-width:100%; max-height:70vh; min-width:min(256px,100%)}}
.xmr-words span {{padding:1px 3px; border-radius:2px; color:var(--xmr-fg)}} .xmr-words {{line-height:1.9}}
.xmr table {{border-collapse:collapse; font-size:90%; color:var(--xmr-fg)}}
.xmr td, .xmr th {{padding:2px 8px; text-align:right; color:var(--xmr-fg); background-color:transparent}}
.xmr-scroll {{overflow-x:auto; max-width:100%}}
@container (max-width:720px) {{.xmr-frame {{--xmr-size:132px}}}}
body[data-voila] .jp-Cell:not(:has(.xmr)), body[data-voila] .cell:not(:has(.xmr)) {{display:none}}
body[data-voila] .jp-InputPrompt, body[data-voila] .jp-OutputPrompt {{display:none}}
</style>"""


# Pieces of HTML: one answer, and where the right answers stand. Text in, HTML out; all is escaped.


THUMBNAIL = 240  # pixels
_TINY = 96  # pixels up to which an image is stored without loss
_MARKS = {
    "annotated": ("✓", "its own"),
    "exhaustive": ("●", "true"),
    "human": ("●", "right for people"),
    "crowd": ("○", "right for a crowd"),
    "judgments": ("★", "marked as right"),
}


def data_uri(pixels: UInt8[np.ndarray, "h w 3"], resolution: int = THUMBNAIL) -> str:
    """A small image inside a page, at most `resolution` pixels wide and high, aspect ratio unchanged; JPEG, or PNG for
    an image that is tiny anyway.

    >>> data_uri(np.zeros((4, 4, 3), np.uint8))[:22]
    'data:image/png;base64,'
    """
    image = Image.fromarray(pixels)
    image.thumbnail((resolution, resolution))
    kind = "PNG" if max(pixels.shape[:2]) <= _TINY else "JPEG"
    buffer = io.BytesIO()
    image.save(buffer, kind, **({"quality": 85} if kind == "JPEG" else {}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def answer(
    rank: int,
    score: float,
    text: str = "",
    image: str = "",
    marks: Sequence[str] = (),
    name: str = "",
    note: str = "",
    caption: str = "",
) -> str:
    """One answer. image: its id, by which the page has its thumbnail, or a data URI. marks: relevance sets
    by which it is right. name: of the file, or the id. note: a small line at the end. caption: a sentence that belongs
    to an image.

    >>> "a dog" in answer(1, 0.5, text="a dog")
    True
    """
    meanings = [(sign, escape(meaning)) for sign, meaning in (_MARKS.get(kind, ("✓", kind)) for kind in marks)]
    signs = "".join(f"<span title='{m}' aria-label='{m}' class='xmr-right'>{sign}</span> " for sign, m in meanings)
    alt = escape(f"{name}: {caption}" if caption else name)
    source = "src" if image.startswith("data:") else "data-at"
    parts = [f"<img {source}='{escape(image)}' alt='{alt}' title='{alt}' class='xmr-photo'>"] if image else []
    parts += [f"<div>{escape(text)}</div>", f"<div>{rank}. {signs}<span class='xmr-soft'>{score:.3f}</span></div>"]
    small = (("xmr-name", name), ("xmr-caption", caption), ("", note))
    parts += [f"<div class='xmr-soft {kind}'>{escape(line)}</div>" for kind, line in small if line]
    label = ", ".join([f"answer {rank}", *(m for _, m in meanings)])
    return f"<div role='group' aria-label='{label}'{' class=xmr-relevant' if marks else ''}>{''.join(parts)}</div>"


def ranks(table: pd.DataFrame, kinds: Sequence[str], most: int = 12) -> str:
    """Where the right answers stand, one line per relevance set: 'annotated: rank 3, 17, 40 … (50 in all)'."""
    lines = []
    for kind in kinds:
        own = table[table["kind"] == kind]["rank"].tolist()
        rest = f" … ({len(own):,} in all)" if len(own) > most else ""
        lines += [f"<div>{escape(kind)}: rank {', '.join(map(str, own[:most]))}{rest}</div>"] if own else []
    return f"<div class='xmr-soft'>{''.join(lines)}</div>"


def header(said: Sequence[tuple[str, str, str]], more: Iterable[str] = ()) -> str:
    """What is searched, and by which models, a line each. said: of `described`, for each method. more: other lines."""
    lines = [(said[0][0], ""), *((model, warning) for _, model, warning in said), *((line, "") for line in more)]
    warned = (f"{escape(line)} <span class='xmr-wrong'>{escape(warning)}</span>" for line, warning in lines)
    return "".join(f"<div class='xmr-soft'>{line}</div>" for line in warned)


def large(image: str, name: str) -> str:
    """A large image. image: a data URI."""
    return f"<img src='{image}' alt='{escape(name)}' class='xmr-large'>"


def title(text: str) -> str:
    """The name of a column or a panel."""
    return f"<h3>{escape(text)}</h3>"


# Pieces of HTML of an explanation: shaded words, images with a line of text below, a table of cosines.


_STRONGEST = 55  # percent of colour behind a word, so that the word stays legible in both themes
_FIGURE = 176  # pixels
_FOR, _AGAINST = "#0173b2", "#de8f05"


def words(contributions: Sequence[tuple[str, float]]) -> str:
    """A sentence whose words are shaded by a number each, which the pointer shows: blue above 0, orange below.

    >>> "#de8f05 55.0%" in words([("dog", -0.1)])
    True
    """
    top = max((abs(value) for _, value in contributions), default=0.0) or 1.0
    spans = [
        f"<span title='{value:+.4f}' style='background:{_shade(value, top)}'>{escape(word)}</span>"
        for word, value in contributions
    ]
    return f"<div class='xmr-words'>{' '.join(spans)}</div>"


def figures(panels: Sequence[tuple[UInt8[np.ndarray, "h w 3"], str]]) -> str:
    """Images beside each other, each with its line of text below.

    >>> figures([(np.zeros((4, 4, 3), np.uint8), "dog")]).count("<figcaption>dog</figcaption>")
    1
    """
    parts = []
    for pixels, text in panels:
        shown = f"<img src='{data_uri(pixels, _FIGURE)}' alt='{escape(text)}'>"
        parts.append(f"<figure>{shown}<figcaption>{escape(text)}</figcaption></figure>")
    return f"<div class='xmr-figures'>{''.join(parts)}</div>"


def cosines(
    products: Float[np.ndarray, "k l"],
    image_parts: Float[np.ndarray, " k"] | None = None,
    caption_parts: Float[np.ndarray, " l"] | None = None,
    names: Sequence[str] = (),
) -> str:
    """A table of the cosines of every element of an image with every element of a caption.

    image_parts, caption_parts: what each element adds to the score, where the score is such a sum. names: of the
    caption's elements, '1', '2', … without.

    >>> cosines(np.array([[0.5, -0.25]]), names=["a", "dog"]).count("<td")
    3
    """
    top, (k, l) = float(np.abs(products).max()) or 1.0, products.shape
    names = names if len(names) == l else [f"caption’s {n + 1}" for n in range(l)]
    columns = _heads(names, caption_parts, "col")
    rows = _heads([f"image’s {n + 1}" for n in range(k)], image_parts, "row")
    lines = [f"<td></td>{''.join(columns)}"]
    for head, row in zip(rows, products.tolist(), strict=True):
        lines.append(head + "".join(f"<td style='background:{_shade(v, top)}'>{v:.2f}</td>" for v in row))
    return f"<div class='xmr-scroll'><table><tr>{'</tr><tr>'.join(lines)}</tr></table></div>"


def heading(text: str) -> str:
    """The name of a part of an explanation."""
    return f"<h4>{escape(text)}</h4>"


def _heads(names: Sequence[str], parts: Sequence[float] | None, scope: str) -> list[str]:
    added = [""] * len(names) if parts is None else [f"<br>{part:+.3f}" for part in parts]
    return [f"<th scope='{scope}'>{escape(name)}{part}</th>" for name, part in zip(names, added, strict=True)]


def _shade(value: float, top: float) -> str:
    colour = _FOR if value >= 0 else _AGAINST
    return f"color-mix(in srgb, {colour} {_STRONGEST * abs(value) / top:.1f}%, transparent)"
