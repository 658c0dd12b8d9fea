"""Published numbers are typed by hand: what the papers print twice must agree."""

import pytest

import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_study import paper_tables as published
from xmr_study.claims import CLAIMS
from xmr_study.variants import known_labels

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
    ("coco5k", "VSE++", "ResNet-152"): 355.7, ("coco5k", "PVSE", "ResNet-152"): 374.4,
    ("coco5k", "DivE", "ResNet-152"): 377.7, ("coco5k", "SCAN t-i + SCAN i-t", "36 regions"): 410.9,
    ("coco5k", "VSE∞", "36 regions"): 421.9, ("coco5k", "VSE+2AD", "36 regions"): 426.9,
    ("coco5k", "DivE", "36 regions"): 430.7,
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
    assert set(published.dive_slots()["variant"]) == set(study.ablation("dive", "slot attention"))
    assert published.pcme_distances().set_index("distance")["t2i R-P"].idxmax() == "match probability"


def test_claims_are_about_variants_that_notebooks_can_train():
    known = known_labels()
    for claim in CLAIMS:
        for name in (*claim.above, *claim.below):
            assert set(name.split(" + ")) <= known, name


def test_tables_of_vse_2ad_are_of_variants_that_can_be_trained_and_repeat_each_other():
    removals, aggregators, balance = (
        getattr(published, f"vse_2ad_{name}")() for name in ("removals", "aggregators", "balance")
    )
    recalls = [c for c in removals if "R@" in c]
    assert removals[recalls].sum(axis=1).tolist() == pytest.approx(removals["rsum"].tolist(), abs=0.31)
    full = [
        t.set_index("variant").loc["VSE+2AD", ["t2i R@1", "i2t R@5", "rsum"]].tolist()
        for t in (removals, aggregators, balance)
    ]
    assert full == [[41.4, 83.0, 426.9]] * 3
    for table in (removals, aggregators, balance):
        assert set(table["variant"]) <= known_labels()
        six = table["rsum"] - table[[c for c in table if c.endswith(("R@1", "R@5"))]].sum(axis=1)
        assert six.between(150, 200).all()  # what is left for both R@10
    for name, table in (("removals", removals), ("aggregators", aggregators), ("balance", balance)):
        assert set(table["variant"]) == set(study.ablation("vse+2ad", name))
    best = published.vse_2ad_pretrained().set_index("variant")
    assert best["rsum"].idxmax() == "MVP" and best["speed"].idxmax().startswith("VSE+2AD")


def test_what_pcme_prints_twice_agrees():
    head, spread = (table.set_index("variant") for table in (published.pcme_head(), published.pcme_spread()))
    unseen, distances = published.pcme_cub().set_index("variant"), published.pcme_distances().set_index("distance")
    for d in ("i2t", "t2i"):
        best = distances.loc["match probability", f"{d} R-P"]
        assert head.loc["PCME", f"{d} R-P"] == unseen.loc["PCME", f"{d} R-P"] == best
        assert spread.loc["PCME", f"{d} R-P"] == pytest.approx(best, abs=0.051)
        only = distances.loc["trained on μ only", f"{d} R-P"]
        assert unseen.loc["PCME, μ only", f"{d} R-P"] == only
        assert spread.loc["PCME, μ only", f"{d} R-P"] == pytest.approx(only, abs=0.051)
    means = unseen.loc[[f"PVSE, K={k}, hardest negatives" for k in (1, 2, 4)]]
    assert ((means["i2t R@1"] + means["t2i R@1"]) / 2).round(1).tolist() == [36.3, 37.6, 41.1]  # the text of App. E.2
    assert ((means["i2t R-P"] + means["t2i R-P"]) / 2).round(1).tolist() == [21.4, 20.4, 19.2]
    printed = (published.pcme_cub("seen"), published.pcme_plausible(), published.pcme_regularisers())
    known = known_labels()
    for table in (*printed, published.pcme_head(), published.pcme_spread(), published.pcme_cub()):
        assert set(table["variant"]) - {"VSE0", "VSRN", "VSRN + AOQ"} <= known
    with pytest.raises(BadInput, match="unknown classes of CUB"):
        published.pcme_cub("all")


