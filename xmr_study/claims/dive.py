"""Kim, Kim & Kwak, CVPR 2023 (DivE): what is compared inside the method, and the paper's sentences."""

from xmr_study.claims.claim import VARIANCE, Claim, Measure, correlation

SWEEPS = {  # Table 4
    "alpha": ("α", (1, 2, 4, 8, 16, 32, 64)),
    "slots": ("K", tuple(range(1, 7))),
    "iterations": ("T", tuple(range(1, 7))),
}
_SIMILARITY = {  # Table 3, with the single vector below it
    "single vector": ("vse++", {}),
    "MIL, slots": ("dive", {"similarity": "mil"}),
    "MP, slots": ("dive", {"similarity": "mp"}),
    "Chamfer, slots": ("dive", {"similarity": "chamfer"}),
    "smooth-Chamfer, PIE-Net": ("dive", {"head": "pie-net"}),
    "smooth-Chamfer, transformer": ("dive", {"head": "transformer"}),
    "smooth-Chamfer, slots": ("dive", {}),
}
_CHANGES = {
    "sampled slots": {"query": "sampled"},
    "GRU update": {"update": "gru"},
    "without global feature": {"use_global": False},
}
_SLOT_ATTENTION = {  # App. B.3: what DivE changed in slot attention, taken back one by one and all at once
    "slots as in the paper": ("dive", {}),
    **{name: ("dive", change) for name, change in _CHANGES.items()},
    "all three changes off": ("dive", {name: value for change in _CHANGES.values() for name, value in change.items()}),
}
_COST = {  # App. B.1: K² = 16 cosines of width D cost what one cosine of width 16 D costs
    "DivE": ("dive", {}),
    "VSE∞": ("vse-infty", {}),
    "VSE∞, 16 × wider": ("vse-infty", {"widen": 16}),
}
_CAPACITY = {  # sets beside one vector of their storage and cost, and many narrow elements beside few wide ones
    **_COST,
    "VSE∞, 4 × wider": ("vse-infty", {"widen": 4}),
    "VSE+2AD": ("vse+2ad", {}),
    "VSE+2AD, 4 × wider": ("vse+2ad", {"widen": 4}),
    "DivE, 4 × 16": ("dive", {"widen": 0.25}),
    "DivE, 1 × 256": ("dive", {"slots": 1, "widen": 4}),
    "DivE, 2 × 128": ("dive", {"slots": 2, "widen": 2}),
    "DivE, 8 × 32": ("dive", {"slots": 8, "widen": 0.5}),
}
ABLATIONS = {"similarity": _SIMILARITY, "slot attention": _SLOT_ATTENTION, "cost": _COST, "capacity": _CAPACITY}

