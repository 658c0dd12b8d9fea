"""Any text model of transformers as a frozen extractor of word-piece states."""

import json
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.data.features.model_folder import find_pretrained, library
from xmr_core.data.features.pretrained import Source, architecture, load_pretrained, tower_config
from xmr_core.data.features.word_pieces import word_pieces

_TOKENS = 4096  # of one batch, padding included


class PretrainedStates:
    """Frozen text model: captions → the last state of each word piece, special ones included, "l e" in half precision.

    Captions of similar length are read together, about 4,096 word pieces at a time, so that little padding is computed.

    Args: source: folder or hub name. max_length: word pieces of a caption at most. device: where it computes.
    Raises: BadInput as load_pretrained and word_pieces do.

    Example: `PretrainedStates("bert-base-uncased")(["a dog runs"])[0]` is "5 768".
    """

    def __init__(self, source: Source, max_length: int = 64, device: torch.device | str | None = None):
        loaded = load_pretrained(source, "text")
        self.pieces = word_pieces(loaded.folder, max_length)
        self.net = loaded.model.requires_grad_(False)
        self.to(device)
        self.width = loaded.config.hidden_size
        self.identity = f"states-1-{self.pieces.identity}-{loaded.folder.identity}"

    def to(self, device: torch.device | str | None) -> None:
        """Compute on another device from now on; None for where the model is."""
        self.net = self.net.to(device)
        self.device = next(self.net.parameters()).device

    def __call__(self, texts: Sequence[str], progress: Callable | None = None) -> list[Float[np.ndarray, "l e"]]:
        """States of each caption. progress: wraps the batches. Raises: BadInput for states beyond half precision."""
        tokens, _ = self.pieces(texts)
        lengths = tokens.mask.sum(1).numpy()
        out: list[np.ndarray] = [np.empty((0, self.width), np.float16)] * len(lengths)
        for rows in (progress or iter)(by_length(lengths, _TOKENS)):
            longest, part = int(lengths[rows[-1]]), tokens[torch.from_numpy(rows)].to(self.device)
            with torch.inference_mode():
                mask = part.mask[:, :longest].long()
                states = self.net(input_ids=part.ids[:, :longest], attention_mask=mask).last_hidden_state
            for row, values in zip(rows, states.half().cpu().numpy(), strict=True):
                out[row] = values[: lengths[row]].copy()
                if not np.isfinite(out[row]).all():
                    raise BadInput(f"states of caption {row} are not finite in half precision; check the weights.")
        return out


def by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Row numbers in batches of similar length, ascending; rows × longest ≤ budget, or a single row.

    >>> by_length(np.array([3, 9, 2]), 6)
    [array([2, 0]), array([1])]
    """
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - start + 1) * lengths[order[end]] > budget:
            batches.append(order[start:end])
            start = end
    return batches


def describe_text(source: Source) -> str:
    """JSON of all that encoders.TextBackbone needs to build a network, except its weights.

    A model that reads from left to right (CLIP's text tower, GPT) is summarised by its last piece, the only one that
    has seen the whole caption. Others name no summary.
    """
    kind, summary = type(tower_config(find_pretrained(source), "text")), {}
    decodes = kind in library().MODEL_FOR_CAUSAL_LM_MAPPING and kind not in library().MODEL_FOR_MASKED_LM_MAPPING
    if kind.model_type == "clip_text_model" or (decodes and kind.model_type != "bert-generation"):
        summary = {"summary": "last"}
    return json.dumps({"architecture": architecture(source, "text"), **summary}, sort_keys=True)
