"""Flickr30K with Karpathy's splits."""

from pathlib import Path

from xmr_core.base.types import Corpus
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.karpathy import karpathy_tables
from xmr_core.data.readers.photographs import photograph_corpus

_IMAGE_FOLDERS = ("flickr30k-images", "flickr30k_images", "flickr30k_images/flickr30k_images", "images", "Images")


def load_flickr30k(data_root: Path | str, faults: Faults | None = None) -> Corpus:
    """Corpus of 31,014 photographs with five captions each: 29,000 to train, 1,014 val, 1,000 test.

    data_root holds the image folder and dataset_flickr30k.json (or a folder `annotations`, `karpathy`, `caption_datasets` or `splits`
    with it). image_id: the file name. caption_id: the sentid as text. Papers validate on the first 1,000 pictures of val, here are all.
    about: 'protocols', names of the protocols that fit the test split.
    Tolerated, counted, refused and raised: as karpathy_tables and photograph_corpus say.
    Source: Young et al., TACL 2014; splits of Karpathy & Fei-Fei, CVPR 2015; METHODS §1.2.
    """
    faults = faults or Faults()
    images, captions = karpathy_tables(data_root, "flickr30k", _IMAGE_FOLDERS, faults)
    fitting = ["flickr-1k"] if (images["split"] == "test").sum() == 1000 else []
    return photograph_corpus("flickr30k", images, captions, faults, about={"protocols": [*fitting, "full"]})
