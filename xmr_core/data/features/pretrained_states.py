"""Any text model of transformers as a frozen extractor of word-piece states."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.data.features.pretrained import architecture, load_pretrained
from xmr_core.data.features.word_pieces import word_pieces

_TOKENS = 4096  # of one batch, padding included


class PretrainedStates:
    """Frozen text model: captions → the last state of each word piece, special ones included, "l e" in half precision.

    Captions of similar length are read together, about 4,096 word pieces at a time, so that little padding is computed.

    Args: source: folder or hub name. max_length: word pieces of a caption at most. device: where it computes.
    Raises: BadInput as load_pretrained and word_pieces do.
    """

    def __init__(self, source: Path | str, max_length: int = 64, device: torch.device | str | None = None):
        loaded = load_pretrained(source, "text")
        self.pieces = word_pieces(loaded.found, max_length)
        self.net, self.device = loaded.model.to(device).requires_grad_(False), device
        self.width = loaded.config.hidden_size
        self.identity = f"states-1-{self.pieces.identity}-{loaded.found.identity}"

    def __call__(self, texts: Sequence[str], progress: Callable | None = None) -> list[Float[np.ndarray, "l e"]]:
        """States of each caption. progress: wraps the batches. Raises: BadInput for states that are not finite in half precision."""
        tokens, _ = self.pieces(texts)
        lengths = tokens.mask.sum(1).numpy()
        found: list[np.ndarray] = [np.empty((0, self.width), np.float16)] * len(lengths)
        batches = by_length(lengths, _TOKENS)
        for rows in progress(batches) if progress else batches:
            longest, part = int(lengths[rows[-1]]), tokens[torch.from_numpy(rows)]
            with torch.inference_mode():
                ids, mask = part.ids[:, :longest].to(self.device), part.mask[:, :longest].to(self.device)
                states = self.net(input_ids=ids, attention_mask=mask.long()).last_hidden_state.half().cpu().numpy()
            for at, row in enumerate(rows):
                found[row] = states[at, : lengths[row]].copy()
                if not np.isfinite(found[row]).all():
                    raise BadInput(f"states of caption {row} are not finite in half precision; look at the caption and the weights.")
        return found


def by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Row numbers in batches of similar length, ascending; rows × longest ≤ budget, or a single row."""
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    for at in range(1, len(order) + 1):
        if at == len(order) or (at - start + 1) * lengths[order[at]] > budget:
            batches.append(order[start:at])
            start = at
    return batches


def describe_text(source: Path | str) -> str:
    """JSON of everything that TextBackbone needs to build a network, but its weights."""
    return json.dumps({"architecture": architecture(source, "text")}, sort_keys=True)
