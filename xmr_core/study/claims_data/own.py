"""What the study compares by itself: nested sets, after MetaEmbed, and pooling beside VSE++."""

from xmr_core.study.claims_data.claim import Claim, Measure


def nested(method: str, label: str) -> dict[str, tuple[str, dict]]:
    """One nested model, one that is not, and a model for each smaller number of elements."""
    smaller = {f"{label}, K={k}": (method, {"slots": k}) for k in (2, 1)}
    return {f"{label}, nested": (method, {"nested": True}), label: (method, {}), **smaller}


_ONE = Measure("RSUM annotated of the first 1", "annotated", "both", "rsum_first", k=1, factor=100)
_TWO = Measure("RSUM annotated of the first 2", "annotated", "both", "rsum_first", k=2, factor=100)
NESTED_PVSE = (
    Claim("pvse-nested-1", "ours, after MetaEmbed",
          "One element trained as a prefix beats the first one of a plain set (PVSE).", ("PVSE, nested",), ("PVSE",),
          _ONE, family="nested sets"),
    Claim("pvse-nested-2", "ours, after MetaEmbed",
          "Two elements trained as a prefix beat the first two of a plain set (PVSE).", ("PVSE, nested",), ("PVSE",),
          _TWO, family="nested sets"),
    Claim("pvse-nested-own", "ours, after MetaEmbed",
          "One element of a nested set beats a model of one element (PVSE).", ("PVSE, nested",), ("PVSE, K=1",), _ONE,
          family="nested sets"),
    Claim("pvse-nested-full", "ours, after MetaEmbed", "Nesting lowers the quality of the complete set (PVSE).",
          ("PVSE, nested",), ("PVSE",), smaller=True, family="nested sets"),
)  # fmt: skip
POOLING = (
    Claim("vse-infty-vsepp", "VSE∞, via VSE+2AD, Table 1",
          "Generalised pooling beats averaged cells and the maximum of words (VSE++).", ("VSE∞",), ("VSE++",)),
)  # fmt: skip
NESTED_DIVE = (
    Claim("dive-nested-1", "ours, after MetaEmbed",
          "One element trained as a prefix beats the first one of a plain set (DivE).", ("DivE, nested",), ("DivE",),
          _ONE, family="nested sets"),
    Claim("dive-nested-2", "ours, after MetaEmbed",
          "Two elements trained as a prefix beat the first two of a plain set (DivE).", ("DivE, nested",), ("DivE",),
          _TWO, family="nested sets"),
    Claim("dive-nested-own", "ours, after MetaEmbed",
          "One element of a nested set beats a model of one element (DivE).", ("DivE, nested",), ("DivE, K=1",), _ONE,
          family="nested sets"),
    Claim("dive-nested-full", "ours, after MetaEmbed", "Nesting lowers the quality of the complete set (DivE).",
          ("DivE, nested",), ("DivE",), smaller=True, family="nested sets"),
)  # fmt: skip
