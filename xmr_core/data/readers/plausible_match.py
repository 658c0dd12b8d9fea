"""Relevance by what is known of an item: of the same class, or showing nearly the same objects."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance

ZETAS = (0, 1, 2)  # PMRP is the mean over these


def plausible_match(
    codes: Int[np.ndarray, "i c"],
    image_of: Int[np.ndarray, " t"],
    zeta: int,
    labelled: Bool[np.ndarray, " i"] | None = None,
    caption_ids: Sequence | None = None,
    image_ids: Sequence | None = None,
) -> Relevance:
    """Captions as queries, images as gallery; relevant where the Hamming distance of their images' label codes is at most ζ.

    Args: codes: 1 where an image shows an object of a class, else 0. image_of: the image a caption was written for, whose
        code it has. zeta: how many classes may differ. labelled: False takes an image and its captions out, as queries
        and from the gallery (48 of COCO's 5,000 have no label); the ids of the result say who is left. Ids default to
        positions.
    Raises: BadInput for a negative ζ, codes other than 0 and 1, or shapes that do not fit.
    Source: Chun et al., CVPR 2021 (PCME), PMRP: the mean R-Precision over ζ = 0, 1, 2; METHODS §10.3.
    """
    codes, image_of = np.asarray(codes), np.asarray(image_of)
    labelled = np.ones(len(codes), bool) if labelled is None else np.asarray(labelled, bool)
    if zeta < 0:
        raise BadInput(f"ζ counts classes that may differ, so it must be 0 or more; got {zeta}. PMRP averages 0, 1 and 2.")
    if codes.ndim != 2 or not np.isin(codes, (0, 1)).all():
        raise BadInput(f"label codes are 0 or 1, images × classes; got an array of shape {codes.shape}, values {np.unique(codes)[:5]}.")
    if len(labelled) != len(codes) or (len(image_of) and not 0 <= image_of.min() <= image_of.max() < len(codes)):
        raise BadInput(f"{len(codes)} codes do not fit {len(labelled)} labels, or captions of images outside them.")
    images, captions = np.flatnonzero(labelled), np.flatnonzero(labelled[image_of])
    x = codes[images].astype(np.int32)
    near = x.sum(1)[:, None] + x.sum(1)[None] - 2 * x @ x.T <= zeta  # Hamming distance of 0/1 codes
    row = np.cumsum(labelled) - 1
    caption_ids = np.arange(len(image_of)) if caption_ids is None else np.asarray(caption_ids)
    image_ids = np.arange(len(codes)) if image_ids is None else np.asarray(image_ids)
    return Relevance.from_matrix(near[row[image_of[captions]]], caption_ids[captions], image_ids[images])


def same_class(
    query_class: Sequence, gallery_class: Sequence, query_ids: Sequence | None = None, gallery_ids: Sequence | None = None
) -> Relevance:
    """Every gallery item of the query's class is relevant (CUB). Ids default to positions. Source: METHODS §10.4."""
    query_class, gallery_class = np.asarray(query_class), np.asarray(gallery_class)
    ids = [np.arange(len(c)) if given is None else given for c, given in ((query_class, query_ids), (gallery_class, gallery_ids))]
    return Relevance.from_matrix(query_class[:, None] == gallery_class[None], *ids)
