"""A check of a folder of data before training: what it holds, and everything that is wrong with it."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.types import SPLITS, Corpus
from xmr_core.data.readers.assembly import EXAMPLES, FaultLog, require_corpus
from xmr_core.features.images import inspect_images
from xmr_core.features.words import tokenise

_SAMPLES = 3  # captions shown of each split
_ROWS = 500  # images of a corpus of features that are examined
_SPANS = ("captions an image", "words a caption")

Counted = Mapping[str, tuple[int, tuple[str, ...]]]  # kind → (how many, names: all or the first few)


@dataclass(frozen=True)
class Report:
    """What `check_corpus` learned about a folder.

    refused: why the reader refuses it. tolerated: faults that the reader goes on without. splits: a row for each split
    ('none' for images in no split) with the numbers of images and captions, and the least, mean and most of captions an
    image and words a caption. vocabulary: how many words the training captions have; unknown: share, in [0, 1], of the
    words of val and test that are not among them. decoded: how many image files were decoded; unreadable: reason →
    images that cannot be; unusual: kind → images that can be. features: facts about the features of a corpus without
    images. samples: split → (image_id, caption). about: what the reader says about the corpus. network: what
    will describe its images, as `check_corpus` was given it.
    """

    name: str
    data_root: str
    refused: tuple[str, ...] = ()
    tolerated: Counted = field(default_factory=dict)
    splits: pd.DataFrame = field(default_factory=pd.DataFrame)
    vocabulary: int = 0
    unknown: float = 0.0
    decoded: int = 0
    unreadable: Counted = field(default_factory=dict)
    unusual: Counted = field(default_factory=dict)
    features: Mapping[str, object] = field(default_factory=dict)
    samples: Mapping[str, list[tuple[str, str]]] = field(default_factory=dict)
    about: Mapping[str, object] = field(default_factory=dict)
    network: str = ""

    @property
    def obstacles(self) -> list[str]:
        """Why no model can be trained on it; empty, if one can."""
        out = list(self.refused)
        for reason, (n, names) in self.unreadable.items():
            out.append(f"{n:,} images cannot be decoded ({reason}){_listed(names, n)}")
        if bad := self.features.get("not finite"):
            out.append(
                f"{len(bad):,} of {self.features['examined']:,} examined images hold NaN or infinity{_listed(bad)}"
            )
        for split in SPLITS if len(self.splits) else ():
            counts = self.splits.loc[split] if split in self.splits.index else {}
            if lacking := [kind for kind in ("images", "captions") if not counts.get(kind)]:
                out.append(f"no {' and no '.join(lacking)} in split {split}")
        return out

    @property
    def usable(self) -> bool:
        """Whether a model can be trained on it."""
        return not self.obstacles

    def text(self) -> str:
        """The report in lines for people."""
        lines = [f"{self.name} in {self.data_root}: not readable"]
        if len(self.splits):
            totals = ", ".join(f"{self.splits[kind].sum():,} {kind}" for kind in ("images", "captions"))
            unknown = f"{self.unknown:.1%} of the words in val and test are not among them"
            lines = [f"{self.name} in {self.data_root}: {totals}", "", *_table(self.splits)]
            lines += ["", f"{self.vocabulary:,} words in train; {unknown}"]
        shown = {name: self.about.get(name) for name in ("captions", "splits", "protocol", "boxes")}
        groups = [
            [f"{name}: {value}" for name, value in self.features.items() if name != "not finite"],
            [f"{name}: {value}" for name, value in shown.items() if value],
            [f"network: {self.network}"] * bool(self.network),
        ]
        for title, faults in (("tolerated, and counted:", self.tolerated), ("unusual, but read:", self.unusual)):
            counts = [f"  {n:>7,}  {kind}{_listed(names, n)}" for kind, (n, names) in faults.items()]
            groups.append([title, *counts] if counts else [])
        groups.append([])
        for split, pairs in self.samples.items():
            groups[-1] += [f"{split}:", *(f"  {image_id}  {_printable(text)}" for image_id, text in pairs)]
        failed = sum(n for n, _ in self.unreadable.values())
        groups.append([f"{self.decoded:,} images decoded; {failed:,} cannot be"] * bool(self.decoded))
        reasons = [f"  {n}. {obstacle}" for n, obstacle in enumerate(self.obstacles, 1)]
        groups.append(["It cannot be trained on:", *reasons] if reasons else ["It can be trained on."])
        return "\n".join([*lines, *(line for group in groups if group for line in ("", *group))])


def check_corpus(
    name: str,
    load: Callable[..., Corpus],
    data_root: Path | str,
    deep: bool = True,
    progress: Callable | None = None,
    network_of: Callable[[Corpus], str] = lambda corpus: "",
) -> Report:
    """Read a corpus as training does, note every fault instead of stopping at the first, and count what is there.

    Args: load: the reader, (data_root, faults) → Corpus. deep: also decode every image, or examine a sample of the
        features. progress: wraps the list of pieces of that work. network_of: a corpus → what will describe its images.
        Bad data raises nothing: see Report.refused.
    >>> from xmr_core.data.readers.folder import load_folder
    >>> check_corpus("folder", load_folder, "/no/such/folder").obstacles
    ['data_root of folder not found: /no/such/folder does not exist. Give the right path.']
    """
    faults, corpus = FaultLog(collect=True), None
    with faults.noting():
        corpus = require_corpus(load(data_root, faults), name)
    tolerated = {kind: (n, tuple(faults.examples[kind])) for kind, n in faults.counts.items()}
    facts = {"name": name, "data_root": str(data_root), "refused": tuple(faults.refused), "tolerated": tolerated}
    if corpus is None:
        return Report(**facts)
    captions = {split: corpus.captions.iloc[corpus.rows(split)[1]] for split in (*SPLITS, "")}
    words = {split: [tokenise(text) for text in rows["text"]] for split, rows in captions.items()}
    present = [split for split in words if len(corpus.rows(split)[0])]
    vocabulary = {word for caption in words["train"] for word in caption}
    unknown = [word not in vocabulary for split in ("val", "test") for caption in words[split] for word in caption]
    counts = [_counts(corpus, split, words[split]) for split in present]
    if corpus.features is not None:
        facts["features"] = _examine_features(corpus, deep)
    elif deep:
        facts |= _decode_images(corpus, progress)
    return Report(
        **facts,
        splits=pd.DataFrame(counts, index=[split or "none" for split in present]),
        vocabulary=len(vocabulary),
        unknown=float(np.mean(unknown)) if unknown else 0.0,
        samples={split: _samples(captions[split]) for split in SPLITS if len(captions[split])},
        about=corpus.about,
        network=network_of(corpus),
    )


def _counts(corpus: Corpus, split: str, words: list[list[str]]) -> dict[str, float]:
    """A row of Report.splits."""
    i, t = corpus.rows(split)
    owners = corpus.captions["image_id"].iloc[t].value_counts()
    numbers = owners.reindex(corpus.images.index[i], fill_value=0), pd.Series([len(caption) for caption in words])
    out: dict[str, float] = {"images": len(i), "captions": len(t)}
    for span, values in zip(_SPANS, numbers, strict=True):
        for measure, statistic in (("least", "min"), ("mean", "mean"), ("most", "max")):
            out[f"{span}, {measure}"] = float(values.agg(statistic)) if len(values) else 0.0
    return out


def _samples(captions: pd.DataFrame) -> list[tuple[str, str]]:
    """(image_id, caption) of a few captions, evenly spread."""
    n, shown = len(captions), min(len(captions), _SAMPLES)
    rows = captions.iloc[[n * (2 * k + 1) // (2 * shown) for k in range(shown)]]
    return list(zip(rows["image_id"], rows["text"], strict=True))


def _table(splits: pd.DataFrame) -> list[str]:
    """A line for each split; least, mean and most are in one column."""
    table = splits[["images", "captions"]].map("{:,.0f}".format)
    for span in _SPANS:
        measures = splits[[f"{span}, {measure}" for measure in ("least", "most", "mean")]].to_numpy()
        table[span] = [f"{least:.0f}–{most:.0f}, mean {mean:.1f}" for least, most, mean in measures]
    return table.to_string().splitlines()


def _listed(names: tuple[str, ...], n: int | None = None) -> str:
    """': ' and the first of n names; nothing if no name is known."""
    more = ", …" if (n or len(names)) > len(names[:EXAMPLES]) else ""
    return f": {', '.join(names[:EXAMPLES])}{more}" if names else ""


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:120])


def _decode_images(corpus: Corpus, progress: Callable | None) -> dict[str, object]:
    """Which images cannot be decoded, and which are unusual."""
    unreadable: dict[str, list[str]] = defaultdict(list)
    unusual: dict[str, list[str]] = defaultdict(list)
    inspections = inspect_images(corpus.images["path"].tolist(), progress)
    for image_id, (reason, kinds) in zip(corpus.images.index, inspections, strict=True):
        for table, key in [(unreadable, reason)] * bool(reason) + [(unusual, kind) for kind in kinds]:
            table[key].append(str(image_id))
    counted = [{key: (len(ids), tuple(ids)) for key, ids in table.items()} for table in (unreadable, unusual)]
    failed = sum(len(ids) for ids in unreadable.values())
    return {"decoded": len(corpus.images) - failed, "unreadable": counted[0], "unusual": counted[1]}


def _examine_features(corpus: Corpus, deep: bool) -> dict[str, object]:
    """Shape, type and size of the features, and whether a sample of them is finite."""
    features = corpus.features
    shape = " × ".join(f"{n:,}" for n in features.shape)
    out: dict[str, object] = {"features": f"{shape} (images, elements, width), {np.dtype(features.dtype)}"}
    if files := [part.path for part in getattr(features, "parts", (features,)) if hasattr(part, "path")]:
        size = sum(file.stat().st_size for file in files) / 1e9
        out["on disk"] = f"{size:.2f} GB in {', '.join(file.name for file in files)}"
    if not deep:
        return out
    rows = np.unique(np.linspace(0, len(features) - 1, min(len(features), _ROWS)).astype(int)).tolist()
    bad = tuple(str(corpus.images.index[row]) for row in rows if not np.isfinite(features[row]).all())
    zeros = sum(not features[row].any() for row in rows)
    return out | {"examined": len(rows), "of these all zero": zeros, "not finite": bad}
