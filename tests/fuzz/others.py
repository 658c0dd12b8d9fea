"""Files of others: pictures, lists of captions, vocabularies, checkpoints, arrays, notebooks."""

import argparse
import contextlib
import io
import json
import os
import pickle
import random
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from xmr_core.base.row_file import RowFile
from xmr_core.features.images import inspect_image, read_image
from xmr_core.features.words import load_word_vectors, read_vocabulary
from xmr_core.methods.checkpoint import load_method, load_official
from xmr_study.cli import main
from xmr_study.parameters import declared_parameters

from .mutate import mutated, written
from .outcomes import Case

WORDS = {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3, "dog": 4}
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
CSV = b"image,caption,split\na.jpg,a dog runs,train\na.jpg,the dog,train\nb.jpg,a cat,val\nc.jpg,two cats,test\n"
LINES = b'{"image": "a.jpg", "caption": "a dog"}\n{"image": "b.jpg", "caption": ["a cat", "it sits"]}\n'
COCO = {"images": [{"id": n, "file_name": f"{x}.jpg"} for n, x in enumerate("abc")]}
COCO |= {"annotations": [{"id": n, "image_id": n % 3, "caption": f"a dog {n}"} for n in range(6)]}
KARPATHY = [
    {"filename": f"{x}.jpg", "imgid": n, "sentids": [n], "split": s, "sentences": [{"raw": "a dog", "sentid": n}]}
    for n, (x, s) in enumerate(zip("abc", ("train", "val", "test"), strict=True))
]
KARPATHY = {"dataset": "flickr30k", "images": KARPATHY}
PARAMETERS = {"cell_type": "code", "id": "a", "execution_count": None, "outputs": [], "source": "alpha: float = 1.0"}
PARAMETERS = {"cells": [PARAMETERS | {"metadata": {"tags": ["parameters"]}}], "metadata": {}, "nbformat": 4}


def picture(kind: str, side: int = 40) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(out := io.BytesIO(), kind)
    return out.getvalue()


