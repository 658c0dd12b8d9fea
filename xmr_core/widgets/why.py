"""The panel under the answers: which words, which parts of the picture, which elements made the match."""

import contextlib
import io

import ipywidgets as w
import matplotlib.pyplot as plt
import numpy as np

from xmr_core import plots
from xmr_core.errors import XmrError
from xmr_core.explore.library import Library
from xmr_core.explore.query import Query, encode
from xmr_core.explore.ranking import Settings, similarity_of
from xmr_core.explore.why import meeting, without_each_cell, without_each_word
from xmr_core.types import EmbeddingSet
from xmr_core.widgets import cards


def why_panel(library: Library, query: Query, at: int, settings: Settings, label: str) -> list[w.Widget]:
    """Widgets that say why the answer at a position was found. What a method cannot say is left out."""
    image_at, text, caption = _pair(library, query, at)
    parts: list[w.Widget] = [w.HTML(f"<h4 style='margin:4px 0'>Why {label} found it</h4>")]
    if image_at is not None:
        with contextlib.suppress(XmrError):  # methods that read word pieces
            worths = list(without_each_word(library, text, image_at, settings).itertuples(index=False, name=None))
            parts.append(
                w.HTML("<div style='font-size:85%'>what each word adds to the score (blue for, orange against)</div>" + cards.words(worths))
            )
        with contextlib.suppress(XmrError):  # methods that read pixels
            parts.append(_picture_of_cells(library, image_at, without_each_cell(library, image_at, caption, settings)))
    image = library.images[image_at] if image_at is not None else encode(library, query)
    if isinstance(image, EmbeddingSet) and isinstance(caption, EmbeddingSet) and image.x.shape[1] <= 16:
        met = meeting(image, caption, similarity_of(library, settings))
        parts.append(_png(plots.meeting(met.products, met.image_parts, met.caption_parts)))
    return parts


def _pair(library: Library, query: Query, at: int):
    """(position of the picture or None for an uploaded one, the sentence, its representation) of query and answer."""
    if query.target == "images":
        caption = encode(library, query)
        text = query.text if query.kind == "text" else str(library.texts[library.position("captions", query.item)])
        return at, text, caption
    image_at = library.position("images", query.item) if query.kind == "image" else None
    return image_at, str(library.texts[at]), library.captions[at]


def _picture_of_cells(library: Library, at: int, worth: np.ndarray) -> w.Widget:
    read = library.prepared.corpus.read_pixels
    if read is None:
        return w.HTML("")
    return _png(plots.cells(read(library.side.image_rows[[at]])[0], worth))


def _png(figure) -> w.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    plt.close(figure)
    return w.Image(value=buffer.getvalue(), format="png", layout=w.Layout(max_width="99%", width="fit-content"))
