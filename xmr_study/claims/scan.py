"""Lee et al., ECCV 2018 (SCAN): what is compared inside the method, and the paper's sentences."""

from xmr_study.claims.claim import Claim, Measure

_AGGREGATION = {  # Table 1
    "SCAN t-i LSE": ("scan", {"direction": "t2i", "aggregate": "lse"}),
    "SCAN t-i": ("scan", {"direction": "t2i"}),
    "SCAN i-t LSE": ("scan", {"direction": "i2t", "aggregate": "lse"}),
    "SCAN i-t": ("scan", {"direction": "i2t"}),
}
_HINGE = {"direction": "i2t", "objective": "triplet"}
_CONFIGURATION = {  # Table 4, under the loss that has hard negatives: they never come where the warm-up does not end
    "SCAN i-t, hinge": ("scan", _HINGE),
    "SCAN i-t, hinge, all negatives": ("scan", {**_HINGE, "warmup_epochs": 10_000}),
    "SCAN i-t, hinge, regions of any length": ("scan", {**_HINGE, "unit_regions": False}),
    "SCAN i-t, hinge, SUM": ("scan", {**_HINGE, "aggregate": "sum"}),
    "SCAN i-t, hinge, MAX": ("scan", {**_HINGE, "aggregate": "max"}),
}
ABLATIONS = {"aggregation": _AGGREGATION, "configuration": _CONFIGURATION}


CLAIMS = (
    Claim("scan-ensemble", "SCAN, Table 1", "t-i and i-t averaged beat either.", ("SCAN t-i + SCAN i-t",),
          ("SCAN t-i", "SCAN i-t")),
    Claim("scan-vsepp", "SCAN, Table 1", "Cross attention beats one vector.", ("SCAN t-i", "SCAN i-t"), ("VSE++",)),
    Claim("scan-direction", "SCAN, Table 1 (Flickr30K; Table 2, COCO, has the reverse)",
          "i-t beats t-i from image to text.", ("SCAN i-t",), ("SCAN t-i",), Measure("R@1 annotated, i2t", "annotated",
          "i2t", "recall", k=1, factor=100)),
    # The sum of best partners is MaxSim's. Over regions, of which every image has as many, it differs from their mean
    # by a factor alone, which the learned temperature holds.
    Claim("scan-sum-max-t2i", "SCAN, Table 3", "Attention beats the sum of best regions.", ("SCAN t-i",),
          ("MaxSim sum, τ=0.5",)),
    Claim("scan-sum-max-i2t", "SCAN, Table 3", "Attention beats the sum of best words.", ("SCAN i-t",),
          ("MaxSim i-t",)),
    Claim("scan-sum-max-vsepp", "SCAN, Table 3", "The sum of best partners beats one vector.",
          ("MaxSim sum, τ=0.5", "MaxSim i-t"), ("VSE++",)),
    Claim("scan-hard", "SCAN, Table 4", "Hard negatives help.", ("SCAN i-t, hinge",),
          ("SCAN i-t, hinge, all negatives",)),
    Claim("scan-mean", "SCAN, Table 4", "SUM and MAX are below AVG.", ("SCAN i-t, hinge",),
          ("SCAN i-t, hinge, SUM", "SCAN i-t, hinge, MAX")),
)  # fmt: skip
