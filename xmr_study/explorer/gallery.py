"""The query and its answers as one widget: cards in one or two columns, and what is done with them. Its script is the
part in the page."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path

import anywidget
import traitlets

from xmr_core.base.errors import DamagedFile
from xmr_core.retrieval.explain import relative_uncertainty
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Ranking, encode, near_words
from xmr_study.explorer import markup
from xmr_study.explorer.settings import button, field
from xmr_study.explorer.views import captions_of, photograph

_CACHED = 2048  # images whose small form is cached
_SMALL: dict[tuple, str] = {}  # (reader of images, position) → data URI, the oldest first


class Gallery(anywidget.AnyWidget):
    """What the page shows. header: HTML of what is searched and by what. controls: rows of settings.Control. said:
    'text', its 'kind' ('info', 'error' or 'busy'), and whether one can 'stop' it. asked: 'html' of the query, and of an
    image its 'controls'. columns: as `column`. opened: what is said of an answer, 'html', and where: 'column', 'row'.
    chips: controls of what restricts the answers, or could. thumbs: id → data URI
    of images that the page may not have. address: the view in letters.

    told: called with each message of the page: 'act', and where; and with the bytes of an image.
    """

    _esm = Path(__file__).with_name("gallery.js")
    said, asked, opened, thumbs = (traitlets.Dict().tag(sync=True) for _ in range(4))
    controls, columns, chips = (traitlets.List().tag(sync=True) for _ in range(3))
    view = traitlets.Int().tag(sync=True)  # a number that every other state raises, and more answers do not
    header, address = (traitlets.Unicode().tag(sync=True) for _ in range(2))

    def __init__(self, told: Callable[[dict, Sequence[bytes]], None]):
        super().__init__()
        self._sent: set[str] = set()
        self.on_msg(lambda _, content, buffers: told(content, buffers))

    def fill(self, library: Library, columns: list[dict], keep: bool = False) -> None:
        """Show answers. Images that were not shown before are sent along. keep: leave open what is said of one."""
        new = {item["at"] for column in columns for item in column["items"] if item["at"]} - self._sent
        with self.hold_sync():
            self.opened = self.opened if keep else {}
            self.thumbs, self.columns = thumbnails(library, new), columns
        self._sent |= new

    def send_thumbs(self, library: Library, ids: Sequence[str]) -> None:
        """Send images that the page says it lacks."""
        self.send({"kind": "thumbs", "items": thumbnails(library, ids)})


def column(
    library: Library,
    ranking: Ranking,
    title: str,
    verdicts: Sequence[str],
    notes: Sequence[str] = (),
    similar: bool = False,
) -> dict[str, object]:
    """The answers of one method: 'head' (HTML), whether they are 'texts', whether there are 'more', and 'items', each
    with its 'id', 'html', 'verdict', the id of its image ('at', '' for a caption), and what it 'asks'. A view of its
    own may add: 'plain' to items without a mark and a why, 'pairs' for two items in a row.

    verdicts: of each answer. notes: a small line for each answer, or none. similar: images like one can be asked for.
    """
    asks = [("its captions", "ask")] if library.captions is not None else []
    asks = asks if ranking.target == "images" else [("its images", "ask")]
    asks += [("similar", "similar")] if similar and ranking.target == "images" else []
    kinds = [kind for kind in library.relevance_sets if kind in ranking.table]
    images, items = ranking.target == "images", []
    for n, (row, position) in enumerate(zip(ranking.table.to_dict("records"), ranking.order.tolist(), strict=True)):
        shown = {"text": str(row.get("text", ""))}
        if images:
            seen = str(row["item"]) if library.pixels is not None else ""
            shown = {"image": seen, "name": str(row["item"]), "caption": "".join(captions_of(library, position)[:1])}
        marks, note = [kind for kind in kinds if row[kind]], notes[n] if notes else ""
        content = markup.answer(row["rank"], row["score"], marks=marks, note=note, **shown)
        item = {"id": str(row["item"]), "html": content, "verdict": verdicts[n], "at": shown.get("image", "")}
        items.append(item | {"asks": asks})
    head = markup.title(title) + markup.ranks(ranking.relevant, kinds)
    return {"head": head, "texts": not images, "items": items, "more": len(items) < len(ranking.among)}


def query_of(
    query: Query, libraries: Mapping[str, Library], rankings: Sequence[Ranking], similar: bool = False
) -> tuple[str, dict]:
    """(the query's text, what the page shows of it). libraries: of the methods that are shown, with their rankings.
    similar: images like one can be asked for."""
    library, text, image = next(iter(libraries.values())), query.text if query.item == "" else str(query.item), ""
    if query.kind == "caption":
        text = str(library.texts[library.position("captions", query.item)])
    elif query.kind == "image":
        image = thumbnail(library, library.position("images", query.item))
    elif query.kind == "upload":
        image = markup.data_uri(query.pixels)
    shown = f"<b>“{escape(text)}”</b>"
    if image:
        shown = f"<img src='{image}' alt='the image that was the query' class='xmr-asked'><div>{escape(text)}</div>"
    if query.words or query.like or query.unlike:
        shown += "<div class='xmr-soft'>scores: sums of standard deviations above the mean image</div>"
    for (label, own), ranking in zip(libraries.items(), rankings, strict=False):
        meant = near_words(own, ranking.unknown_words)
        close = {word: f" (did you mean <i>{escape(other)}</i>?)" for word, other in meant.items()}
        wrong = [f"not understood: <i>{escape(w)}</i>{close.get(w, '')}" for w in ranking.unknown_words]
        wrong += [f"<i>{escape(w)}</i> is read as <i>{escape(other)}</i>" for w, other in ranking.nearest.items()]
        wrong += [f"too long, not read: <i>{escape(ranking.cut)}</i>"] if ranking.cut else []
        by = f"{escape(label)}: " if len(libraries) > 1 else ""
        shown += "".join(f"<div class='xmr-wrong'>{by}{said}</div>" for said in wrong)
        modality = "images" if query.kind in ("image", "upload") else "captions"
        if not ranking.unknown_words and (doubt := relative_uncertainty(own, modality, encode(own, query))) is not None:
            said = f"{escape(label)}: uncertainty {doubt[0]:.2f}, above {100 * doubt[1]:.0f} % of the {modality}"
            shown += f"<div class='xmr-soft'>{said}</div>"
    controls = []
    if query.kind in ("image", "upload"):
        if library.captions is not None and query.similar:
            controls.append(button("captions", "captions for this image", "captions"))
        if similar:
            controls += [] if query.similar else [button("similar images", "images like this one", "similar")]
            controls.append(field("", query.words, "words", hint="… and words: at night"))
    return text, {"html": shown, "controls": controls}


def thumbnail(library: Library, position: int) -> str:
    """Data URI of the image at a position, small; '' for a corpus of features."""
    if library.pixels is None:
        return ""
    key = library.pixels, position
    if key not in _SMALL:
        while len(_SMALL) >= _CACHED:
            _SMALL.pop(next(iter(_SMALL)))
        _SMALL[key] = markup.data_uri(photograph(library, position, markup.THUMBNAIL))
    return _SMALL[key]


def thumbnails(library: Library, ids: Sequence[str]) -> dict[str, str]:
    """Id, as text, → thumbnail of each of some images; what is no image of the library is left out."""
    places, out = library.once(("places", "images"), lambda: {str(i): n for n, i in enumerate(library.image_ids)}), {}
    for i in ids:
        with suppress(DamagedFile, KeyError):  # an image that is gone is a name
            out[i] = thumbnail(library, places[i])
    return out
