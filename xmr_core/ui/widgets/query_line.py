"""The query above the answers: its sentence or image, and how uncertain each method is of it."""

from collections.abc import Mapping
from html import escape

from xmr_core.search.library import Library
from xmr_core.search.query import Query, encode
from xmr_core.search.ranking import Ranking
from xmr_core.search.why import relative_uncertainty
from xmr_core.ui.widgets import cards
from xmr_core.ui.widgets.columns import thumbnail


def query_html(query: Query, libraries: Mapping[str, Library], ranking: Ranking) -> tuple[str, str]:
    """(the query's text, HTML of the query). libraries: of the methods that are shown. ranking: of the first of
    them."""
    library, text, image = next(iter(libraries.values())), query.item or query.text, ""
    if query.kind == "caption":
        text = str(library.texts[library.position("captions", query.item)])
    elif query.kind == "image":
        image = thumbnail(library, library.position("images", query.item))
    elif query.kind == "upload":
        image = cards.data_uri(query.pixels)
    shown = f"<b>“{escape(text)}”</b>"
    if image:
        shown = f"<img src='{image}' alt='the image that was the query' class='xmr-asked'><div>{escape(text)}</div>"
    wrong = [f"not understood: <i>{escape(word)}</i>" for word in ranking.unknown_words]
    wrong += [f"<i>{escape(word)}</i> is read as <i>{escape(other)}</i>" for word, other in ranking.nearest.items()]
    shown += "".join(f"<div class='xmr-wrong'>{line}</div>" for line in wrong)
    modality = "images" if query.target == "captions" else "captions"
    for label, library in libraries.items():
        if (own := relative_uncertainty(library, modality, encode(library, query))) is not None:
            line = f"{escape(label)}: uncertainty {own[0]:.2f}, above {100 * own[1]:.0f} % of the {modality}"
            shown += f"<div class='xmr-soft'>{line}</div>"
    return text, shown
