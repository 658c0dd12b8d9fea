"""What the paper of VSE+2AD compares inside its method, and the rules that decide its sentences."""

from collections.abc import Mapping

from xmr_core.methods.claim import Claim, Measure

Variant = tuple[str, Mapping[str, object]]  # (id of a method, its options), as in methods.spec, which needs this file
FULL = "VSE+2AD"


def _variants(**options: Mapping[str, object]) -> dict[str, Variant]:
    return {FULL: ("vse+2ad", {})} | {f"{FULL}, {label}": ("vse+2ad", o) for label, o in options.items()}


# Table 3. Without AdOpt the paper trains with the hardest negatives from the first step (its Appendix A.2).
_REMOVALS = _variants(**{
    "no token level": {"levels": "embedding"},
    "no embedding level": {"levels": "token"},
    "mean pooling": {"pooling": "mean"},
    "hardest triplet": {"objective": "triplet", "warmup_epochs": 0},
})  # fmt: skip
# Table 4 and Table A.1-1, all under AdOpt
_AGGREGATORS = _variants(**{
    "LIP": {"pooling": "lip"},
    "seq2seq": {"pooling": "seq2seq"},
    "GCN": {"pooling": "gcn"},
    "self-attention": {"pooling": "self-attention"},
    "AdaPool": {"pooling": "adapool"},
    "SoftPool": {"pooling": "softpool"},
    "GPO": {"pooling": "gpo"},
    "manual pooling": {"pooling": "manual"},
})  # fmt: skip
_SIMPLE = _variants(**{
    "mean pooling": {"pooling": "mean"},
    "max pooling": {"pooling": "max"},
    "5-max pooling": {"pooling": "k-max"},
})  # fmt: skip
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

EARLY = Measure("validation RSUM after a tenth of the epochs", "annotated", "both", "rsum_after_a_tenth", factor=100)


def _negatives(d: str) -> dict[str, Measure]:
    """K of AdOpt for queries of one direction, for rows of 128 candidates, as in the paper."""
    return {
        "falls": Measure(f"K per 128 candidates, untrained minus trained, {d}", "", d, "negatives_fall", counts=True),
        "few": Measure(f"5.5 minus K per 128 candidates at the end, {d}", "", d, "negatives_below_5", counts=True),
    }


def _others(table: Mapping[str, Variant]) -> tuple[str, ...]:
    return tuple(label for label in table if label != FULL)


def _claims() -> tuple[Claim, ...]:
    full, triplet, random = (FULL,), (f"{FULL}, hardest triplet",), (f"{FULL}, random ω",)
    short, long = (f"{FULL}, triplet after a warm-up",), _others(_LONG_WARM_UP)
    pooling = tuple(label for label in _others(_REMOVALS) if label not in triplet)
    fixed = tuple(label for label in _others(_BALANCE) if label not in random)
    table_1, table_3, balance = "VSE+2AD, Table 1", "VSE+2AD, Table 3", "VSE+2AD, Table C-2"

    def negatives(d: str) -> tuple[Claim, ...]:
        falls, few, settle = (
            f"AdOpt's number of negatives falls in training ({d}).",
            f"AdOpt's number of negatives ends no higher than the paper's 4 to 5 of 128 ({d}).",
            f"AdOpt's number of negatives ends no lower than the paper's 4 to 5 of 128 ({d}).",
        )
        source, measure = "VSE+2AD, Figure C-2", _negatives(d)
        after, ours = f"{source} (there after 5 epochs)", f"ours, after {source}"
        return (
            Claim(f"vse2ad-negatives-fall-{d}", source, falls, full, (), measure["falls"]),
            Claim(f"vse2ad-negatives-few-{d}", after, few, full, (), measure["few"]),
            Claim(f"vse2ad-negatives-settle-{d}", ours, settle, full, (), measure["few"], smaller=True, bound=-2.0,
                  family=FULL),
        )  # fmt: skip

    return (
        Claim("vse2ad-gpo", table_1, "AdPool and AdOpt beat GPO.", full, ("VSE∞",)),
        Claim("vse2ad-scan", table_1, "VSE+2AD beats SCAN.", full, ("SCAN t-i", "SCAN i-t")),
        Claim("vse2ad-single", table_1, "VSE+2AD beats VSE++ and PVSE.", full, ("VSE++", "PVSE")),
        Claim("vse2ad-removals", table_3, "Each of the four removals hurts.", full, (*_others(_REMOVALS), *long)),
        Claim("vse2ad-adopt-most", table_3, "Removing AdOpt hurts most.", pooling, (*triplet, *long)),
        Claim("vse2ad-aggregators", "VSE+2AD, Table 4", "AdPool beats eight other aggregators.", full,
              _others(_AGGREGATORS)),
        Claim("vse2ad-faster", "VSE+2AD, Figure A.2-1", "AdOpt learns faster than the hardest triplet.", full,
              (*triplet, *short), EARLY),
        *(claim for d in ("i2t", "t2i") for claim in negatives(d)),
        Claim("vse2ad-balance", balance, "A learned balance beats fixed and random ones.", full, (*fixed, *random)),
        Claim("vse2ad-balance-random", balance, "Fixed balances beat a random one.", fixed, random),
    )  # fmt: skip


CLAIMS = _claims()
