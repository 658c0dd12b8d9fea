"""What the study compares by itself: nested sets, after MetaEmbed, and pooling beside VSE++."""

from xmr_study.claims.claim import Claim, Measure


def nested(method: str, label: str) -> dict[str, tuple[str, dict]]:
    """One nested model, one that is not, and a model for each smaller number of elements."""
    smaller = {f"{label}, K={k}": (method, {"slots": k}) for k in (2, 1)}
    return {f"{label}, nested": (method, {"nested": True}), label: (method, {}), **smaller}


_ONE = Measure("RSUM annotated of the first 1", "annotated", "both", "rsum_first", k=1, factor=100)
_TWO = Measure("RSUM annotated of the first 2", "annotated", "both", "rsum_first", k=2, factor=100)
POOLING = (
    Claim("vse-infty-vsepp", "VSE∞, via VSE+2AD, Table 1",
          "Generalised pooling beats averaged cells and the maximum of words (VSE++).", ("VSE∞",), ("VSE++",)),
)  # fmt: skip
CAPACITY = (  # fixed before their rows; the verdicts of the protocol before know nothing of them
    Claim("capacity-storage", "ours", "One vector of the storage of DivE's set beats the set.", ("VSE∞, 4 × wider",),
          ("DivE",), family="capacity"),
    Claim("capacity-cost", "ours, against DivE, App. B.1", "One vector of DivE's cost of scoring beats the set.",
          ("VSE∞, 16 × wider",), ("DivE",), family="capacity"),
    Claim("capacity-one", "ours", "At the storage of one vector, the vector beats the set.", ("VSE∞",),
          ("DivE, 4 × 16",), family="capacity"),
)  # fmt: skip


def nested_claims(method: str, label: str) -> tuple[Claim, ...]:
    """A family of their own, so that they change no number of the papers' claims."""
    nested, plain, one = (f"{label}, nested",), (label,), (f"{label}, K=1",)
    source, family = "ours, after MetaEmbed", "nested sets"
    return (
        Claim(f"{method}-nested-1", source,
              f"One element trained as a prefix beats the first one of a plain set ({label}).", nested, plain, _ONE,
              family=family),
        Claim(f"{method}-nested-2", source,
              f"Two elements trained as a prefix beat the first two of a plain set ({label}).", nested, plain, _TWO,
              family=family),
        Claim(f"{method}-nested-own", source, f"One element of a nested set beats a model of one element ({label}).",
              nested, one, _ONE, family=family),
        Claim(f"{method}-nested-full", source, f"Nesting lowers the quality of the complete set ({label}).", nested,
              plain, smaller=True, family=family),
    )  # fmt: skip