MORE_PRINTED = {  # RSUM as printed beside the recalls of rows with other features, BERT, or two seeds
    "f30k": {
        ("VSE++", "36 regions", "bi-GRU"): 442.3, ("DivE + DivE", "36 regions", "bi-GRU"): 509.3,
        ("VSE∞", "regions + grid", "bi-GRU"): 514.8, ("VSE+2AD", "regions + grid", "bi-GRU"): 520.2,
        ("VSE+2AD", "regions + grid + patches", "bi-GRU"): 524.4, ("VSE++", "36 regions", "BERT"): 449.7,
        ("VSE∞", "36 regions", "BERT"): 513.5, ("VSE∞", "regions + grid", "BERT"): 532.0,
        ("VSE+2AD", "regions + grid", "BERT"): 540.4, ("VSE+2AD", "regions + grid + patches", "BERT"): 545.3,
        ("VSE∞", "ResNeXt-101 grid", "BERT"): 550.9, ("VSE∞ + VSE∞", "ResNeXt-101 grid", "BERT"): 555.1,
        ("DivE", "ResNeXt-101 grid", "BERT"): 551.9, ("DivE + DivE", "ResNeXt-101 grid", "BERT"): 557.1,
    },
    "coco1k": {
        ("VSE++", "36 regions", "bi-GRU"): 490.5, ("DivE + DivE", "36 regions", "bi-GRU"): 528.0,
        ("VSE∞", "regions + grid", "bi-GRU"): 528.8, ("VSE+2AD", "regions + grid", "bi-GRU"): 534.4,
        ("VSE+2AD", "regions + grid + patches", "bi-GRU"): 539.1, ("VSE++", "36 regions", "BERT"): 488.9,
        ("VSE∞", "36 regions", "BERT"): 527.5, ("VSE+2AD", "36 regions", "BERT"): 536.0,
        ("VSE∞", "regions + grid", "BERT"): 537.4, ("VSE+2AD", "regions + grid", "BERT"): 546.6,
        ("VSE+2AD", "regions + grid + patches", "BERT"): 549.5, ("VSE∞", "ResNeXt-101 grid", "BERT"): 545.4,
        ("VSE∞ + VSE∞", "ResNeXt-101 grid", "BERT"): 548.1, ("DivE", "ResNeXt-101 grid", "BERT"): 547.5,
        ("DivE + DivE", "ResNeXt-101 grid", "BERT"): 549.9,
    },
    "coco5k": {
        ("DivE + DivE", "36 regions", "bi-GRU"): 437.8, ("VSE∞", "ResNeXt-101 grid", "BERT"): 468.9,
        ("VSE∞ + VSE∞", "ResNeXt-101 grid", "BERT"): 474.8, ("DivE", "ResNeXt-101 grid", "BERT"): 474.9,
        ("DivE + DivE", "ResNeXt-101 grid", "BERT"): 482.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("corpus", MORE_PRINTED)
def test_every_published_row_adds_up_and_is_of_a_method_of_the_study(corpus):
    table = published.retrieval(corpus, every=True)
    assert {part for name in table["method"] for part in name.split(" + ")} <= known_labels()
    rsum = table.set_index(["method", "features", "text"])["rsum"]
    assert rsum.index.is_unique
    assert rsum.isna().sum() == (4 if corpus == "coco5k" else 0), "a sum of recalls that were not all printed"
    for key, printed in MORE_PRINTED[corpus].items():
        assert rsum[key] == pytest.approx(printed, abs=0.25), key
    # the one printed sum that its recalls do not give (docs/differences.md#x-64)
    assert corpus != "f30k" or rsum["VSE+2AD", "36 regions", "BERT"] == pytest.approx(519.2)
    table = table.dropna()  # SGRAF and VSE+2AD print fewer recalls of COCO 5K
    for d in ("i2t", "t2i"):
        assert (table[f"{d} R@1"] < table[f"{d} R@5"]).all() and (table[f"{d} R@5"] < table[f"{d} R@10"]).all()
