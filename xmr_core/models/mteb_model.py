"""A model of this package as the benchmark library mteb calls one."""

from collections.abc import Mapping, Sequence

import numpy as np

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, require
from xmr_core.base.files import tensor_bytes
from xmr_core.base.types import Representation, joined
from xmr_core.evaluation.ranks import top_k as best_of
from xmr_core.models.model import Model

_TOGETHER = 256  # rows of a data set that are decoded at a time


class MtebModel:
    """What `mteb.evaluate` takes for tasks of retrieval between images and texts, in any combination.

    It implements mteb's SearchProtocol, so items are compared by the model's own similarity, also where they are sets,
    distributions or pairs. Its hit_rate_at_k is the R@k of this package; its recall_at_k is the share of all relevant
    items, which is the same where a query has one.
    Raises: BadInput where mteb is not installed; in an evaluation, for rows with an image and a text in one, or images
        compared with images (texts with texts) by a similarity that is not symmetric.

    Example: `mteb.evaluate(MtebModel(xmr.load("my-model")), mteb.get_task("Flickr30kT2IRetrieval"))`
    """

    def __init__(self, model: Model, name: str = ""):
        require("an evaluation by mteb", "mteb", "mteb")
        self.model, self.name = model, name or f"xmr_core/{model.label}"

    @property
    def mteb_model_meta(self):
        """What mteb writes beside results. The revision is a digest of the weights, so that no cached result of another
        training is taken for this one's."""
        from mteb.models import ModelMeta

        method = self.model.method
        facts = {"name": self.name, "framework": ["PyTorch"], "modalities": ["image", "text"]}
        facts["revision"] = fingerprint.bytes_hash(tensor_bytes(method.state_dict()))
        return ModelMeta.create_empty(facts | {"n_parameters": sum(p.numel() for p in method.parameters())})

    def index(self, corpus, **_) -> None:
        """Encode the items that are ranked. corpus: a data set with columns id, and image or text."""
        self._ids, self._gallery = [str(name) for name in corpus["id"]], self._encoded(corpus)

    def search(self, queries, *, top_k: int, top_ranked: Mapping[str, Sequence[str]] | None = None, **_) -> dict:
        """query id → {item id: score} of the best top_k items, or of those that top_ranked names for the query."""
        (kind, items), (of_queries, encoded) = self._gallery, self._encoded(queries)
        if kind == of_queries and not self.model.method.similarity.symmetric:
            raise BadInput(f"{self.model.label} compares images with texts only, and this task compares {kind}s.")
        names, modality = [str(name) for name in queries["id"]], "captions" if kind == "image" else "images"
        similarity = self.model.method.similarity
        if top_ranked is None:
            values, order = best_of(similarity, encoded, items, top_k, modality)
            pairs = zip(order, values, strict=True)
            answers = [zip([self._ids[m] for m in row], own, strict=True) for row, own in pairs]
        else:
            places, answers = {name: n for n, name in enumerate(self._ids)}, []
            for n, name in enumerate(names):
                chosen = [str(item) for item in top_ranked[name]]
                some = items[np.array([places[item] for item in chosen])]
                values, order = best_of(similarity, encoded[[n]], some, len(chosen), modality)
                answers.append(zip([chosen[m] for m in order[0]], values[0], strict=True))
        return {name: {item: float(v) for item, v in own} for name, own in zip(names, answers, strict=True)}

    def _encoded(self, rows) -> tuple[str, Representation]:
        """('image' or 'text', representations) of a data set."""
        images, texts = "image" in rows.column_names, "text" in rows.column_names
        if images == texts:
            raise BadInput(f"rows need a column image or a column text, got {', '.join(rows.column_names)}.")
        parts = []
        for start in range(0, len(rows), _TOGETHER):
            block = rows[start : start + _TOGETHER]
            if images:
                parts.append(self.model.encode_images(block["image"]))
                continue
            titles = block.get("title") or [""] * len(block["text"])
            parts.append(
                self.model.encode_texts([f"{t} {x}".strip() for t, x in zip(titles, block["text"], strict=True)])
            )
        return "image" if images else "text", joined(parts)
