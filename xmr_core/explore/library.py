"""A finished run with one split encoded: what a query is ranked against."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from xmr_core.analysis.representations import encode_split
from xmr_core.analysis.uncertainty import uncertainty
from xmr_core.data.batches import Side
from xmr_core.errors import BadInput
from xmr_core.method import Method
from xmr_core.prepare import Prepared
from xmr_core.relevance import Relevance
from xmr_core.runs import Run
from xmr_core.types import Representation


@dataclass(frozen=True)
class Library:
    """Items of one split, encoded once; rankings of it need no encoder.

    label: the method's name for people. judges: kind → captions × images, positions being those of images and captions here.
    """

    label: str
    method: Method
    prepared: Prepared
    side: Side
    images: Representation
    captions: Representation
    judges: Mapping[str, Relevance]
    _found: dict = field(default_factory=dict, repr=False)

    @cached_property
    def image_ids(self) -> np.ndarray:
        return self.prepared.corpus.images.index.to_numpy()[self.side.image_rows]

    @cached_property
    def caption_ids(self) -> np.ndarray:
        return self.prepared.corpus.captions.index.to_numpy()[self.side.caption_rows]

    @cached_property
    def texts(self) -> np.ndarray:
        return self.prepared.corpus.captions["text"].to_numpy()[self.side.caption_rows]

    @cached_property
    def _places(self) -> dict[str, dict]:
        return {"images": {b: n for n, b in enumerate(self.image_ids)}, "captions": {b: n for n, b in enumerate(self.caption_ids)}}

    def position(self, side: str, item: str) -> int:
        """Where an id stands among 'images' or 'captions'. Raises BadInput for an id that is not in this split."""
        if item not in self._places[side]:
            raise BadInput(
                f"{item!r} is not among the {len(self._places[side]):,} {side} here, which are called like {next(iter(self._places[side]))!r}."
            )
        return self._places[side][item]

    def uncertainty(self, side: str) -> np.ndarray | None:
        """One number per item of a side (analysis.uncertainty), ascending with doubt; None for a method that has none."""
        if side not in self._found:
            try:
                self._found[side] = uncertainty(getattr(self, side))
            except BadInput:
                self._found[side] = None
        return self._found[side]

    def relevant(self, kind: str, side: str, at: int) -> np.ndarray:
        """Positions on the other side that are relevant to the item at a position of 'images' or 'captions'."""
        if (kind, side) not in self._found:
            self._found[kind, side] = self.judges[kind] if side == "captions" else self.judges[kind].transpose()
        return self._found[kind, side][at]


def open_library(run: Run, label: str = "", split: str = "test") -> Library:
    """Encode a split of a run's corpus with its method.

    Kinds of relevance whose ids are fewer than those of the split (PMRP, ECCV) are left out, because positions would differ.
    Raises: BadInput for an unknown split.
    """
    prepared = run.prepared()
    if split not in prepared.sides:
        raise BadInput(f"split must be one of {', '.join(prepared.sides)}, got {split!r}.")
    side, method = prepared.sides[split], run.method()
    images, captions = encode_split(method, side)
    judges = {kind: judge(split) for kind, judge in prepared.corpus.judges.items()}
    whole = {
        kind: r
        for kind, r in judges.items()
        if isinstance(r, Relevance) and (len(r.query_ids), len(r.gallery_ids)) == (len(captions), len(images))
    }
    return Library(label or run.config.method, method, prepared, side, images, captions, whole)
