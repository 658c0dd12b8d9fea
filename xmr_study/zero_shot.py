"""Pretrained dual encoders (CLIP, SigLIP) as they are, under the same protocols as every trained method."""

from pathlib import Path

from xmr_core.data.config import DataConfig
from xmr_core.evaluation.evaluate import Evaluated
from xmr_core.models.load import load


def zero_shot_reference(source: Path | str, data: DataConfig, device: str = "auto") -> Evaluated:
    """The test split ranked by a CLIP- or SigLIP-style model as it is; nothing is trained, and nothing chosen on
    validation.

    source: a local folder or a hub name of transformers. The id names corpus and model by content.
    Raises: what xmr_core.load and Model.evaluate raise.

    >>> zero_shot_reference("no/such/folder", DataConfig(size="tiny"), device="tpu")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: unknown device 'tpu' ...
    """
    return load(source, device=device).evaluate(data)