_SAME_SLOT = Measure(
    "elements whose nearest other element is of the same slot, %", "", "", "same_slot_share", factor=100
)
_BOTH = ("i2t", "t2i")
CLAIMS = (
    Claim("dive-sets", "DivE, Tables 1 and 2", "A set (DivE) beats a single vector (VSE++) under the same encoders.",
          ("smooth-Chamfer, slots",), ("single vector",)),
    Claim("dive-similarity", "DivE, Table 3", "Smooth-Chamfer beats MIL, MP and Chamfer under the same encoders.",
          ("smooth-Chamfer, slots",), ("MIL, slots", "MP, slots", "Chamfer, slots")),
    Claim("dive-smooth-mp", "DivE, Table 3", "Smooth-Chamfer beats match probability.", ("smooth-Chamfer, slots",),
          ("MP, slots",)),
    Claim("dive-smooth-mil", "DivE, Table 3", "Smooth-Chamfer beats MIL.", ("smooth-Chamfer, slots",), ("MIL, slots",)),
    Claim("dive-chamfer-mil", "DivE, Table 3", "Chamfer beats MIL.", ("Chamfer, slots",), ("MIL, slots",)),
    Claim("dive-slots", "DivE, Table 3", "Slots beat PIE-Net and a transformer as makers of sets.",
          ("smooth-Chamfer, slots",), ("smooth-Chamfer, PIE-Net", "smooth-Chamfer, transformer")),
    *(Claim(f"dive-collapse-mp-{m}", "DivE, Table 3, right",
            f"Match probability makes narrower sets than smooth-Chamfer ({m}).", ("smooth-Chamfer, slots",),
            ("MP, slots",), VARIANCE[m]) for m in VARIANCE),
    *(Claim(f"dive-collapse-pie-net-{m}", "DivE, Table 3, right", f"PIE-Net makes narrower sets than slots ({m}).",
            ("smooth-Chamfer, slots",), ("smooth-Chamfer, PIE-Net",), VARIANCE[m]) for m in VARIANCE),
    *(Claim(f"dive-transformer-narrow-{m}", "DivE, Table 3, right",
            f"A transformer's sets are narrower than those of slots ({m}).", ("smooth-Chamfer, slots",),
            ("smooth-Chamfer, transformer",), VARIANCE[m]) for m in VARIANCE),
    # §4.7 says less than "the best".
    Claim("dive-alpha-16", "DivE, Table 4 (§4.7: high above 4)", "α = 16 is the best scale.", ("α=16",),
          ("α=1", "α=2", "α=4", "α=8", "α=32", "α=64")),
    Claim("dive-alpha-large", "DivE, Table 4", "On average, scales of 8 to 64 are better than 1 to 4.",
          ("α=8", "α=16", "α=32", "α=64"), ("α=1", "α=2", "α=4"), rule="means"),
    Claim("dive-k-4", "DivE, Table 4 (§4.7: high above 3)", "Four elements are the best number.", ("K=4",),
          ("K=1", "K=2", "K=3", "K=5", "K=6")),
    Claim("dive-k-large", "DivE, Table 4", "On average, four to six elements are better than one to three.",
          ("K=4", "K=5", "K=6"), ("K=1", "K=2", "K=3"), rule="means"),
    # fixed when T ended at 5
    Claim("dive-t-large", "DivE, Table 4", "On average, three to five rounds are better than one or two.",
          ("T=3", "T=4", "T=5"), ("T=1", "T=2"), rule="means"),
    # What Table 4 prints between one element, or one round, and the worst of the others (495.5 and 497.8 against
    # 492.6) is what "clearly" means.
    Claim("dive-k-one", "DivE, Table 4 and §4.7", "One element is clearly the worst number.",
          ("K=2", "K=3", "K=4", "K=5", "K=6"), ("K=1",), bound=2.9),
    Claim("dive-t-one", "DivE, Table 4 and §4.7", "One round is clearly the worst number.",
          ("T=2", "T=3", "T=4", "T=5", "T=6"), ("T=1",), bound=5.2),
    Claim("dive-slots-learned", "DivE, App. B.3", "Learned slots beat sampled ones.", ("slots as in the paper",),
          ("sampled slots",)),
    Claim("dive-slots-residual", "DivE, App. B.3", "The residual update beats a GRU.", ("slots as in the paper",),
          ("GRU update",)),
    Claim("dive-slots-global", "DivE, App. B.3", "Adding the global feature helps.", ("slots as in the paper",),
          ("without global feature",)),
    Claim("dive-slots-global-most", "DivE, App. B.3",
          "Of the three changes to slot attention the global feature matters most.", ("sampled slots", "GRU update"),
          ("without global feature",)),
    # A random ranking of the study's 500 images and 2,500 captions has RSUM 6.4, and the paper prints 0.74 where
    # chance is 0.64.
    Claim("dive-slots-all-off", "DivE, App. B.3", "Without the three changes to slot attention training fails.",
          ("all three changes off",), smaller=True, bound=-10.0),
    Claim("dive-vse-infty", "DivE, Table 1", "DivE beats VSE∞.", ("DivE",), ("VSE∞",)),
    Claim("dive-pvse", "DivE, Table 1", "DivE beats PVSE and PCME.", ("DivE",), ("PVSE", "PCME")),
    Claim("dive-scan", "DivE, Table 1 and §4.3", "DivE beats SCAN's ensemble (of its two AVG models).", ("DivE",),
          ("SCAN t-i + SCAN i-t",)),
    Claim("dive-sgraf", "DivE, Table 1 and §4.3", "DivE beats SGRAF.", ("DivE",), ("SAF + SGR",)),
    Claim("dive-widened", "DivE, App. B.1", "A single vector widened to DivE's cost of scoring is worse than DivE.",
          ("DivE",), ("VSE∞, 16 × wider",)),
    Claim("dive-weakest-element", "DivE, Table 5", "Even the weakest image element helps in company.", ("DivE",),
          measure=Measure("RSUM annotated, all elements minus all but the weakest image element", "annotated", "images",
          "rsum_of_weakest_element", factor=100)),
    Claim("dive-attention-rounds", "DivE, §4.5 and Figure A2", "Over the rounds slots come to lie on objects.",
          ("DivE",), measure=Measure("overlap of slots with true objects, last round minus first", "", "images",
          "attention_overlap_gain")),
    # An overlap below a twentieth of an object is there, and says next to nothing.
    Claim("dive-attention-objects", "DivE, §4.5 and Figure A2",
          "Slots divide the objects of an image among themselves.", ("DivE",),
          measure=Measure("overlap of slots with true objects minus that with another image's", "", "images",
          "attention_overlap_over_others"), bound=0.05),
    Claim("dive-attention-sharpens", "ours, after DivE, §4.5 and Figure A2", "Attention sharpens over the rounds.",
          ("DivE",), measure=Measure("entropy of a cell's shares, first round minus last, nats", "", "images",
          "attention_entropy_fall"), family="DivE"),
    # Elements gather by slot where the nearest other element has the same number for more than halfway from chance
    # (one of four) to always.
    Claim("dive-mil-gathers", "DivE, Figure A1 (the bound is ours)", "Under MIL elements gather by slot.",
          ("MIL, slots",), measure=_SAME_SLOT, bound=62.5),
    Claim("dive-smooth-mixes", "DivE, Figure A1 (the bound is ours)",
          "Under smooth-Chamfer elements do not gather by slot.", ("smooth-Chamfer, slots",), measure=_SAME_SLOT,
          smaller=True, bound=-62.5),
    # A rank correlation below 0.1 explains 1 % of the variance of ranks.
    *(Claim(f"dive-ambiguous-wide-{d}", "DivE, §3.2", f"Ambiguous queries have wider sets ({d}).", ("DivE",),
            measure=correlation("variance of the query's set and true answers", "exhaustive", d,
            "spearman_uncertainty_answers"), bound=0.1) for d in _BOTH),
)  # fmt: skip
