"""Flickr30K with Karpathy's splits."""

from pathlib import Path

from xmr_core.base.types import Corpus
from xmr_core.data.readers.assembly import photograph_corpus
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.karpathy import karpathy_tables

_PLACES = ("flickr30k-images", "flickr30k_images", "flickr30k_images/flickr30k_images", "images", "Images")


def load_flickr30k(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of 31,014 photographs with five captions each: 29,000 to train, 1,014 val, 1,000 test.

    The files in data_root are described in docs/data.md#data-flickr30k. image_id: the file name. caption_id: the sentid
    as text. Papers validate on the first 1,000 images of val; here val holds all of them.
    about: 'protocols' that fit the test split.
    Tolerated, refused, raised: as in karpathy_tables and photograph_corpus.
    Source: Young et al., TACL 2014; splits of Karpathy & Fei-Fei, CVPR 2015.
    >>> load_flickr30k("/nowhere")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: data_root of flickr30k not found: /nowhere does not exist. Give the right path.
    """
    faults = faults or FaultLog()
    images, captions = karpathy_tables(data_root, "flickr30k", _PLACES, faults)
    fitting = ["flickr-1k"] if (images["split"] == "test").sum() == 1000 else []
    return photograph_corpus("flickr30k", images, captions, faults, about={"protocols": [*fitting, "full"]})
