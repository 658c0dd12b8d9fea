"""Looking through a folder of data before anything is trained on it: what is there, and everything that is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.errors import XmrError
from xmr_core.base.types import Corpus
from xmr_core.data.images.decoding import look_at_all
from xmr_core.data.readers.faults import EXAMPLES, Faults
from xmr_core.data.text.tokenise import tokenise

SPLITS = ("train", "val", "test")
_SAMPLES = 3  # captions shown of each split
_ROWS = 500  # pictures of a corpus of features that are looked at

Named = tuple[int, tuple[str, ...]]  # how many, and the first few


@dataclass(frozen=True)
class Report:
    """What check_corpus found.

    refused: why the reader would not read it, all reasons. tolerated: kind of fault → (how often, examples).
    splits: a row per split ('none' for pictures in no split): pictures, captions, and least, mean and most of captions a picture
    and words a caption. vocabulary: words of the training captions; unknown: share of the words of val and test not among them.
    unreadable: reason → (how many pictures, names); unusual: kind → (how many, names) of pictures that are read all the same;
    decoded: how many pictures were decoded to know. features: facts of a corpus of features. samples: split → (picture, caption).
    """

    name: str
    data_root: str
    refused: tuple[str, ...] = ()
    tolerated: Mapping[str, Named] = field(default_factory=dict)
    splits: pd.DataFrame = field(default_factory=pd.DataFrame)
    vocabulary: int = 0
    unknown: float = 0.0
    decoded: int = 0
    unreadable: Mapping[str, Named] = field(default_factory=dict)
    unusual: Mapping[str, Named] = field(default_factory=dict)
    features: Mapping[str, object] = field(default_factory=dict)
    samples: Mapping[str, list[tuple[str, str]]] = field(default_factory=dict)
    about: Mapping[str, object] = field(default_factory=dict)

    @property
    def obstacles(self) -> list[str]:
        """Why it cannot be trained on; none if it can."""
        out = list(self.refused)
        out += [f"{n:,} pictures cannot be decoded ({why}): {_few(names, n)}" for why, (n, names) in self.unreadable.items()]
        if bad := self.features.get("not finite"):
            out.append(f"{bad[0]:,} of {self.features['looked at']:,} pictures looked at hold NaN or infinity: {_few(bad[1], bad[0])}")
        for split in SPLITS if len(self.splits) else ():
            what = [kind for kind in ("pictures", "captions") if split not in self.splits.index or not self.splits.loc[split, kind]]
            out += [f"no {' and no '.join(what)} in split {split}"] if what else []
        return out

    @property
    def usable(self) -> bool:
        """Whether it can be trained on."""
        return not self.obstacles

    def text(self) -> str:
        """The report for people."""
        totals = (
            ", ".join(f"{self.splits[kind].sum():,} {kind}" for kind in ("pictures", "captions")) if len(self.splits) else "not readable"
        )
        lines = [f"{self.name} in {self.data_root}: {totals}", ""]
        if len(self.splits):
            lines += [*_table(self.splits), ""]
            lines += [f"{self.vocabulary:,} words in train; {self.unknown:.1%} of the words in val and test are not among them", ""]
        lines += [*(f"{name}: {value}" for name, value in self.features.items() if name != "not finite"), ""] if self.features else []
        if told := [f"{name}: {self.about[name]}" for name in ("splits", "protocol") if self.about.get(name)]:
            lines += [*told, ""]
        for title, found in (("tolerated, and counted:", self.tolerated), ("unusual, but read:", self.unusual)):
            if found:
                lines += [title, *(f"  {n:>7,}  {kind}{_like(names, n)}" for kind, (n, names) in found.items()), ""]
        for split, pairs in self.samples.items():
            lines += [f"{split}:", *(f"  {image}  {_printable(text)}" for image, text in pairs)]
        if self.decoded:
            lines += ["", f"{self.decoded:,} pictures decoded; {sum(n for n, _ in self.unreadable.values()):,} cannot be"]
        verdict = (
            ["It can be trained on."]
            if self.usable
            else ["It cannot be trained on:", *(f"  {n}. {o}" for n, o in enumerate(self.obstacles, 1))]
        )
        return "\n".join([*lines, *verdict])


def check_corpus(
    name: str, load: Callable[..., Corpus], data_root: Path | str, deep: bool = True, progress: Callable | None = None
) -> Report:
    """Read a corpus as training would, note all that is wrong instead of stopping at the first, and count what is there.

    Args: load: the reader, (data_root, faults) → Corpus. deep: also decode every picture, or look at a larger sample of features.
        progress: wraps the list of pieces of that work.
    Raises: nothing for bad data; what the reader refuses is in Report.refused.
    """
    faults, corpus = Faults(collect=True), None
    try:
        corpus = load(data_root, faults)
    except XmrError as e:
        faults.refused.append(str(e))
    tolerated = {kind: (n, tuple(faults.examples.get(kind, ()))) for kind, n in faults.counts.items()}
    found = {"name": name, "data_root": str(data_root), "refused": tuple(faults.refused), "tolerated": tolerated}
    if corpus is None:
        return Report(**found)
    words = {split: [tokenise(text) for text in corpus.captions["text"].to_numpy()[corpus.rows(split)[1]]] for split in (*SPLITS, "")}
    here = [split for split in words if len(corpus.rows(split)[0])]
    known = {word for caption in words["train"] for word in caption}
    asked = [word for split in ("val", "test") for caption in words[split] for word in caption]
    found |= {
        "splits": pd.DataFrame([_counts(corpus, split, words[split]) for split in here], index=[split or "none" for split in here]),
        "vocabulary": len(known),
        "unknown": float(np.mean([word not in known for word in asked])) if asked else 0.0,
        "samples": {split: pairs for split in SPLITS if (pairs := _samples(corpus, split))},
        "about": corpus.about,
    }
    if corpus.features is not None:
        found["features"] = _features(corpus, _ROWS if deep else 0)
    elif deep:
        found |= _pictures(corpus, progress)
    return Report(**found)


def _counts(corpus: Corpus, split: str, words: list[list[str]]) -> dict[str, float]:
    images, captions = corpus.rows(split)
    has = corpus.captions["image_id"].iloc[captions].value_counts().reindex(corpus.images.index[images], fill_value=0).to_numpy()
    lengths = np.array([len(caption) for caption in words])
    out: dict[str, float] = {"pictures": len(images), "captions": len(captions)}
    for what, numbers in (("captions a picture", has), ("words a caption", lengths)):
        for measure, f in (("least", np.min), ("mean", np.mean), ("most", np.max)):
            out[f"{what}, {measure}"] = float(f(numbers)) if len(numbers) else 0.0
    return out


def _samples(corpus: Corpus, split: str) -> list[tuple[str, str]]:
    rows = corpus.rows(split)[1]
    rows = rows[[len(rows) * (2 * n + 1) // (2 * _SAMPLES) for n in range(_SAMPLES)]] if len(rows) >= _SAMPLES else rows
    chosen = corpus.captions.iloc[rows]
    return list(zip(chosen["image_id"], chosen["text"], strict=True))


def _pictures(corpus: Corpus, progress: Callable | None) -> dict[str, object]:
    unreadable: dict[str, list[str]] = {}
    unusual: dict[str, list[str]] = {}
    for image_id, (why, kinds) in zip(corpus.images.index, look_at_all(corpus.images["path"].tolist(), progress), strict=True):
        for table, key in [(unreadable, why)] * bool(why) + [(unusual, kind) for kind in kinds]:
            table.setdefault(key, []).append(image_id)
    return {
        "decoded": len(corpus.images),
        "unreadable": {why: (len(names), tuple(names)) for why, names in unreadable.items()},
        "unusual": {kind: (len(names), tuple(names[:EXAMPLES])) for kind, names in unusual.items()},
    }


def _features(corpus: Corpus, sample: int) -> dict[str, object]:
    """Shape, type and size of the features, and whether a sample of them is made of numbers."""
    features = corpus.features
    files = [part.path for part in getattr(features, "parts", (features,)) if hasattr(part, "path")]
    rows = np.unique(np.linspace(0, len(features) - 1, min(len(features), sample)).astype(int)) if sample else []
    bad, zeros = [], 0
    for row in rows:
        values = features[int(row)]
        bad += [str(corpus.images.index[row])] * (not np.isfinite(values).all())
        zeros += not values.any()
    out = {"features": f"{' × '.join(f'{n:,}' for n in features.shape)} (pictures, elements, width), {np.dtype(features.dtype)}"}
    if files:
        out["on disk"] = f"{sum(f.stat().st_size for f in files) / 1e9:.2f} GB in {', '.join(f.name for f in files)}"
    return out | (
        {"looked at": len(rows), "of these all zero": zeros, "not finite": (len(bad), tuple(bad)) if bad else ()} if sample else {}
    )


def _table(splits: pd.DataFrame) -> list[str]:
    """A row per split; least, mean and most in one column."""
    rows = [("split", "pictures", "captions", "captions a picture", "words a caption")]
    for split, row in splits.iterrows():
        spans = [
            f"{row[f'{w}, least']:.0f}–{row[f'{w}, most']:.0f}, mean {row[f'{w}, mean']:.1f}"
            for w in ("captions a picture", "words a caption")
        ]
        rows.append((str(split), f"{row['pictures']:,.0f}", f"{row['captions']:,.0f}", *spans))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.rjust(w) if n else cell.ljust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def _few(names: tuple[str, ...], n: int) -> str:
    return ", ".join(names[:EXAMPLES]) + (", …" if n > len(names[:EXAMPLES]) else "")


def _like(names: tuple[str, ...], n: int) -> str:
    return f": {_few(names, n)}" if names else ""


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:120])
