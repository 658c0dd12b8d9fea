"""Tiny folders in the layout of Karpathy's split files, for tests to spoil."""

import json

from PIL import Image

from xmr_core.data.readers.assembly import FaultLog
from xmr_core.data.readers.official import load_coco, load_flickr30k

SPLITS = ("test", "train", "val", "restval", "test", "test", "train")  # in no order, as in the real file


def record(n: int, split: str, name: str, sentences: int = 5, **more) -> dict:
    texts = [f"A dog number {n} runs in way {c} ." for c in range(sentences)]
    ids = [100 * n + 9 - c for c in range(sentences)]  # ids neither ascend nor start at 0
    return {
        "sentids": ids, "imgid": n, "split": split, "filename": name,
        "sentences": [{"tokens": t.lower().split(), "raw": t, "imgid": n, "sentid": i}
                      for t, i in zip(texts, ids, strict=True)], **more,
    }  # fmt: skip


def draw(file) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (sum(file.name.encode()) % 256, 9, 0)).save(file)


class Folder:
    """A data_root whose JSON a test may alter before it loads it."""

    def __init__(self, root, name: str, records: list[dict]):
        self.root, self.name, self.records = root, name, records
        self.json = root / f"dataset_{name}.json"

    def load(self, faults: FaultLog | None = None):
        self.json.write_text(json.dumps({"images": self.records, "dataset": self.name}))
        return self.read(faults)

    def read(self, faults: FaultLog | None = None):
        return {"coco": load_coco, "flickr30k": load_flickr30k}[self.name](self.root, faults)


def coco_record(n: int, split: str, cocoid: int, sentences: int = 5) -> dict:
    year = "train2014" if split == "train" else "val2014"
    return record(n, split, f"COCO_{year}_{cocoid:012d}.jpg", sentences, filepath=year, cocoid=cocoid)


def flickr_folder(root) -> Folder:
    """Seven images of Flickr30K."""
    records = [record(n, split, f"{n}.jpg") for n, split in enumerate(SPLITS)]
    for r in records:
        draw(root / "flickr30k-images" / r["filename"])
    return Folder(root, "flickr30k", records)


def coco_folder(root) -> Folder:
    """Seven images of COCO, ids 900 down to 894; the second has seven sentences."""
    records = [coco_record(n, split, 900 - n, 7 if n == 1 else 5) for n, split in enumerate(SPLITS)]
    for r in records:
        draw(root / r["filepath"] / r["filename"])
    return Folder(root, "coco", records)
