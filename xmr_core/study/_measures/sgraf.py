"""Which words the filtration of SGRAF trusts."""

import numpy as np
import pandas as pd
import torch

from xmr_core.data.scenes import content_words
from xmr_core.data.text.tokenisers import rule
from xmr_core.evaluation.analysis.attention import content_preference
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.evaluation.stats import image_error
from xmr_core.training.runs import TrainedRun

_BEFORE = 2  # nodes before the words: the global vectors and <start>


def content_weight(run: TrainedRun) -> pd.DataFrame:
    """How much more a word of content weighs in SAF than another word of its caption, beside the caption's own image:
    the mean of content_preference over the captions of the test split, with its error.

    Not a number where no list of such words is known (another corpus than scenes) or captions are no words.
    """
    split, words = run.prepared().splits["test"], run.prepared().vocabulary
    values = np.full(len(split.caption_rows), np.nan)
    if run.config.data.dataset == "scenes" and words is not None:
        method, content = run.method(), content_words()
        images, captions = encode_split(method, split)
        texts = run.prepared().corpus.captions["text"].iloc[split.caption_rows]
        kinds = [[word in content for word in rule(words.tokeniser)(text)] for text in texts]
        for image in np.unique(split.owners):
            own = np.flatnonzero(split.owners == image)
            with torch.inference_mode():
                beta = method.similarity.element_weights(images[int(image)], captions[torch.from_numpy(own)])["SAF"][0]
            values[own] = content_preference(beta, *_kinds(beta, [kinds[t] for t in own])).numpy()
    valid = values[~np.isnan(values)]
    value = float(valid.mean()) if len(valid) else float("nan")
    rows = [("", "captions", "saf_content_weight", 0, value, len(valid))]
    if len(valid) > 1:
        error = image_error([(valid, split.owners[~np.isnan(values)])])
        rows.append(("", "captions", "saf_content_weight_error", 0, error, len(valid)))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def _kinds(nodes: torch.Tensor, kinds: list[list[bool]]) -> tuple[torch.Tensor, torch.Tensor]:
    """(node is a word, node is a word of content) of each caption, "t n"."""
    words, content = torch.zeros_like(nodes, dtype=torch.bool), torch.zeros_like(nodes, dtype=torch.bool)
    for t, own in enumerate(kinds):
        words[t, _BEFORE : _BEFORE + len(own)] = True
        content[t, _BEFORE : _BEFORE + len(own)] = torch.tensor(own)
    return words, content
