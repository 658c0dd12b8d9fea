"""Zhang, Shu et al., EACL 2023 (VSE+2AD): what is compared inside the method, and the paper's sentences."""

from xmr_study.claims.claim import Claim, Measure


def _variants(**options: dict) -> dict[str, tuple[str, dict]]:
    return {"VSE+2AD": ("vse+2ad", {})} | {f"VSE+2AD, {label}": ("vse+2ad", o) for label, o in options.items()}


def _poolings(**names: str) -> dict[str, tuple[str, dict]]:
    return _variants(**{label: {"pooling": name} for label, name in names.items()})


# Table 3. Without AdOpt the paper trains with the hardest negatives from the first step (its Appendix A.2).
_REMOVALS = _variants(**{
    "no token level": {"levels": "embedding"},
    "no embedding level": {"levels": "token"},
    "mean pooling": {"pooling": "mean"},
    "hardest triplet": {"objective": "triplet", "warmup_epochs": 0},
})  # fmt: skip
# Table 4 and Table A.1-1, all under AdOpt
_AGGREGATORS = _poolings(**{
    "LIP": "lip", "seq2seq": "seq2seq", "GCN": "gcn", "self-attention": "self-attention", "AdaPool": "adapool",
    "SoftPool": "softpool", "GPO": "gpo", "manual pooling": "manual",
})  # fmt: skip
_SIMPLE = _poolings(**{"mean pooling": "mean", "max pooling": "max", "5-max pooling": "k-max"})
_BALANCE = _variants(**{  # Table C-2
    **{f"ω={share}": {"balance": "fixed", "token_share": share} for share in (0.25, 0.5, 0.75)},
    "random ω": {"balance": "random"},
})  # fmt: skip
_OBJECTIVES = _variants(**{  # Figures A.2-1 and C-2; the second control has the warm-up epoch of VSE∞
    "hardest triplet": {"objective": "triplet", "warmup_epochs": 0},
    "triplet after a warm-up": {"objective": "triplet", "warmup_epochs": 1},
    "3 negatives": {"mode": "constant"},
    "random number of negatives": {"mode": "random"},
    "AdOpt of the paper": {"adopt": "paper"},
})  # fmt: skip
# The hardest negatives from the first step can stay at the hinge's plateau, and lose by that alone. This control has
# the warm-up that the study gives to every hinge: all negatives for a third of the epochs.
_LONG_WARM_UP = _variants(hinge={"objective": "triplet"})
ABLATIONS = {
    "removals": _REMOVALS,
    "aggregators": _AGGREGATORS,
    "simple poolings": _SIMPLE,
    "balance": _BALANCE,
    "objectives": _OBJECTIVES,
    "long warm-up": _LONG_WARM_UP,
}


def _negatives(d: str) -> tuple[Claim, ...]:
    falls = Measure(f"K per 128 candidates, untrained minus trained, {d}", "", d, "negatives_fall", counts=True)
    few = Measure(f"5.5 minus K per 128 candidates at the end, {d}", "", d, "negatives_below_5", counts=True)
    full, source, negatives = ("VSE+2AD",), "VSE+2AD, Figure C-2", "AdOpt's number of negatives"
    return (
        Claim(f"vse2ad-negatives-fall-{d}", source, f"{negatives} falls in training ({d}).", full, measure=falls),
        Claim(f"vse2ad-negatives-few-{d}", f"{source} (there after 5 epochs)",
              f"{negatives} ends no higher than the paper's 4 to 5 of 128 ({d}).", full, measure=few),
        Claim(f"vse2ad-negatives-settle-{d}", f"ours, after {source}",
              f"{negatives} ends no lower than the paper's 4 to 5 of 128 ({d}).", full, measure=few, smaller=True,
              family="VSE+2AD", bound=-2.0),
    )  # fmt: skip


CLAIMS = (
    Claim("vse2ad-gpo", "VSE+2AD, Table 1", "AdPool and AdOpt beat GPO.", ("VSE+2AD",), ("VSE∞",)),
    Claim("vse2ad-scan", "VSE+2AD, Table 1", "VSE+2AD beats SCAN.", ("VSE+2AD",), ("SCAN t-i", "SCAN i-t")),
    Claim("vse2ad-single", "VSE+2AD, Table 1", "VSE+2AD beats VSE++ and PVSE.", ("VSE+2AD",), ("VSE++", "PVSE")),
    Claim("vse2ad-removals", "VSE+2AD, Table 3", "Each of the four removals hurts.", ("VSE+2AD",),
          ("VSE+2AD, no token level", "VSE+2AD, no embedding level", "VSE+2AD, mean pooling",
          "VSE+2AD, hardest triplet", "VSE+2AD, hinge")),
    Claim("vse2ad-adopt-most", "VSE+2AD, Table 3", "Removing AdOpt hurts most.", ("VSE+2AD, no token level",
          "VSE+2AD, no embedding level", "VSE+2AD, mean pooling"), ("VSE+2AD, hardest triplet", "VSE+2AD, hinge")),
    Claim("vse2ad-aggregators", "VSE+2AD, Table 4", "AdPool beats eight other aggregators.", ("VSE+2AD",),
          ("VSE+2AD, LIP", "VSE+2AD, seq2seq", "VSE+2AD, GCN", "VSE+2AD, self-attention", "VSE+2AD, AdaPool",
          "VSE+2AD, SoftPool", "VSE+2AD, GPO", "VSE+2AD, manual pooling")),
    Claim("vse2ad-faster", "VSE+2AD, Figure A.2-1", "AdOpt learns faster than the hardest triplet.", ("VSE+2AD",),
          ("VSE+2AD, hardest triplet", "VSE+2AD, triplet after a warm-up"),
          Measure("validation RSUM after a tenth of the epochs", "annotated", "both", "rsum_after_a_tenth",
          factor=100)),
    *_negatives("i2t"),
    *_negatives("t2i"),
    Claim("vse2ad-balance", "VSE+2AD, Table C-2", "A learned balance beats fixed and random ones.", ("VSE+2AD",),
          ("VSE+2AD, ω=0.25", "VSE+2AD, ω=0.5", "VSE+2AD, ω=0.75", "VSE+2AD, random ω")),
    Claim("vse2ad-balance-random", "VSE+2AD, Table C-2", "Fixed balances beat a random one.",
          ("VSE+2AD, ω=0.25", "VSE+2AD, ω=0.5", "VSE+2AD, ω=0.75"), ("VSE+2AD, random ω",)),
)  # fmt: skip
