"""What the study varies and claims of each method, as data: a file a paper. study.variants and study.ledger read it."""

from xmr_study.claims import dive, own, pcme, scan, sgraf, successors, vse_2ad
from xmr_study.claims.claim import Claim

Variant = tuple[str, dict]  # (id of a method, its options)

# Sentences in the order of the methods. Rules were fixed before the runs that decide them; do not edit one to fit a
# result.
CLAIMS: tuple[Claim, ...] = (
    *own.nested_claims("pvse", "PVSE"), *pcme.CLAIMS, *scan.CLAIMS, *sgraf.CLAIMS, *own.POOLING,
    *vse_2ad.CLAIMS, *dive.CLAIMS, *own.nested_claims("dive", "DivE"), *successors.CLAIMS,
)  # fmt: skip
# method → name → label → variant: comparisons inside a method
ABLATIONS: dict[str, dict[str, dict[str, Variant]]] = {
    "pvse": {"nested": own.nested("pvse", "PVSE")},
    "pcme": pcme.ABLATIONS,
    "scan": scan.ABLATIONS,
    "sgraf": sgraf.ABLATIONS,
    "vse+2ad": vse_2ad.ABLATIONS,
    "dive": {**dive.ABLATIONS, "nested": own.nested("dive", "DivE")},
    **successors.ABLATIONS,
}
# method → option → (symbol, values); rows carry labels such as 'α=16'
SWEEPS: dict[str, dict[str, tuple[str, tuple]]] = {"dive": dive.SWEEPS}
