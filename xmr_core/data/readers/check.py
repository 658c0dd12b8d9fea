"""A check of a folder of data before training: what it holds, and everything that is wrong with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.reachable import in_words, plain_text, reachable_in
from xmr_core.base.row_file import bad_rows
from xmr_core.base.types import SPLITS, Brief, Corpus
from xmr_core.data.readers.assembly import EXAMPLES, FaultLog, require_corpus
from xmr_core.features.images import image_contents
from xmr_core.features.words import USUAL, Reading, Vocabulary, tokenise, unread

_SAMPLES = 3  # captions shown of each split
_GLUED = 20  # letters of a word from which a caption of one or two words has lost its blanks
_FEW_TO_LEARN, _FEW_TO_DECIDE = 200, 20  # images of train, of val or test
_ROWS = 500  # images of a corpus of features that are searched for zeros


@dataclass(frozen=True)
class Report(Brief):
    """What `check_corpus` learned about a folder.

    obstacles: why no model can be trained on it; empty, if one can. doubts: why that would say little. tolerated: kind
    of fault → how often the reader went on without the item. splits: a row for each split ('none' for images in no
    split) with numbers of images and captions, and the least, mean and most of captions an image and words a caption.
    sections: title → lines for people.
    """

    title: str
    obstacles: list[str]
    tolerated: Mapping[str, int]
    splits: pd.DataFrame = field(default_factory=pd.DataFrame)
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)
    doubts: Sequence[str] = ()

    @property
    def usable(self) -> bool:
        """Whether a model can be trained on it."""
        return not self.obstacles

    def text(self) -> str:
        """The report in lines for people."""
        table = self.splits.round(1).to_string().splitlines() if len(self.splits) else []
        reasons = [f"  {n}. {obstacle}" for n, obstacle in enumerate(self.obstacles or self.doubts, 1)]
        usable = "It can be trained on, but:" if self.doubts else "It can be trained on."
        verdict = {usable if self.usable else "It cannot be trained on:": reasons}
        groups = [[title, *lines] for title, lines in {**self.sections, **verdict}.items() if lines or title in verdict]
        return "\n".join([self.title, *(line for group in (table, *groups) if group for line in ("", *group))])


def check_corpus(
    name: str,
    load: Callable[..., Corpus],
    data_root: Path | str,
    deep: bool = True,
    progress: Callable | None = None,
    network_of: Callable[[Corpus], str] = lambda corpus: "",
    readings_of: Callable[[Sequence[str]], list[Reading]] | None = None,
) -> Report:
    """Read a corpus as training does, note every fault instead of stopping at the first, and count what is there.

    Args: load: the reader, (data_root, faults) → Corpus. deep: also decode every image, or search all features for
        NaN. progress: wraps the list of pieces of that work. network_of: a corpus → what will describe its images.
        readings_of: texts → what a text model reads of each (WordPieces.readings); None where words are read.
        Bad data raises nothing: see Report.obstacles.
    >>> from xmr_core.data.readers.folder import load_folder
    >>> check_corpus("folder", load_folder, "/no/such/folder").obstacles
    ['data_root of folder not found: /no/such/folder does not exist. Give the right path.']
    """
    faults, corpus = FaultLog(collect=True), None
    with faults.noting():
        corpus = require_corpus(load(data_root, faults), name)
    title, obstacles, shown = f"{name} in {data_root}", list(faults.refused), []
    rows = np.arange(0 if corpus is None else len(corpus.images))
    reasons, flat, contents = image_contents(corpus, rows, progress) if deep and len(rows) else ([], [], rows)
    if len(reasons):
        ids, reasons = corpus.images.index, np.array(reasons)
        shown.append(f"images decoded: {sum(reasons == ''):,} of {len(ids):,}")
        faults.tolerate("images that use less than a tenth of the range of their numbers", ids[np.array(flat)])
        for reason in dict.fromkeys(reasons[reasons != ""].tolist()):
            bad = ids[reasons == reason]
            obstacles.append(f"{len(bad):,} images cannot be decoded ({reason}): {', '.join(map(str, bad))}")
    tolerated = [f"  {n:>7,}  {kind}{_listed(faults.examples[kind], n)}" for kind, n in faults.counts.items()]
    if corpus is None:
        return Report(f"{title}: not readable", obstacles, faults.counts, sections={"tolerated:": tolerated})
    captions = {split: corpus.captions.iloc[corpus.rows(split)[1]] for split in (*SPLITS, "")}
    words = {split: [tokenise(text) for text in rows["text"]] for split, rows in captions.items()}
    vocabulary = {word for caption in words["train"] for word in caption}
    others = [word not in vocabulary for split in ("val", "test") for caption in words[split] for word in caption]
    about = {"network": network_of(corpus), **corpus.about}
    named = ("captions", "splits", "protocol", "boxes", "network")
    shown += [f"{key}: {about[key]}" for key in named if about.get(key)]
    shown += [f"words: {len(vocabulary):,} in train; {np.mean(others or [0]):.1%} of those in val and test are others"]
    read = readings_of or Vocabulary.build(captions["train"]["text"]).readings
    readings = {split: read(captions[split]["text"].tolist()) for split in SPLITS}
    shown += [f"warning: {m}" for split, own in readings.items() for m in unread(own, f"{split} captions", USUAL)]
    obstacles += _unserved(readings["train"])
    if corpus.features is not None:
        _examine_features(corpus, deep, shown, obstacles)
    for split in SPLITS:
        lengths = zip(("images", "captions"), map(len, corpus.rows(split)), strict=True)
        if lacking := [kind for kind, n in lengths if not n]:
            obstacles.append(f"no {' and no '.join(lacking)} in split {split}")
    sections = {"what was read:": shown, "tolerated, and counted:": tolerated}
    sections |= {"what repeats:": _repeats(corpus, contents)}
    sections |= {f"{split}:": _samples(captions[split]) for split in SPLITS}
    counts = {split or "none": _counts(corpus, split, words[split]) for split in words if len(corpus.rows(split)[0])}
    size = f"{len(corpus.images):,} images, {len(corpus.captions):,} captions"
    splits = pd.DataFrame.from_dict(counts, orient="index")
    return Report(f"{title}: {size}", obstacles, faults.counts, splits, sections, _doubts(corpus))


def _doubts(corpus: Corpus) -> list[str]:
    learned, chosen, decides = (len(corpus.rows(split)[0]) for split in ("train", "val", "test"))
    few = f"{learned:,} training images cannot teach anything about others: take a pretrained model"
    steps = f"{decides:,} test images decide nothing: one of them is {1 / max(1, decides):.0%} of a recall"
    epoch = f"{chosen:,} images of val cannot tell which epoch is best"
    lacks = (learned < _FEW_TO_LEARN, 0 < chosen < _FEW_TO_DECIDE, decides < _FEW_TO_DECIDE)
    return [said for said, lacking in zip((few, epoch, steps), lacks, strict=True) if lacking]


def _unserved(readings: list[Reading]) -> list[str]:
    """Why most captions cannot be read as they are."""
    glued = [r for r in readings if 0 < len(r.words) <= 2 and max(map(len, r.words)) > _GLUED]
    kinds = {"hold no word that is read": [r for r in readings if not r.words], "have no blanks between words": glued}
    way = "choose a text_model that reads such captions"
    most = {kind: own for kind, own in kinds.items() if 2 * len(own) > len(readings)}
    return [f"{len(own):,} train captions {kind} (the first: {own[0].text!r:.60}): {way}" for kind, own in most.items()]


def _counts(corpus: Corpus, split: str, words: list[list[str]]) -> dict[str, float]:
    """A row of Report.splits."""
    i, t = corpus.rows(split)
    owners = corpus.captions["image_id"].iloc[t].value_counts().reindex(corpus.images.index[i], fill_value=0)
    out: dict[str, float] = {"images": len(i), "captions": len(t)}
    for span, values in (("captions an image", owners.tolist()), ("words a caption", [len(own) for own in words])):
        for measure, statistic in (("least", min), ("mean", np.mean), ("most", max)):
            out[f"{span}, {measure}"] = float(statistic(values or [0]))
    return out


def _repeats(corpus: Corpus, contents: Sequence) -> list[str]:
    """Captions that several images share, images that are there twice, what is also in an earlier split, and what that
    leaves to be reached. Texts are compared as `plain_text`, images by content."""
    images = corpus.images[["split"]].assign(content=contents)
    captions = corpus.captions[["split", "image_id"]].assign(text=list(map(plain_text, corpus.captions["text"])))
    captions["words"] = [" ".join(tokenise(text)) or text for text in captions["text"]]
    lines = []
    for split in SPLITS:
        own, shown = captions[captions["split"] == split], images[images["split"] == split]
        shared, alike = ((own.groupby(same)["image_id"].transform("nunique") > 1).sum() for same in ("text", "words"))
        twice, of_all = shown.index[shown["content"].duplicated(keep=False)], f"of {len(own):,} captions"
        counts = [(shared, f"{of_all} are word for word those of another image", ())]
        counts += [(alike - shared, f"{of_all} are so without case and punctuation alone", ())]
        counts += [(len(twice), "images have the content of another", twice)]
        for earlier in SPLITS[: SPLITS.index(split)]:
            first = {content: i for i, content in images["content"][images["split"] == earlier].items()}
            leaks = [f"{i} = {first[content]}" for i, content in shown["content"].items() if content in first]
            again = own["text"].isin(captions["text"][captions["split"] == earlier]).sum()
            counts += [(len(leaks), f"images are in {earlier} too", leaks)]
            counts += [(again, f"{of_all} are word for word in {earlier} too", ())]
        lines += [f"  {split}: {n:,} {what}{_listed(names, n)}" for n, what, names in counts if n]
        if split != "train":
            best = in_words(reachable_in(corpus, split, shown["content"]))
            lines += [f"  {split}: the best that any model can reach is {best}"] * bool(best)
    return lines


def _samples(captions: pd.DataFrame) -> list[str]:
    """A few captions with their images, evenly spread."""
    n, shown = len(captions), min(len(captions), _SAMPLES)
    rows = captions.iloc[[n * (2 * k + 1) // (2 * shown) for k in range(shown)]]
    return [f"  {i}  {text[:120]}" for i, text in zip(rows["image_id"], rows["text"], strict=True)]


def _listed(names: Sequence[str], n: int) -> str:
    """': ' and the first of n names; nothing if no name is known."""
    more = ", …" if n > len(names[:EXAMPLES]) else ""
    return f": {', '.join(map(str, names[:EXAMPLES]))}{more}" if len(names) else ""


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
