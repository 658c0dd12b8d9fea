"""Corpora of a hundred drawn images of 32 × 32 pixels, in the layouts that a user has on the disk."""

import csv
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from xmr_core.data.readers.folder import hash_split
from xmr_core.data.scenes import load_scenes

BIRDS = [f"{n:03d}.Bird_{n}" for n in range(1, 10)]  # six to train on, three for test
EACH = 12  # images of a bird
CORNERS = [(x, y) for y in (0, 8, 16) for x in (0, 8, 16)]  # upper left corners of the regions, 16 × 16 pixels each


def miniature(dataset: str, root: Path) -> Path:
    """Write the miniature of a data set below root; its data_root."""
    corpus = load_scenes("tiny")
    captions = corpus.captions.groupby("image_id", sort=False)["text"].agg(list)
    images = [Image.fromarray(x).resize((32, 32)) for x in corpus.read_pixels(range(len(corpus.images)))]
    root.mkdir(parents=True)
    write = {"folder": _folder, "flickr30k": _flickr30k, "coco": _coco, "cub": _cub, "precomputed": _precomputed}
    write[dataset](root, images, captions)
    return root


def _draw(image: Image.Image, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    image.save(file)


def _folder(root: Path, images: list, captions: pd.Series) -> None:
    """Photographs of a user's own: two or three captions an image, 14 images of test by the hash of their names."""
    names = [f"{n}.png" for n in range(10 * len(images))]
    test = [name for name in names if hash_split(name) == "test"][:14]
    names = sorted([name for name in names if hash_split(name) != "test"][: len(images) - 14] + test)
    with (root / "captions.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "caption"])
        for n, (name, image) in enumerate(zip(names, images, strict=True)):
            _draw(image, root / name)
            rows.writerows([name, text] for text in captions.iloc[n][: 2 + n % 2])


def _karpathy(root: Path, name: str, records: list[dict]) -> None:
    (root / f"dataset_{name}.json").write_text(json.dumps({"images": records, "dataset": name}))


def _record(n: int, texts: list[str], sentids: list[int] | None = None, **more) -> dict:
    both = zip(sentids or [5 * n + c for c in range(len(texts))], texts, strict=True)
    sentences = [{"tokens": text.lower().split(), "raw": text, "imgid": n, "sentid": own} for own, text in both]
    split = "test" if n % 4 == 0 else "val" if n % 8 == 1 else "train"
    return {"imgid": n, "split": split, "sentids": [s["sentid"] for s in sentences], "sentences": sentences, **more}


def _flickr30k(root: Path, images: list, captions: pd.Series) -> None:
    _karpathy(root, "flickr30k", [_record(n, texts, filename=f"{n}.jpg") for n, texts in enumerate(captions)])
    for n, image in enumerate(images):
        _draw(image, root / "flickr30k-images" / f"{n}.jpg")


def _coco(root: Path, images: list, captions: pd.Series) -> None:
    """With labels of instances, from which plausible matches come, and ids that ECCV Caption and CxC have judged."""
    files = [f"COCO_val2014_{n:012d}.jpg" for n in range(len(images))]
    ids = _judged_ids(len(images))
    more = [{"filename": file, "filepath": "val2014", "cocoid": i} for file, (i, _) in zip(files, ids, strict=True)]
    records = [_record(n, texts, ids[n][1][: len(texts)], **more[n]) for n, texts in enumerate(captions)]
    _karpathy(root, "coco", records)
    for file, image in zip(files, images, strict=True):
        _draw(image, root / "val2014" / file)
    twice = [i for i, _ in ids for _ in range(2)]
    labels = [{"id": n, "image_id": i, "category_id": 1 + n % 5, "iscrowd": 0} for n, i in enumerate(twice)]
    content = {
        "images": [{"id": i, "file_name": file} for file, (i, _) in zip(files, ids, strict=True)],
        "annotations": labels,
        "categories": [{"id": n, "supercategory": "thing", "name": f"thing {n}"} for n in range(1, 91)],
    }
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_val2014.json").write_text(json.dumps(content))


def _precomputed(root: Path, images: list, captions: pd.Series) -> None:
    """Regions as SCAN's files have them, and their boxes in pixels: a region is the 4 × 4 mean colours of a box.

    An image has one row in train, and five equal ones in dev and testall.
    """
    boxes = np.array([(x, y, x + 16, y + 16) for x, y in CORNERS], np.float32)
    crops = [[image.resize((4, 4), Image.Resampling.BOX, box=tuple(box)) for box in boxes] for image in images]
    regions = np.array([[np.asarray(crop, np.float32).reshape(-1) / 255 for crop in row] for row in crops])
    split = np.array(["testall" if n % 4 == 0 else "dev" if n % 8 == 1 else "train" for n in range(len(images))])
    for stem in ("train", "dev", "testall"):
        chosen = np.flatnonzero(split == stem)
        rows = chosen if stem == "train" else chosen.repeat(5)
        np.save(root / f"{stem}_ims.npy", regions[rows])
        np.save(root / f"{stem}_boxes.npy", np.broadcast_to(boxes, (len(rows), *boxes.shape)))
        (root / f"{stem}_caps.txt").write_text("".join(f"{t}\n" for n in chosen for t in captions.iloc[n][:5]))


def _judged_ids(n: int) -> list[tuple[int, list[int]]]:
    """(image id, its caption ids) of n of COCO's test images that were judged, where eccv_caption is installed."""
    package = find_spec("eccv_caption")
    if package is None:
        return [(i, [5 * i + c for c in range(5)]) for i in range(n)]
    folder = Path(package.origin).parent / "data"
    paths = (folder / f"{kind}_image_to_caption.json" for kind in ("original", "eccv"))
    captions, judged = (json.loads(path.read_text()) for path in paths)
    return [(int(i), captions[i]) for i in list(judged) if len(captions[i]) >= 5][:n]


def _cub(root: Path, images: list, captions: pd.Series) -> None:
    """The archives as they unpack, side by side, and PCME's lists of classes; ten captions an image."""
    names = [f"{bird}/{bird[4:]}_{n:04d}.jpg" for bird in BIRDS for n in range(EACH)]

    def write(file: str, lines: list[str]) -> None:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("".join(f"{line}\n" for line in lines))

    for n, name in enumerate(names):
        _draw(images[n], root / "CUB_200_2011" / "images" / name)
        write(f"cvpr2016_cub/text_c10/{name[:-4]}.txt", [f"{start} {text}" for start in ("this is", "we see")
                                                         for text in captions.iloc[n]])  # fmt: skip
    write("CUB_200_2011/images.txt", [f"{n} {name}" for n, name in enumerate(names, 1)])
    write("CUB_200_2011/image_class_labels.txt", [f"{n + 1} {1 + n // EACH}" for n in range(len(names))])
    write("CUB_200_2011/classes.txt", [f"{n} {bird}" for n, bird in enumerate(BIRDS, 1)])
    write("annotations/cub/trainvalclasses.txt", BIRDS[:6])
    write("annotations/cub/testclasses.txt", BIRDS[6:])
    write("annotations/cub/trainclasses1.txt", BIRDS[:5])
    write("annotations/cub/valclasses1.txt", BIRDS[5:6])
    write("annotations/cub/seen_test_images.txt", names[::20][:3])
