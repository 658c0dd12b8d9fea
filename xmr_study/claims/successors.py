"""PCME++ (Chun, ICLR 2024), MaxSim (after ColBERT, SIGIR 2020) and CHAN (Pan et al., CVPR 2023)."""

from xmr_study.claims.claim import Claim, Measure, correlation

# What varies the loss says which loss it is, so that tuning, which may choose another, does not take it away.
_OWN, _MATCHING = "PCME++, own loss", {"objective": "matching"}
_MEAN = {"distance": "mean only", "vib": 0.0}
_T2I = {"direction": "t2i"}
ABLATIONS = {
    "pcme++": {
        "loss": {
            _OWN: ("pcme++", _MATCHING),
            "PCME++, no pseudo-positives": ("pcme++", {**_MATCHING, "pseudo": 0.0}),
            "PCME++, no mixed samples": ("pcme++", {**_MATCHING, "mix": 0.0}),
            "PCME++, no divergence": ("pcme++", {**_MATCHING, "vib": 0.0}),
            "PCME++, Wasserstein": ("pcme++", {**_MATCHING, "distance": "2-Wasserstein"}),
            "PCME++, μ only": ("pcme++", {**_MATCHING, **_MEAN}),
            "PCME++, μ by InfoNCE": ("pcme++", {**_MEAN, "objective": "infonce"}),
        },
    },
    "maxsim": {
        "length": {
            "MaxSim mean": ("maxsim", {**_T2I, "aggregate": "mean"}),
            "MaxSim sum": ("maxsim", {**_T2I, "aggregate": "sum"}),
            # about ten words in a caption: the temperature in proportion tells the length of a caption from the scale
            "MaxSim sum, τ=0.5": ("maxsim", {**_T2I, "aggregate": "sum", "temperature": 0.5}),
        },
    },
    "chan": {
        "coding": {
            "CHAN": ("chan", {}),
            "CHAN THA": ("chan", {"coding": "tha"}),
            "CHAN VSA": ("chan", {"coding": "vsa"}),
        },
        "pooling": {
            "CHAN": ("chan", {}),
            **{f"CHAN {pooling}": ("chan", {"pooling": pooling}) for pooling in ("max", "mean", "sum", "softmax")},
        },
    },
}

_BOTH = ("i2t", "t2i")
_MAP = {d: Measure(f"mAP@R exhaustive, {d}", "exhaustive", d, "map_at_r", factor=100) for d in _BOTH}
CLAIMS = (
    # What tuning chose for the label PCME++ is InfoNCE in place of the paper's loss, under which the σ of a query
    # cancels in its softmax: claims on it are our own. The paper's are decided by its own loss.
    Claim("pcmepp-pcme", "ours", "PCME++ by InfoNCE beats PCME.", ("PCME++",), ("PCME",), family="successors"),
    Claim("pcmepp-vse-infty", "ours", "PCME++ by InfoNCE beats VSE∞.", ("PCME++",), ("VSE∞",), family="successors"),
    Claim("pcmepp-own-pcme", "PCME++, Table 1 (unverified)",
          "The closed form, with its own loss, beats PCME's sampled probability.", ("PCME++, own loss",), ("PCME",),
          family="successors"),
    Claim("pcmepp-infonce", "PCME++, Table 1 (unverified)", "PCME++ beats its mean alone under InfoNCE.",
          ("PCME++, own loss",), ("PCME++, μ by InfoNCE",), family="successors"),
    Claim("pcmepp-spread", "PCME++, Table 1 (unverified)", "PCME++ beats the same model trained without σ.",
          ("PCME++, own loss",), ("PCME++, μ only",), family="successors"),
    Claim("pcmepp-wasserstein", "PCME++, Table 3 (unverified)", "CSD beats the Wasserstein distance.",
          ("PCME++, own loss",), ("PCME++, Wasserstein",), family="successors"),
    *(Claim(f"pcmepp-pseudo-{d}", "PCME++, Table 3 (unverified)",
            f"Pseudo-positives help to find all true matches ({d}).", ("PCME++, own loss",),
            ("PCME++, no pseudo-positives",), _MAP[d], family="successors") for d in _BOTH),
    *(Claim(f"pcmepp-mixed-{d}", "PCME++, Table 3 (unverified)", f"Mixed samples help to find all true matches ({d}).",
            ("PCME++, own loss",), ("PCME++, no mixed samples",), _MAP[d], family="successors") for d in _BOTH),
    *(Claim(f"pcmepp-divergence-{d}", "PCME++, Table 3 (unverified)",
            f"Divergences from the standard normal help to find all true matches ({d}).", ("PCME++, own loss",),
            ("PCME++, no divergence",), _MAP[d], family="successors") for d in _BOTH),
    *(Claim(f"pcmepp-uncertainty-{d}", "ours",
            f"The more uncertain a query of PCME++ by InfoNCE, the lower its R@1 ({d}).", ("PCME++",),
            measure=correlation("uncertainty and R@1", "annotated", d, "spearman_uncertainty_r1"), smaller=True,
            family="successors") for d in _BOTH),
    *(Claim(f"pcmepp-own-uncertainty-{d}", "PCME++, Figure 4 (unverified)",
            f"The more uncertain a query of PCME++ by its own loss, the lower its R@1 ({d}).", ("PCME++, own loss",),
            measure=correlation("uncertainty and R@1", "annotated", d, "spearman_uncertainty_r1"), smaller=True,
            family="successors") for d in _BOTH),
    Claim("maxsim-one-vector", "ours, after ColBERT", "Late interaction beats one vector.", ("MaxSim t-i",),
          ("VSE++", "VSE∞"), family="successors"),
    Claim("maxsim-both", "ours, after DivE's Chamfer similarity", "Both directions beat either.", ("MaxSim both",),
          ("MaxSim t-i", "MaxSim i-t"), family="successors"),
    Claim("maxsim-scan-t2i", "ours, after SCAN, Table 3, with means for sums",
          "Attention to all regions beats the best region.", ("SCAN t-i",), ("MaxSim t-i",), family="successors"),
    Claim("maxsim-scan-i2t", "ours, after SCAN, Table 3, with means for sums",
          "Attention to all words beats the best word.", ("SCAN i-t",), ("MaxSim i-t",), family="successors"),
    Claim("maxsim-length", "ours", "The mean over words beats the sum.", ("MaxSim mean",), ("MaxSim sum",),
          family="successors"),
    Claim("chan-scan", "CHAN, abstract (unverified)", "Hard assignment beats cross attention.", ("CHAN",),
          ("SCAN t-i", "SCAN i-t"), family="successors"),
    Claim("chan-hard", "CHAN, ablation of codings (table number unverified)",
          "Hard assignment beats soft assignment, regions asking.", ("CHAN THA",), ("CHAN VSA",), family="successors"),
    Claim("chan-lse", "CHAN, ablation of poolings (table number unverified)", "LSE pooling beats max and mean pooling.",
          ("CHAN",), ("CHAN max", "CHAN mean"), family="successors"),
    Claim("chan-words", "ours", "Words that take regions beat regions that take words.", ("CHAN",), ("CHAN THA",),
          family="successors"),
)  # fmt: skip
