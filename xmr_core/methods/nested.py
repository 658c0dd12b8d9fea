"""What every method with nested sets compares and claims about them. Mathematics: docs/methods/nested_sets.md."""

from collections.abc import Mapping

from xmr_core.methods.claim import Claim, Measure

FAMILY, SOURCE = "nested sets", "ours, after MetaEmbed"


def nested_ablation(method: str, label: str) -> Mapping[str, tuple[str, dict]]:
    """One nested model, one that is not, and a model for each smaller number of elements: label → (method, options).

    >>> list(nested_ablation("dive", "DivE"))
    ['DivE, nested', 'DivE', 'DivE, K=2', 'DivE, K=1']
    """
    smaller = {f"{label}, K={k}": (method, {"slots": k}) for k in (2, 1)}
    return {f"{label}, nested": (method, {"nested": True}), label: (method, {}), **smaller}


def first_elements_rsum(k: int) -> Measure:
    """Annotated RSUM of the first k elements of every set; rows of evaluation.analysis.budgets.first_rows.

    >>> first_elements_rsum(2).name
    'RSUM annotated of the first 2'
    """
    return Measure(f"RSUM annotated of the first {k}", "annotated", "both", "rsum_first", k, 100)


def nested_claims(method: str, label: str) -> tuple[Claim, ...]:
    """Fixed before any row; a family of their own, so that they change no number of the papers' claims.

    >>> [claim.id for claim in nested_claims("pvse", "PVSE")]
    ['pvse-nested-1', 'pvse-nested-2', 'pvse-nested-own', 'pvse-nested-full']
    """
    nested, plain, one = (f"{label}, nested",), (label,), (f"{label}, K=1",)

    def claim(name: str, sentence: str, below: tuple[str, ...], **rule) -> Claim:
        return Claim(f"{method}-nested-{name}", SOURCE, f"{sentence} ({label}).", nested, below, family=FAMILY, **rule)

    return (
        claim("1", "One element trained as a prefix beats the first one of a plain set", plain,
              measure=first_elements_rsum(1)),
        claim("2", "Two elements trained as a prefix beat the first two of a plain set", plain,
              measure=first_elements_rsum(2)),
        claim("own", "One element of a nested set beats a model of one element", one, measure=first_elements_rsum(1)),
        claim("full", "Nesting lowers the quality of the complete set", plain, smaller=True),
    )  # fmt: skip
