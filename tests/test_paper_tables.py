"""Published numbers are typed by hand: what the papers print twice must agree."""

import pytest

from xmr_core import study
from xmr_core.base.errors import BadInput
from xmr_core.study import paper_tables as published
from xmr_core.study.claims import CLAIMS
from xmr_core.study.variants import known_labels

PRINTED = {  # RSUM as printed beside the recalls
    ("f30k", "VSE++", "ResNet-152"): 409.8, ("f30k", "PVSE", "ResNet-152"): 432.6,
    ("f30k", "PCME", "ResNet-152"): 428.1, ("f30k", "DivE", "ResNet-152"): 442.6,
    ("f30k", "SCAN t-i", "36 regions"): 446.2, ("f30k", "SCAN i-t", "36 regions"): 452.2,
    ("f30k", "SCAN t-i + SCAN i-t", "36 regions"): 465.0, ("f30k", "SAF + SGR", "36 regions"): 499.6,
    ("f30k", "VSE∞", "36 regions"): 498.1, ("f30k", "VSE+2AD", "36 regions"): 503.7,
    ("f30k", "DivE", "36 regions"): 500.8, ("coco1k", "VSE++", "ResNet-152"): 478.6,
    ("coco1k", "PVSE", "ResNet-152"): 492.8, ("coco1k", "DivE", "ResNet-152"): 493.2,
    ("coco1k", "SCAN t-i", "36 regions"): 500.5, ("coco1k", "SCAN i-t", "36 regions"): 493.9,
    ("coco1k", "SCAN t-i + SCAN i-t", "36 regions"): 507.9, ("coco1k", "SAF + SGR", "36 regions"): 524.3,
    ("coco1k", "VSE∞", "36 regions"): 520.8, ("coco1k", "VSE+2AD", "36 regions"): 527.8,
    ("coco1k", "DivE", "36 regions"): 524.6,
}  # fmt: skip


@pytest.mark.parametrize(("corpus", "method", "features"), PRINTED)
def test_the_recalls_add_up_to_the_printed_rsum(corpus, method, features):
    table = published.retrieval(corpus).set_index(["method", "features"])
    assert table.loc[(method, features), "rsum"] == pytest.approx(
        PRINTED[corpus, method, features], abs=0.16
    )  # recalls are rounded too


def test_methods_are_called_as_in_the_study_and_recalls_rise_with_k():
    for corpus in ("f30k", "coco1k"):
        table = published.retrieval(corpus)
        assert {part for name in table["method"] for part in name.split(" + ")} <= set(study.comparison())
        for d in ("i2t", "t2i"):
            assert (table[f"{d} R@1"] < table[f"{d} R@5"]).all() and (table[f"{d} R@5"] < table[f"{d} R@10"]).all()
    with pytest.raises(BadInput, match="unknown corpus of published results 'flickr'"):
        published.retrieval("flickr")


def test_sweeps_and_variants_agree_where_the_papers_repeat_a_number():
    best = published.dive_similarity().set_index("variant")["rsum"]["smooth-Chamfer, slots"]
    assert published.dive_alpha().set_index("alpha")["rsum"][16.0] == best
    assert (
        published.dive_cardinality().set_index("slots")["rsum"][4]
        == published.dive_iterations().set_index("iterations")["rsum"][4]
        == best
    )
    assert published.dive_elements().set_index("kept")["rsum"]["all"] == best
    assert set(published.dive_slots()["variant"]) - {"all three"} == set(study.ablation("dive", "slot attention"))
    assert published.pcme_distances().set_index("distance")["t2i R-P"].idxmax() == "match probability"


def test_claims_are_about_variants_that_notebooks_can_train():
    known = known_labels()
    for claim in CLAIMS:
        for name in (*claim.above, *claim.below):
            assert set(name.split(" + ")) <= known, name
