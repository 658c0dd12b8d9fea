"""Whether a method keeps what training and evaluation rely on: one look at a small batch before hours are spent."""

from functools import partial

import torch

from xmr_core.base.errors import XmrError
from xmr_core.base.machine import as_a_run, own_random_numbers
from xmr_core.base.types import Batch, Tokens
from xmr_core.data.batches import Batches
from xmr_core.data.prepare import DataConfig, prepare
from xmr_core.evaluation.ranks import Scoring
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build, method_spec

_IMAGES, _CAPTIONS = 16, 2  # of the batch, captions per image
_LEEWAY = 1e-4  # of the largest score


def check_method(method: str, form: str = "matched", **options) -> list[str]:
    """What is wrong with a method, a sentence each; [] where nothing was found.

    On a batch of the smallest world: items have the same representation whenever they are encoded, padding has no say,
    scores are those of the pair alone, and a gradient reaches every parameter that is trained.

    method: an id or an address such as 'mymodule:SPEC'. options: of the method. What is found need not be a mistake:
    the published forms of DivE and VSE+2AD read padding because their authors do, and SGRAF has biases that cancel in a
    softmax, so that no gradient reaches them.
    Raises: BadInput for a method, a form or an option that is not there.

    >>> check_method("vse++", d=8)
    []
    """
    prepared = prepare(DataConfig(size="tiny"), progress=iter)
    batches, faults = Batches(prepared.splits["train"], _IMAGES, _CAPTIONS, 0), []
    batch = batches.batch(0, 0, batches.plan(0))
    with own_random_numbers("cpu"), as_a_run():
        torch.manual_seed(0)
        built = build(method, prepared.inputs, form, **options)
        for rule in (_scores, partial(_gradients, untrained=method_spec(method).untrained)):
            try:
                faults += rule(built, batch)
            except XmrError as e:
                faults.append(str(e))
    return list(dict.fromkeys(faults))


def _scores(method: Method, batch: Batch) -> list[str]:
    """Encoding twice gives the same, a caption alone scores as in its batch, and scores are those of the pair alone."""
    method.eval()
    score, faults, texts = method.similarity.score, [], batch.captions
    with torch.no_grad():
        images, captions = method.encode_images(batch.images), method.encode_captions(texts)
        scores = score(images, captions)
        if not torch.equal(score(method.encode_images(batch.images), method.encode_captions(texts)), scores):
            faults.append("items are encoded differently from call to call in eval mode; draw in training only.")
        lengths = texts.mask.sum(1)
        short = int(lengths.argmin())
        alone = Tokens(*(x[short : short + 1, : lengths[short]] for x in (texts.ids, texts.mask)))
        off = float((score(images, method.encode_captions(alone))[:, 0] - scores[:, short]).abs().max())
    if off > _LEEWAY * float(scores.abs().max()):
        faults.append(f"padding has a say: it changes scores by {off:.2g}. Leave out what is False in the mask.")
    try:
        _ = Scoring(method.similarity, images, captions).error
    except XmrError as e:
        faults.append(str(e))
    return faults


def _gradients(method: Method, batch: Batch, untrained: tuple[str, ...]) -> list[str]:
    """The loss has a finite gradient for every parameter."""
    method.train()
    loss, _, _ = method.loss(batch)
    if not loss.requires_grad:
        return ["the loss has no gradient; leave out .detach(), .item() and torch.no_grad on the way to it."]
    loss.backward()
    trained = {n: p.grad for n, p in method.named_parameters() if p.requires_grad and not n.startswith(untrained)}
    none = [name for name, grad in trained.items() if grad is None]
    wrong = [name for name, grad in trained.items() if grad is not None and not grad.isfinite().all()]
    faults = [f"no gradient reaches {none[0]} ({len(none)} in all)."] if none else []
    return faults + ([f"the gradient of {wrong[0]} ({len(wrong)} in all) is not finite."] if wrong else [])
