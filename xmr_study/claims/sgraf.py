"""Diao et al., AAAI 2021 (SGRAF): what is compared inside the method, and the paper's sentences."""

from xmr_study.claims.claim import Claim, Measure

_LOCAL, _REGIONS = {"parts": "local"}, {"parts": "local", "direction": "i2t", "sharpness": 4.0}

# The paper's tables. Rows that are the same run have the same label: SGR has three steps and m = 64, and the mean of
# cosines of Table 4 is SCAN (in direction i2t at the λ of SCAN, which the paper follows there).
ABLATIONS = {
    "graph": {  # Table 3
        "global node only": ("sgraf", {"reasoner": "mean", "parts": "global"}),
        "SGR, local nodes, 1 step": ("sgraf", {**_LOCAL, "reasoner": "sgr", "steps": 1}),
        "SGR, local nodes": ("sgraf", {**_LOCAL, "reasoner": "sgr"}),
        "SGR, 1 step": ("sgraf", {"reasoner": "sgr", "steps": 1}),
        "SGR, 2 steps": ("sgraf", {"reasoner": "sgr", "steps": 2}),
        "SGR": ("sgraf", {"reasoner": "sgr"}),
        "SGR, 4 steps": ("sgraf", {"reasoner": "sgr", "steps": 4}),
    },
    "nodes": {  # Table 4
        "SCAN i-t": ("scan", {"direction": "i2t"}),
        "average, local nodes, i-t": ("sgraf", {**_REGIONS, "reasoner": "mean"}),
        "SGR, local nodes, i-t": ("sgraf", {**_REGIONS, "reasoner": "sgr"}),
        "SAF, local nodes, i-t": ("sgraf", {**_REGIONS, "reasoner": "saf"}),
        "SCAN t-i": ("scan", {"direction": "t2i"}),
        "average, local nodes": ("sgraf", {**_LOCAL, "reasoner": "mean"}),
        "SGR, local nodes": ("sgraf", {**_LOCAL, "reasoner": "sgr"}),
        "SAF, local nodes": ("sgraf", {**_LOCAL, "reasoner": "saf"}),
    },
    "training": {  # Table 5, whose last row is the ensemble 'SAF + SGR'
        "SAF": ("sgraf", {"reasoner": "saf"}),
        "SGR": ("sgraf", {"reasoner": "sgr"}),
        "SGRAF, joint": ("sgraf", {"reasoner": "joint"}),
    },
    "width": {  # Table 7: half, the same and double of what the study uses
        "SGR, m=32": ("sgraf", {"reasoner": "sgr", "m": 32}),
        "SGR": ("sgraf", {"reasoner": "sgr"}),
        "SGR, m=128": ("sgraf", {"reasoner": "sgr", "m": 128}),
    },
}


CLAIMS = (
    Claim("sgraf-ensemble", "SGRAF, Table 1", "SGR and SAF averaged beat either.", ("SAF + SGR",), ("SAF", "SGR")),
    Claim("sgraf-split", "SGRAF, Table 5", "Trained apart and averaged, SGR and SAF beat joint training.",
          ("SAF + SGR",), ("SGRAF, joint",)),
    Claim("sgraf-scan", "SGRAF, Table 1", "SGRAF beats SCAN's ensemble (of its two AVG models).", ("SAF + SGR",),
          ("SCAN t-i + SCAN i-t",)),
    Claim("sgraf-alone-scan", "SGRAF, Table 1 (beside SCAN's ensemble)", "SAF alone and SGR alone beat SCAN t-i.",
          ("SAF", "SGR"), ("SCAN t-i",)),
    Claim("sgraf-graph", "SGRAF, Table 3", "A graph beats the global node alone.", ("SGR",), ("global node only",)),
    Claim("sgraf-global", "SGRAF, Table 3", "The global node helps, at three steps.", ("SGR",), ("SGR, local nodes",)),
    Claim("sgraf-global-1", "SGRAF, Table 3", "The global node helps, at one step.", ("SGR, 1 step",),
          ("SGR, local nodes, 1 step",)),
    # "Best of several": below no other by more than five points, which count as equal in the study (docs/protocol.md).
    Claim("sgraf-steps", "SGRAF, Table 3", "Three steps are best.", ("SGR",),
          ("SGR, 1 step", "SGR, 2 steps", "SGR, 4 steps"), bound=-5.0),
    Claim("sgraf-vector-t2i", "SGRAF, Table 4", "Vectors beat cosines, words asking.", ("average, local nodes",),
          ("SCAN t-i",)),
    Claim("sgraf-vector-i2t", "SGRAF, Table 4", "Vectors beat cosines, regions asking.", ("average, local nodes, i-t",),
          ("SCAN i-t",)),
    Claim("sgraf-t2i", "SGRAF, Table 4", "SGR is better with words asking than with regions.", ("SGR, local nodes",),
          ("SGR, local nodes, i-t",)),
    Claim("sgraf-graph-mean", "SGRAF, Table 4", "A graph beats the mean of its nodes.", ("SGR, local nodes",),
          ("average, local nodes",)),
    Claim("sgraf-saf-t2i", "SGRAF, Table 4", "SAF beats the average, words asking.", ("SAF, local nodes",),
          ("average, local nodes",)),
    Claim("sgraf-saf-i2t", "SGRAF, Table 4", "SAF beats the average, regions asking.", ("SAF, local nodes, i-t",),
          ("average, local nodes, i-t",)),
    Claim("sgraf-joint-saf", "SGRAF, Table 5", "Joint training helps SAF from image to text.", ("SGRAF, joint",),
          ("SAF",), Measure("R@1 annotated, i2t", "annotated", "i2t", "recall", k=1, factor=100)),
    Claim("sgraf-joint-sgr", "SGRAF, Table 5", "Joint training helps SGR from text to image.", ("SGRAF, joint",),
          ("SGR",), Measure("R@1 annotated, t2i", "annotated", "t2i", "recall", k=1, factor=100)),
    Claim("sgraf-width", "SGRAF, Table 7", "The paper's width of nodes is best: neither half nor double is better.",
          ("SGR",), ("SGR, m=32", "SGR, m=128"), bound=-5.0),
    Claim("sgraf-content", "SGRAF, Figure 3", "SAF prefers words of content.", ("SAF",),
          measure=Measure("SAF's weight of words of content minus that of the others, in weights of an average word",
          "", "captions", "saf_content_weight")),
)  # fmt: skip
