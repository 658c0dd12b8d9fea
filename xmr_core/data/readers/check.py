"""A check of a folder of data before training: what it holds, and everything that is wrong with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.row_file import bad_rows
from xmr_core.base.types import SPLITS, Corpus
from xmr_core.data.readers.assembly import EXAMPLES, FaultLog, require_corpus
from xmr_core.features.images import inspect_images
from xmr_core.features.words import tokenise

_SAMPLES = 3  # captions shown of each split
_ROWS = 500  # images of a corpus of features that are searched for zeros


@dataclass(frozen=True)
class Report:
    """What `check_corpus` learned about a folder.

    obstacles: why no model can be trained on it; empty, if one can. tolerated: kind of fault → how often the reader
    went on without the item. splits: a row for each split ('none' for images in no split) with numbers of images and
    captions, and the least, mean and most of captions an image and words a caption. sections: title → lines for people.
    """

    title: str
    obstacles: list[str]
    tolerated: Mapping[str, int]
    splits: pd.DataFrame = field(default_factory=pd.DataFrame)
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether a model can be trained on it."""
        return not self.obstacles

    def text(self) -> str:
        """The report in lines for people."""
        table = self.splits.round(1).to_string().splitlines() if len(self.splits) else []
        reasons = [f"  {n}. {obstacle}" for n, obstacle in enumerate(self.obstacles, 1)]
        verdict = {"It cannot be trained on:" if reasons else "It can be trained on.": reasons}
        groups = [[title, *lines] for title, lines in {**self.sections, **verdict}.items() if lines or title in verdict]
        return "\n".join([self.title, *(line for group in (table, *groups) if group for line in ("", *group))])


def check_corpus(
    name: str,
    load: Callable[..., Corpus],
    data_root: Path | str,
    deep: bool = True,
    progress: Callable | None = None,
    network_of: Callable[[Corpus], str] = lambda corpus: "",
) -> Report:
    """Read a corpus as training does, note every fault instead of stopping at the first, and count what is there.

    Args: load: the reader, (data_root, faults) → Corpus. deep: also decode every image, or search all features for
        NaN. progress: wraps the list of pieces of that work. network_of: a corpus → what will describe its images.
        Bad data raises nothing: see Report.obstacles.
    >>> from xmr_core.data.readers.folder import load_folder
    >>> check_corpus("folder", load_folder, "/no/such/folder").obstacles
    ['data_root of folder not found: /no/such/folder does not exist. Give the right path.']
    """
    faults, corpus = FaultLog(collect=True), None
    with faults.noting():
        corpus = require_corpus(load(data_root, faults), name)
    title, obstacles = f"{name} in {data_root}", list(faults.refused)
    tolerated = [f"  {n:>7,}  {kind}{_listed(faults.examples[kind], n)}" for kind, n in faults.counts.items()]
    if corpus is None:
        return Report(f"{title}: not readable", obstacles, faults.counts, sections={"tolerated:": tolerated})
    captions = {split: corpus.captions.iloc[corpus.rows(split)[1]] for split in (*SPLITS, "")}
    words = {split: [tokenise(text) for text in rows["text"]] for split, rows in captions.items()}
    vocabulary = {word for caption in words["train"] for word in caption}
    others = [word not in vocabulary for split in ("val", "test") for caption in words[split] for word in caption]
    about = {"network": network_of(corpus), **corpus.about}
    shown = [f"{key}: {about[key]}" for key in ("captions", "splits", "protocol", "boxes", "network") if about.get(key)]
    shown += [f"words: {len(vocabulary):,} in train; {np.mean(others or [0]):.1%} of those in val and test are others"]
    if corpus.features is not None:
        _examine_features(corpus, deep, shown, obstacles)
    elif deep:
        _decode_images(corpus, progress, shown, obstacles)
    for split in SPLITS:
        lengths = zip(("images", "captions"), map(len, corpus.rows(split)), strict=True)
        if lacking := [kind for kind, n in lengths if not n]:
            obstacles.append(f"no {' and no '.join(lacking)} in split {split}")
    sections = {"what was read:": shown, "tolerated, and counted:": tolerated}
    sections |= {f"{split}:": _samples(captions[split]) for split in SPLITS}
    rows = {split or "none": _counts(corpus, split, words[split]) for split in words if len(corpus.rows(split)[0])}
    size = f"{len(corpus.images):,} images, {len(corpus.captions):,} captions"
    splits = pd.DataFrame.from_dict(rows, orient="index")
    return Report(f"{title}: {size}", obstacles, faults.counts, splits, sections)


def _counts(corpus: Corpus, split: str, words: list[list[str]]) -> dict[str, float]:
    """A row of Report.splits."""
    i, t = corpus.rows(split)
    owners = corpus.captions["image_id"].iloc[t].value_counts().reindex(corpus.images.index[i], fill_value=0)
    out: dict[str, float] = {"images": len(i), "captions": len(t)}
    for span, values in (("captions an image", owners.tolist()), ("words a caption", [len(own) for own in words])):
        for measure, statistic in (("least", min), ("mean", np.mean), ("most", max)):
            out[f"{span}, {measure}"] = float(statistic(values or [0]))
    return out


def _samples(captions: pd.DataFrame) -> list[str]:
    """A few captions with their images, evenly spread."""
    n, shown = len(captions), min(len(captions), _SAMPLES)
    rows = captions.iloc[[n * (2 * k + 1) // (2 * shown) for k in range(shown)]]
    return [f"  {i}  {text[:120]}" for i, text in zip(rows["image_id"], rows["text"], strict=True)]


def _listed(names: Sequence[str], n: int) -> str:
    """': ' and the first of n names; nothing if no name is known."""
    more = ", …" if n > len(names[:EXAMPLES]) else ""
    return f": {', '.join(map(str, names[:EXAMPLES]))}{more}" if len(names) else ""


def _decode_images(corpus: Corpus, progress: Callable | None, shown: list[str], obstacles: list[str]) -> None:
    """Adds how many images are decoded, and which cannot be."""
    ids, reasons = corpus.images.index, np.array(inspect_images(corpus.images["path"].tolist(), progress))
    shown.append(f"images decoded: {sum(reasons == ''):,} of {len(ids):,}")
    for reason in dict.fromkeys(reasons[reasons != ""].tolist()):
        bad = ids[reasons == reason]
        obstacles.append(f"{len(bad):,} images cannot be decoded ({reason}){_listed(bad, len(bad))}")


def _examine_features(corpus: Corpus, deep: bool, shown: list[str], obstacles: list[str]) -> None:
    """Adds shape and type of the features, and whether a sample of them is finite."""
    features = corpus.features
    shape = " × ".join(f"{n:,}" for n in features.shape)
    shown.append(f"features: {shape} (images, elements, width), {features.dtype}")
    if deep:
        rows = np.unique(np.linspace(0, len(features) - 1, min(len(features), _ROWS)).astype(int)).tolist()
        zeros = sum(not features[row].any() for row in rows)
        shown.append(f"examined: {len(features):,} images; of {len(rows):,} of them, {zeros:,} are all zero")
        if bad := [corpus.images.index[row] for row in bad_rows(features)]:
            fault = f"{len(bad):,} of {len(features):,} images hold NaN or infinity"
            obstacles.append(f"{fault}{_listed(bad, len(bad))}")