def folder_of(place: Path, *names: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        written(place / name, picture("JPEG"))
    return place


def official() -> dict:
    rng = np.random.default_rng(0)
    t = lambda *shape: torch.from_numpy(rng.normal(size=shape).astype(np.float32))  # noqa: E731
    shapes = {"weight_ih": (24, 6), "weight_hh": (24, 8), "bias_ih": (24,), "bias_hh": (24,)}
    text = OrderedDict({"embed.weight": t(5, 6), **{f"rnn.{k}_l0": t(*s) for k, s in shapes.items()}})
    image = OrderedDict({"fc.weight": t(8, 5), "fc.bias": t(8)})
    return {"model": [image, text], "opt": argparse.Namespace(margin=0.2)}


def saved(value: object, legacy: bool = False) -> bytes:
    torch.save(value, out := io.BytesIO(), _use_new_zipfile_serialization=not legacy)
    return out.getvalue()


def checked(folder: Path, layout: str = "folder") -> str:
    """What `check` says of a folder, which must not steer a terminal."""
    with contextlib.redirect_stdout(out := io.StringIO()):
        code = main(["check", layout, str(folder)])
    if any(not c.isprintable() and c not in "\n\t" for c in out.getvalue()):
        return "SILENT: control characters on the terminal"
    return "tolerated" if code == 0 else "clear error"


Read = Callable[[Path], object]


def fuzzed(face: str, base: dict[str, bytes], count: int, place: Path, read: Read, seed: int) -> Iterator[Case]:
    """`count` damaged copies of some files. read: gives one to the package; what it returns does not matter, because
    there is nothing that a file of others could be compared with."""
    rng, names = random.Random(f"{face}{seed}"), list(base)
    for n in range(count):
        name = names[n % len(names)]
        deed, raw = mutated(base[name], rng)
        path = place / f"{face}-{seed}-{n}" / name

        def act(path=path, raw=raw) -> str:
            answer = read(written(path, raw))
            return answer if isinstance(answer, str) else "tolerated"

        yield Case(face, f"{name}, {deed}", act)


def fuzz_cases(place: Path, count: int, seed: int = 0) -> list[Case]:
    """At least `count` damaged files over all kinds that are read from others."""
    pictures = {f"x.{kind.lower()}": picture(kind) for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")}
    vocabulary = json.dumps({"word2idx": WORDS, "idx2word": {str(n): w for w, n in WORDS.items()}, "idx": 5}).encode()
    pickles = {f"v{p}.pkl": pickle.dumps({"word2idx": WORDS}, p) for p in (0, 2, 4)}
    np.save(array := io.BytesIO(), np.ones((4, 3), np.float32))
    glove = b"dog 0.1 0.2 0.3\ncat 0.4 0.5 0.6\nsits 1 2 3\n"

    def look(path: Path) -> str:
        reason = inspect_image(path)
        read_image(path, 8)
        return "tolerated" if not reason else f"SILENT: check says {reason}, and it is read"

    def captions(path: Path) -> str:
        return checked(folder_of(path.parent, "a.jpg", "b.jpg", "c.jpg"))

    def karpathy(path: Path) -> str:
        folder_of(path.parent / "images", "a.jpg", "b.jpg", "c.jpg")
        return checked(path.parent, "flickr30k")

    lists = {"captions.csv": CSV, "captions.tsv": CSV.replace(b",", b"\t")}
    lists |= {name: LINES for name in ("captions.jsonl", "metadata.jsonl")}
    lists["captions_train.json"] = json.dumps(COCO).encode()
    checkpoints = {"a.pth": saved(official()), "b.pth": saved(official(), True)}
    kinds = [
        ("pictures", pictures, look),
        ("lists of captions", lists, captions),
        ("JSON of a collection", {"dataset_flickr30k.json": json.dumps(KARPATHY).encode()}, karpathy),
        ("vocabularies", {"v.json": vocabulary, **pickles}, read_vocabulary),
        ("checkpoints of authors", checkpoints, lambda path: load_official(path, "vse++")),
        ("arrays", {"x.npy": array.getvalue()}, lambda path: RowFile(path)[:]),
        ("word vectors", {"glove.txt": glove}, lambda path: load_word_vectors(path, ["dog", "cat"])),
        ("notebooks", {"x.ipynb": json.dumps(PARAMETERS).encode()}, declared_parameters),
    ]
    each = -(-count // len(kinds))
    return [case for face, base, read in kinds for case in fuzzed(face, base, each, place, read, seed)]


def bomb(width: int, height: int) -> bytes:
    """A small PNG that says it is large."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(bytes(10**6))), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def odd_files(place: Path) -> list[Case]:
    """Things that are no regular files, or that name other programs, in every place where a file is expected."""
    contents = {"EPS": EPS, "PDF": b"%PDF-1.4\n", "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'/>", "empty": b"",
                "bomb": bomb(30000, 30000), "huge": bomb(2**31 - 1, 2**31 - 1), "no pixels": bomb(0, 0)}  # fmt: skip
    makers: dict[str, Read] = {
        **{name: lambda path, raw=raw: written(path, raw) for name, raw in contents.items()},
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
        "missing": lambda path: None,
        **{f"link to {to}": lambda path, to=to: path.symlink_to(to) for to in ("/dev/zero", "nowhere")},
        "link to itself": lambda path: path.symlink_to(path.name),
    }
    readers: dict[str, tuple[str, Read]] = {
        "check, a picture": ("z.jpg", lambda path: checked(path.parent)),
        "check, captions": ("captions.csv", lambda path: checked(path.parent)),
        "read_image": ("z.jpg", read_image),
        "vocabulary": ("v.json", read_vocabulary),
        "checkpoint": ("a.pth", lambda path: load_official(path, "scan")),
        "array": ("x.npy", RowFile),
        "word vectors": ("g.txt", lambda path: load_word_vectors(path, ["dog"])),
        "notebook": ("n.ipynb", declared_parameters),
        "export": ("m.safetensors", load_method),
        "index": ("i", lambda path: main(["search", str(path), "a"])),
    }

    def given(kind: str, face: str) -> str:
        name, read = readers[face]
        path = folder_of(place / f"odd {list(makers).index(kind)} {face}", "a.jpg", "b.jpg") / name
        makers[kind](path)
        answer = read(path)
        return answer if isinstance(answer, str) else "clear error" if answer in (1, 2) else "SILENT: it was read"

    pairs = [(kind, face) for kind in makers for face in readers]
    cases = [Case("odd files", f"{kind}: {face}", partial(given, kind, face)) for kind, face in pairs]
    paths = ("~nosuchuser/x", "a\0b", "x" * 5000, "", "/dev/zero", "/proc/self/mem", "\udcff", "con\x1b[2J")
    return cases + [Case("odd paths", repr(path)[:30], partial(checked, Path(path))) for path in paths]
