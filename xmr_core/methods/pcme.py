"""PCME: every item a normal distribution. Mathematics: docs/methods/pcme.md."""

from dataclasses import dataclass
from functools import partial

from xmr_core.base.errors import BadInput
from xmr_core.encoders.image import PooledEncoder
from xmr_core.encoders.text import LOCALS
from xmr_core.heads.gaussian import SPREADS, GaussianHead, LinearGaussianHead
from xmr_core.losses.gaussian import FORMS, kl_to_normal, soft_contrastive, uniformity
from xmr_core.losses.objective import Objective
from xmr_core.methods.common import gru, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, Options, option
from xmr_core.similarities.gaussian import MatchLogit

_OBJECTIVES = ("soft_contrastive", "infonce", "siglip")


@dataclass(frozen=True)
class PCMEOptions(Options):
    """Options of PCME. scale and shift are 15 on COCO and 5 on CUB. From the authors' log_std_start = 0 the few epochs
    of a matched run go into shrinking σ. objective: 'soft_contrastive' is the paper's; the others read the log-odds,
    which spread as far as cosines over a temperature do, so temperature starts at 1."""

    d: int = option(128, "width of the joint space", least=1)
    samples: int = option(7, "samples of an item's distribution, J", least=1, most=10_000)
    spread: str = option("per dimension", "how many numbers σ has; 'none' keeps the mean only", choices=SPREADS)
    squash: bool = option(False, "sigmoid and LayerNorm on log σ, as on the mean")
    mean_attention: bool = option(True, "let the mean attend to local features", added=True)
    spread_attention: bool = option(True, "let σ attend to local features", added=True)
    plane: int = option(0, "width of linear heads; 0 for the paper's heads", least=0, form="matched", added=True)
    scale: float = option(5.0, "a of the match probability at the start", above=0)
    shift: float = option(5.0, "b of the match probability at the start")
    log_std_start: float = option(-3.0, "log σ at the start")
    objective: str = option("soft_contrastive", "loss on the scores", choices=_OBJECTIVES, form="matched", added=True)
    temperature: float = option(1.0, "of InfoNCE or SigLIP at the start", least=0.01, form="matched", added=True)
    text_local: str = option("words", "what the head of captions reads", choices=LOCALS, form="matched", added=True)
    kl: float = option(1e-5, "weight of the divergence from the standard normal", least=0)
    uniform: float = option(0.0, "weight of the uniformity loss", least=0)
    uniform_form: str = option("exact", "sum, or the authors' log-mean", choices=FORMS, form="matched", added=True)
    dropout: float = option(0.1, "share of features dropped in training", least=0, most=0.99, form="matched")


def _method(inputs: Inputs, o: PCMEOptions, form: str) -> Method:
    """A single mean (spread 'none') has no σ to keep from collapsing, and so no regulariser.

    Raises: BadInput for heads in few dimensions together with an option that only the paper's heads read.
    """
    if o.plane and (o.spread != "per dimension" or o.squash or not (o.mean_attention and o.spread_attention)):
        raise BadInput(f"plane={o.plane} takes linear heads; leave out spread, squash and the attentions.")
    common = {"samples": o.samples, "log_std_start": o.log_std_start}
    attention = {"mean_attention": o.mean_attention, "spread_attention": o.spread_attention}
    shape = {**common, **attention, "spread": o.spread, "squash": o.squash}
    if form == "matched":
        image, text = matched_encoders(inputs, o.d, o.dropout, local=o.text_local)
        if o.plane:
            heads = [LinearGaussianHead(o.d, o.plane, seed=seed, **common) for seed in (1, 2)]
        else:
            widths = {1: o.d, 2: text.local_width}
            heads = [GaussianHead(width, o.d, "global", seed=seed, **shape) for seed, width in widths.items()]
        spread_out = partial(uniformity, form=o.uniform_form)
        regularisers = {"kl": (o.kl, partial(kl_to_normal, form="exact")), "uniformity": (o.uniform, spread_out)}
    else:
        image = PooledEncoder(inputs.image_width, o.d)
        text = gru(inputs, o.d, summary="concatenate-last-token", dropout=0.0)
        heads = [GaussianHead(inputs.image_width, o.d, "pooled", seed=1, **shape)]
        heads.append(GaussianHead(inputs.word_dim, o.d, "gru", seed=2, **shape))
        regularisers = {"kl": (o.kl, kl_to_normal), "uniformity": (o.uniform, uniformity)}
    if o.spread == "none":
        regularisers = {}
    own = form == "published" or o.objective == "soft_contrastive"
    loss = Objective(soft_contrastive, regularisers) if own else matched_objective(o, regularisers)
    return Method("pcme", image, text, *heads, MatchLogit(o.scale, o.shift), loss)


def matched(inputs: Inputs, o: PCMEOptions) -> Method:
    """The common encoders with the paper's own loss, which asks every pair: that loss is what the paper is about."""
    return _method(inputs, o, "matched")


def published(inputs: Inputs, o: PCMEOptions) -> Method:
    """As the authors trained it: σ of captions from a second bi-GRU, regularisers in the official form
    (docs/differences.md#x-13, docs/differences.md#x-14)."""
    return _method(inputs, o, "published")


_CUB_OPTIONS = {"d": 512, "scale": 5.0, "shift": 5.0, "kl": 1e-3, "uniform": 10.0}
_SETTINGS = {"schedule": "cosine", "word_drop": 0.1, "word_rule": "pcme"}


SPEC = MethodSpec(
    id="pcme",
    label="PCME",
    summary="A mean and a σ per dimension; match probability over samples.",
    citation="Chun et al., CVPR 2021",
    options=PCMEOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024, "scale": 15.0, "shift": 15.0, "log_std_start": 0.0},
    settings={
        "coco": {"lr": 2e-4, "epochs": 30, **_SETTINGS},
        "cub": {"lr": 1e-4, "epochs": 10, **_SETTINGS, "batch_images": 150, "unit": "classes", **_CUB_OPTIONS},
    },
    untrained=("caption_encoder.rnn.weight_hh_l0_reverse", "caption_head.rnn.weight_hh_l0_reverse"),
)
