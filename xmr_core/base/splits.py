"""The splits of a corpus: one is learned from, one chooses, and one decides."""

SPLITS = ("train", "val", "test")
