"""The query above the answers: its sentence or image, and how uncertain each method is of it."""

from collections.abc import Mapping

from xmr_core.search.library import Library
from xmr_core.search.query import Query, encode
from xmr_core.search.ranking import Ranking
from xmr_core.search.why import relative_uncertainty
from xmr_core.ui.widgets import cards
from xmr_core.ui.widgets.columns import thumbnail

_RESOLUTION = 240  # pixels


def query_html(query: Query, libraries: Mapping[str, Library], ranking: Ranking) -> tuple[str, str]:
    """(the query's text, HTML of the query). libraries: of the methods that are shown. ranking: of the first of
    them."""
    library, text, image = next(iter(libraries.values())), query.item or query.text, ""
    if query.kind == "caption":
        text = str(library.texts[library.position("captions", query.item)])
    elif query.kind == "image":
        image = thumbnail(library, library.position("images", query.item), _RESOLUTION)
    elif query.kind == "upload":
        image = cards.data_uri(query.pixels, _RESOLUTION)
    return text, cards.query(text, image, _uncertainties(query, libraries), ranking.unknown_words, ranking.nearest)


def _uncertainties(query: Query, libraries: Mapping[str, Library]) -> str:
    """How uncertain each method is of the query, among items of its modality."""
    modality, parts = "images" if query.target == "captions" else "captions", []
    for label, library in libraries.items():
        values = library.uncertainty(modality)
        if values is not None and (own := relative_uncertainty(library, modality, encode(library, query))) is not None:
            parts.append(cards.uncertainty(label, own[0], values))
    return f"<div>{''.join(parts)}</div>" if parts else ""
