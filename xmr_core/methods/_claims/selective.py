"""What PCME's σ is for, against what scores say without it: which queries to answer. No sentence of the paper, so the
claims are a family of their own."""

from dataclasses import replace

from xmr_core.methods.claim import Claim, Measure


def _selective() -> tuple[Claim, ...]:
    out = []
    for name, words in (("margin", "the margin of the best score"), ("entropy", "the entropy of the scores' softmax")):
        for d in ("i2t", "t2i"):
            text = f"R@1 over coverage, area by σ minus area by {name}, {d}, points"
            measure = Measure(text, "annotated", d, f"selective_gain_over_{name}", factor=100)
            sentence = f"σ chooses the queries to answer ({d}) better than {words}."
            claim = Claim(f"pcme-selective-{name}-{d}", "ours, on PCME, §4.4", sentence, ("PCME",), measure=measure)
            out.append(replace(claim, family="selective retrieval"))
    return tuple(out)


SELECTIVE = _selective()
