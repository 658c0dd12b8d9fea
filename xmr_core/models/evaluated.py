"""A model evaluated on any corpus: runs, folders, official checkpoints and pretrained dual encoders by one function."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from torch import Tensor

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.machine import environment
from xmr_core.base.types import Corpus, Relevance
from xmr_core.data.batches import Split
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import as_array, corpus_of, from_arrays, in_order, warn_of_copies
from xmr_core.data.inputs import listed, pixels_of
from xmr_core.data.readers.folder import from_frame
from xmr_core.evaluation.analysis.representations import evaluate_split
from xmr_core.evaluation.evaluate import EvaluatedSplit, Provenance, Setting, as_relevance, quality_lines
from xmr_core.features.words import USUAL, unread
from xmr_core.training.runs.config import STAGES, readable_id
from xmr_core.training.runs.folder import load as load_run
from xmr_core.training.runs.folder import stored_ids


@dataclass(frozen=True)
class EvaluatedModel(EvaluatedSplit):
    """What `Model.evaluate` gives: metrics, per_query, and the corpus and split that they are of. `print` shows R@K in
    both directions, and the RSUM with its interval beside that of a random ranking."""

    corpus: Corpus
    split: str

    def __str__(self) -> str:
        i, t = self.corpus.rows(self.split)
        about = f"{self.provenance.model[0]} on {self.setting.dataset}, split {self.split}: {len(i):,} images, "
        recalls = self.metrics[self.metrics["metric"] == "recall"]
        table = 100 * recalls.pivot_table("value", ["relevance", "direction"], "k", sort=False).add_prefix("R@")
        lines = [f"{about}{len(t):,} captions\nsplits: {origin_of_splits(self.corpus)}\n"]
        lines += [table.reset_index().to_string(index=False, float_format="{:.1f}".format)]
        return "\n".join([*lines, *quality_lines(self)])


def origin_of_splits(corpus: Corpus) -> str:
    """Where the splits of a corpus come from, for people."""
    return str(corpus.about.get("splits", "drawn with the world" if corpus.name == "scenes" else "lists of the corpus"))


def evaluate_model(model, source, split: str, dataset: str, relevance, in_memory: tuple) -> EvaluatedModel:
    """`Model.evaluate`, which explains the arguments. in_memory: its images, captions and image_of."""
    started, clock, raw = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic(), model.raw
    name, corpus = _corpus(model, source, split, dataset, *in_memory)
    i, t = corpus.rows(split)
    if not len(corpus.captions):
        raise BadInput(f"{name} has no captions, so nothing says which image is right. Put a captions.csv beside it.")
    if not len(i) or not len(t):
        present = ", ".join(sorted({*corpus.captions["split"]} - {""})) or "none"
        fault = f"{name} has no images or no captions in its split {split!r} ({origin_of_splits(corpus)})"
        raise BadInput(f"{fault}. It has captions in: {present}. Give another split, or a column 'split'.")
    if relevance is not None:
        corpus = _restricted(corpus, relevance, None if in_memory[0] is not None else split)
    texts = corpus.captions["text"].iloc[t].tolist()
    for message in (messages := tuple(unread(raw.captions.readings(texts), f"{split} captions", USUAL))):
        warnings.warn(message, stacklevel=3)
    tokens, own = raw.captions.of_corpus(texts), corpus.relevance_sets["annotated"](split)
    part = Split(i, t, raw.images_of(corpus, rows=i), tokens, own)
    per_query, metrics = evaluate_split(model.method, part, corpus, split)
    kinds = sorted(corpus.relevance_sets)
    if relevance and (absent := {*kinds} - {*per_query["relevance"]}):
        raise BadInput(f"nothing in the split {split!r} has a relevant item by {', '.join(sorted(absent))}.")
    method, about, world = model.method, model.about, corpus.about
    identity = getattr(method, "identity", "") or fingerprint.bytes_hash(files.tensor_bytes(method.state_dict()))
    content = [corpus.fingerprint, identity, STAGES["evaluation"]]
    content += [split, kinds] if split != "test" or relevance else []
    word, form = about.get("method", method.name), about.get("form", "as it comes")
    trained, size, seed = (about.get("seed", 0), about.get("epochs", 0)), world.get("size", ""), world.get("seed", 0)
    parameters, machine = sum(p.numel() for p in method.parameters()), environment(str(method.device))
    more = {"relevances": tuple(kinds), "messages": messages, "model": (model.label, identity)}
    provenance = Provenance(started, 0.0, parameters, machine, evaluate_seconds=time.monotonic() - clock, **more)
    setting = Setting(word, form, name, size, *trained, seed)
    named = readable_id(method.name, name, trained[0], content)
    return EvaluatedModel(named, setting, metrics, per_query, provenance, corpus, split)


def _corpus(model, source, split: str, dataset: str, images, captions, image_of) -> tuple[str, Corpus]:
    """(the name, the corpus) that is meant, by exactly one of the ways in which it can be given."""
    in_memory, object_given = images is not None, isinstance(source, Corpus | DataConfig)
    if in_memory != (captions is not None) or (image_of is not None and not in_memory):
        raise BadInput("images and captions belong together, and image_of to them.")
    if (in_memory and (source is not None or dataset)) or (dataset and object_given):
        raise BadInput("give one corpus: a Corpus, a folder with the dataset that reads it, or images and captions.")
    if in_memory and model.raw.describer is None:
        source = from_arrays(images, captions, image_of, split)
    elif in_memory:
        images, captions = listed(images, True), in_order(captions, "captions")
        warn_of_copies(images)
        images = [pixels_of(own) if isinstance(own, np.ndarray | Tensor) else own for own in images]
        owners = [*range(len(captions))] if image_of is None else as_array(image_of).tolist()
        if len(owners) != len(captions) or {*owners} != {*range(len(images))}:
            raise BadInput(f"{len(captions):,} captions and {len(images):,} images: image_of names the image of each.")
        rows = {"image": [images[n] for n in owners], "image_id": [f"{n:08}" for n in owners], "caption": captions}
        source = from_frame(pd.DataFrame({**rows, "split": split}), name="arrays")
    elif source is None and not dataset:
        if (run := model.about.get("run", "")) not in stored_ids():
            raise BadInput(f"{model.label} has no corpus of its own here. Give a folder, a Corpus, or a dataset.")
        source = load_run(run).config.data
    if isinstance(source, Corpus):
        return source.name, source
    config = source if isinstance(source, DataConfig) else DataConfig(dataset or "folder", str(source or ""))
    return config.dataset, corpus_of(config)


def _restricted(corpus: Corpus, relevance, split: str | None) -> Corpus:
    """The corpus with some kinds of relevance, named or {name: Relevance}; the annotated pairs are always the first.
    split: of a corpus whose order a reader chose, where positions say nothing; None for one in the given order."""
    own = {n: lambda split, r=r: r for n, r in relevance.items()} if isinstance(relevance, Mapping) else {}
    for name in own if split else ():
        if not isinstance(r := relevance[name], Relevance):
            if not isinstance(r, Mapping) or not all(isinstance(items, Mapping) for items in r.values()):
                raise BadInput(f"relevance {name!r} needs ids: a Relevance, or {{caption_id: {{image_id: grade}}}}.")
            ids = (first := corpus.relevance_sets["annotated"](split)).query_ids, first.gallery_ids
            own[name] = lambda _, made=as_relevance(r, (*map(len, ids),), *ids): made
    offered, names = {**corpus.relevance_sets, **own}, [relevance] if isinstance(relevance, str) else [*relevance]
    for name in names:
        require_choice(f"relevance of {corpus.name}", name, offered)
    return replace(corpus, relevance_sets={n: offered[n] for n in ("annotated", *names)})
