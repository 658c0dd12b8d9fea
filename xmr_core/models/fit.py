"""Training on one's own numbers in one call."""

from collections.abc import Callable, Mapping, Sequence

from xmr_core.base.errors import BadInput
from xmr_core.base.machine import resolve_device
from xmr_core.data.corpora import config_for, from_arrays
from xmr_core.models.load import model_of
from xmr_core.models.model import Model
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.train_run import silent, train_or_load


def fit(
    method: str = "dive",
    *,
    images,
    captions: Sequence[str],
    image_of: Sequence[int] | None = None,
    splits: Sequence[str] | Mapping[str, float] | None = None,
    name: str = "arrays",
    ordered: bool = False,
    device: str = "auto",
    report: Callable[[dict], None] | None = None,
    **changes,
) -> Model:
    """Train any method on features of images and on sentences in memory; returns the model, as `xmr.load` does.

    method: an id ('dive') or an address ('mypackage.mine:SPEC'). images: floating-point features, numpy or torch,
        "n l e" (l local elements of each image) or "n e" (one vector of each image). captions: texts. image_of: for
        each caption the row of its image; None: caption j describes image j. splits, name, ordered: see
        `data.from_arrays`.
    device: as torch names it; 'auto' takes an accelerator where there is one. report: see `training.train`.
    changes: options of the method and fields of RunConfig, TrainConfig and DataConfig, such as d=256, epochs=20,
        lr=5e-4, batch_images=64, word_vectors='glove.6B.50d.txt'.
    The run is stored like any other: the same call loads it. Its id is `model.about["run"]`, its results on the test
    split are `model.about["results"]`. The model encodes features of other images and any sentences.
    Raises: BadInput before any work, for arrays that `from_arrays` refuses or an unknown name in changes; what
        training raises.

    >>> import numpy as np
    >>> features, sentences = np.random.default_rng(0).normal(size=(20, 3, 8)), ["a dog", "two cats"] * 10
    >>> model = fit("vse++", images=features, captions=sentences, d=8, epochs=1, batch_images=8, device="cpu")
    >>> model.similarity(features[:2], ["a dog", "a cat", "two dogs"]).shape
    torch.Size([2, 3])
    """
    corpus = from_arrays(images, captions, image_of, splits, name, ordered)
    data = config_for(corpus)
    if unread := data.unread(changes):
        raise BadInput(
            f"leave out {', '.join(unread)}: the features and captions that were given are all that is read."
        )
    config = RunConfig(data=data, method=method, device=resolve_device(device)).replace(**changes)
    return model_of(train_or_load(config, report or silent))
