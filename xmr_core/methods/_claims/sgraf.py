"""Claims of SGRAF (Diao et al., AAAI 2021), and the comparisons inside the method that decide them."""

from xmr_core.methods.claim import Claim, Measure

EQUIVALENT = 5.0  # points of RSUM; the best of several is not below another by more (docs/protocol.md)
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


def claims() -> tuple[Claim, ...]:
    """The paper's sentences in the order of its tables."""
    table1, table3, table4, table5 = (f"SGRAF, Table {n}" for n in (1, 3, 4, 5))
    averaged, sgr, joint, scan = ("SAF + SGR",), ("SGR",), ("SGRAF, joint",), ("SCAN t-i",)
    other_steps = ("SGR, 1 step", "SGR, 2 steps", "SGR, 4 steps")
    local = {name: (f"{name}, local nodes",) for name in ("average", "SGR", "SAF")}
    regions = {name: (f"{name}, local nodes, i-t",) for name in local}

    def first(direction: str) -> Measure:
        return Measure(f"R@1 annotated, {direction}", "annotated", direction, "recall", 1, 100)

    words = "SAF's weight of words of content minus that of the others, in weights of an average word"
    content = Measure(words, "", "captions", "saf_content_weight")
    return (
        Claim("sgraf-ensemble", table1, "SGR and SAF averaged beat either.", averaged, ("SAF", "SGR")),
        Claim("sgraf-split", table5, "Trained apart and averaged, SGR and SAF beat joint training.", averaged, joint),
        Claim(
            "sgraf-scan",
            table1,
            "SGRAF beats SCAN's ensemble (of its two AVG models).",
            averaged,
            ("SCAN t-i + SCAN i-t",),
        ),
        Claim(
            "sgraf-alone-scan",
            f"{table1} (beside SCAN's ensemble)",
            "SAF alone and SGR alone beat SCAN t-i.",
            ("SAF", "SGR"),
            scan,
        ),
        Claim("sgraf-graph", table3, "A graph beats the global node alone.", sgr, ("global node only",)),
        Claim("sgraf-global", table3, "The global node helps, at three steps.", sgr, local["SGR"]),
        Claim(
            "sgraf-global-1",
            table3,
            "The global node helps, at one step.",
            ("SGR, 1 step",),
            ("SGR, local nodes, 1 step",),
        ),
        Claim("sgraf-steps", table3, "Three steps are best.", sgr, other_steps, bound=-EQUIVALENT),
        Claim("sgraf-vector-t2i", table4, "Vectors beat cosines, words asking.", local["average"], scan),
        Claim("sgraf-vector-i2t", table4, "Vectors beat cosines, regions asking.", regions["average"], ("SCAN i-t",)),
        Claim("sgraf-t2i", table4, "SGR is better with words asking than with regions.", local["SGR"], regions["SGR"]),
        Claim("sgraf-graph-mean", table4, "A graph beats the mean of its nodes.", local["SGR"], local["average"]),
        Claim("sgraf-saf-t2i", table4, "SAF beats the average, words asking.", local["SAF"], local["average"]),
        Claim("sgraf-saf-i2t", table4, "SAF beats the average, regions asking.", regions["SAF"], regions["average"]),
        Claim("sgraf-joint-saf", table5, "Joint training helps SAF from image to text.", joint, ("SAF",), first("i2t")),
        Claim("sgraf-joint-sgr", table5, "Joint training helps SGR from text to image.", joint, sgr, first("t2i")),
        Claim(
            "sgraf-width",
            "SGRAF, Table 7",
            "The paper's width of nodes is best: neither half nor double is better.",
            sgr,
            ("SGR, m=32", "SGR, m=128"),
            bound=-EQUIVALENT,
        ),
        Claim("sgraf-content", "SGRAF, Figure 3", "SAF prefers words of content.", ("SAF",), (), content),
    )
