"""Claims of SCAN and SGRAF: their labels are runs, what they measure is right, and their options do what they say."""

import math
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import reference
import torch
from tiny import tiny_config
from torch.testing import assert_close

import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Tokens
from xmr_core.data.scenes import content_words, load_scenes
from xmr_core.features.words import tokenise
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, method_spec
from xmr_core.training.runs import train_or_load
from xmr_study import paper_tables as published
from xmr_study import plots
from xmr_study.analysis import content_preference, node_cosines
from xmr_study.claims import ABLATIONS, CLAIMS
from xmr_study.claims.claim import Claim
from xmr_study.measures import content_weight
from xmr_study.variants import known_labels

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PAIRS = [c for c in CLAIMS if c.id.startswith(("sgraf-", "scan-"))]
INPUTS = Inputs(5, 3, 9, word_dim=4)


def test_every_row_of_a_table_is_another_run_under_one_label():
    for method in ("sgraf", "scan"):
        runs = {}
        for variants in ABLATIONS[method].values():
            for label, (name, options) in variants.items():
                full = (name, tuple(sorted(method_spec(name).full_options("matched", options).items(), key=str)))
                assert runs.setdefault(label, full) == full, label
                if label in study.comparison():
                    other, own = study.comparison()[label]
                    assert full[0] == other and dict(full[1]) == method_spec(other).full_options("matched", own)
        assert len(set(runs.values())) == len(runs), "one run has two labels"


def test_every_claim_is_about_runs_that_are_there():
    labels = {name for c in PAIRS for group in (c.above, c.below) for name in group}
    assert {part for label in labels for part in label.split(" + ")} <= known_labels()
    assert len(PAIRS) == 26 and all(c.bound <= 0 for c in PAIRS)
    assert {c.id for c in PAIRS if c.bound} == {"sgraf-steps", "sgraf-width"}


def test_what_the_papers_vary_is_what_the_tables_vary():
    table3 = study.ablation("sgraf", "graph")
    steps = [method_spec("sgraf").full_options("matched", o)["steps"] for _, o in table3.values()]
    assert steps[1:] == [1, 3, 1, 2, 3, 4] and table3["global node only"][1]["parts"] == "global"
    table4 = [name for name, _ in study.ablation("sgraf", "nodes").values()]
    assert table4 == ["scan", "sgraf", "sgraf", "sgraf"] * 2
    widths = [
        method_spec("sgraf").full_options("matched", o)["m"] for _, o in study.ablation("sgraf", "width").values()
    ]
    assert widths == [32, 64, 128]


@pytest.mark.parametrize("label", [*study.ablation("sgraf", "graph"), *study.ablation("sgraf", "nodes")])
def test_every_configuration_of_sgraf_scores_a_pair(label):
    method, options = {**study.ablation("sgraf", "graph"), **study.ablation("sgraf", "nodes")}[label]
    torch.manual_seed(0)
    model = build(method, INPUTS, d=8, **options).eval()
    images = model.encode_images(Features(torch.randn(2, 3, 5), torch.ones(2, 3, dtype=torch.bool)))
    captions = model.encode_captions(Tokens(torch.randint(1, 9, (4, 6)), torch.ones(4, 6, dtype=torch.bool)))
    scores = model.similarity(images, captions)
    assert scores.shape == (2, 4) and scores.isfinite().all() and scores.std() > 0


def scan_of_one_pair(contexts, queries, sharpness, aggregate):
    relevance = []
    for q, weights in zip(
        queries, reference.scan_attention(contexts, queries, sharpness, "clipped_l2norm"), strict=True
    ):
        c = sum(a * x for a, x in zip(weights, contexts, strict=True))
        relevance.append(float(c @ q) / max(np.linalg.norm(c) * np.linalg.norm(q), 1e-8))
    return {"mean": np.mean, "sum": np.sum, "max": np.max}[aggregate](relevance)


@pytest.mark.parametrize("label", study.ablation("scan", "configuration"))
def test_regions_of_any_length_are_those_of_the_encoder(label):
    _, options = study.ablation("scan", "configuration")[label]
    torch.manual_seed(0)
    model = build("scan", INPUTS, d=8, **options).double().eval()
    features = Features(3 * torch.randn(2, 3, 5, dtype=torch.float64), torch.ones(2, 3, dtype=torch.bool))
    tokens = Tokens(torch.randint(1, 9, (3, 4)), torch.ones(3, 4, dtype=torch.bool))
    with torch.no_grad():
        local, scores = (
            model.image_encoder(features).local_feats,
            model.similarity(model.encode_images(features), captions := model.encode_captions(tokens)),
        )
    for i in range(2):
        regions = [
            v.numpy() if not options.get("unit_regions", True) else v.numpy() / v.norm().item() for v in local[i]
        ]
        for t in range(3):
            expected = scan_of_one_pair(list(captions.x[t].numpy()), regions, 4.0, options.get("aggregate", "mean"))
            assert scores[i, t].item() == pytest.approx(expected, abs=1e-7)
    lengths = model.encode_images(features).x.norm(dim=-1)
    assert bool((lengths - 1).abs().max() < 1e-6) == options.get("unit_regions", True)


def test_the_region_option_came_later_and_keeps_the_names_of_runs():
    spec = method_spec("scan")
    assert (
        "unit_regions" not in spec.full_options("matched", {}) == spec.full_options("matched", {"unit_regions": True})
    )
    assert spec.full_options("published", {"unit_regions": False})["unit_regions"] is False


def test_all_negatives_never_become_hardest():
    scores, match = torch.rand(4, 4), torch.eye(4, dtype=torch.bool)
    options = study.ablation("scan", "configuration")["SCAN i-t, hinge, all negatives"][1]
    hard, never = (build("scan", INPUTS, d=8, **o).objective for o in (options | {"warmup_epochs": 2}, options))
    assert never.warmup_epochs > 1000 > hard.warmup_epochs
    costs = [[max(0.0, 0.2 + scores[i, j] - scores[i, i]) for j in range(4) if j != i] for i in range(4)]
    costs += [[max(0.0, 0.2 + scores[j, i] - scores[i, i]) for j in range(4) if j != i] for i in range(4)]
    per_direction = [sum(sum(c) for c in costs[:4]) / 12, sum(sum(c) for c in costs[4:]) / 12]
    assert never.warmup_loss(scores, match).item() == pytest.approx(float(sum(per_direction)))


def test_words_of_content_are_those_that_say_something():
    texts = load_scenes("quick").captions["text"]
    said = {word for text in texts for word in tokenise(text)}
    others = said - content_words()
    assert others == {"a", "an", "and", "with", "together", "on", "over", "against", "in", "at", "of", "the",
                      "exactly", "just", "only", "scene", "some", "things"}  # fmt: skip


def test_content_preference_is_that_of_a_loop_over_captions():
    rng = np.random.default_rng(0)
    weights = rng.random((5, 6))
    words, content = rng.random((5, 6)) < 0.8, rng.random((5, 6)) < 0.5
    content[4] = False
    expected = []
    for beta, word, kind in zip(weights, words, content, strict=True):
        own = [float(b) for b, w, k in zip(beta, word, kind, strict=True) if w and k]
        other = [float(b) for b, w, k in zip(beta, word, kind, strict=True) if w and not k]
        every = own + other
        if own and other:
            expected.append((sum(own) / len(own) - sum(other) / len(other)) / (sum(every) / len(every)))
        else:
            expected.append(math.nan)
    values = content_preference(*(torch.from_numpy(x) for x in (weights, words, content)))
    assert math.isnan(expected[4]) and not math.isnan(expected[0])
    assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.slow
def test_the_weight_of_content_is_that_of_every_caption_beside_its_own_image(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    run = train_or_load(tiny_config("sgraf").replace(reasoner="saf", m=8))
    prepared, method = run.prepared(), run.method()
    split, words, expected = prepared.splits["test"], content_words(), []
    for t, text in enumerate(prepared.corpus.captions["text"].iloc[split.caption_rows]):
        image = method.encode_images(split.images_at(np.array([split.owners[t]])))
        with torch.inference_mode():
            beta = method.similarity.element_weights(image, method.encode_captions(split.captions_at(np.array([t]))))
        beta = beta["SAF"][0, 0].tolist()[2:-1]  # without the global node, <start> and <end>
        kinds = [word in words for word in tokenise(text)]
        assert len(kinds) == len(beta)
        means = [np.mean([b for b, k in zip(beta, kinds, strict=True) if k == kind]) for kind in (True, False)]
        if True in kinds and False in kinds:
            expected.append((means[0] - means[1]) / np.mean(beta))
    row, error = content_weight(run).to_dict("records")
    assert error["metric"] == "saf_content_weight_error" and 0 < error["value"] < np.std(expected)
    assert row["n_queries"] == len(expected) > 100
    assert row["value"] == pytest.approx(float(np.mean(expected)), abs=1e-5)


def test_without_words_there_is_no_weight_and_no_verdict():
    nothing = SimpleNamespace(
        prepared=lambda: SimpleNamespace(splits={"test": SimpleNamespace(caption_rows=np.arange(3))}, vocabulary=None),
        config=SimpleNamespace(data=SimpleNamespace(dataset="scenes")),
    )
    (row,) = content_weight(nothing).to_dict("records")
    assert row["metric"] == "saf_content_weight" and math.isnan(row["value"]) and row["n_queries"] == 0


def test_the_best_of_several_may_be_a_little_below():
    claim = next(c for c in CLAIMS if c.id == "sgraf-steps")
    assert isinstance(claim, Claim) and claim.bound == -5
    assert claim.rule_text().endswith("short of it by less than 5")


def test_the_papers_tables_agree_where_they_repeat_a_number():
    graph, nodes, training = (
        t.set_index("variant")
        for t in (published.sgraf_graph(), published.sgraf_nodes(), published.sgraf_training("f30k"))
    )
    assert graph.loc["SGR, local nodes", "sum"] == nodes.loc["SGR, local nodes", "sum"]
    assert graph.loc["SGR", "sum"] == training.loc["SGR", "sum"]
    width = published.sgraf_width().set_index("m")
    assert width.loc[256, "i2t R@1"] == graph.loc["SGR", "i2t R@1"] and width["rsum"].idxmax() == 256
    recalls = [c for c in training if "R@" in c]
    for corpus in ("f30k", "coco1k"):
        every = published.retrieval(corpus).set_index("method")
        table = published.sgraf_training(corpus).set_index("variant")
        for label in set(table.index) & set(every.index):
            assert (every.loc[label, recalls] == table.loc[label, recalls]).all(), (corpus, label)
        table = published.scan_aggregation(corpus).set_index("variant")
        for label in set(table.index) & set(every.index):
            assert every.loc[label, "rsum"] == table.loc[label, "rsum"], (corpus, label)
    assert (
        published.scan_configuration()["rsum"][0]
        == published.scan_aggregation().set_index("variant")["rsum"]["SCAN i-t"]
    )
    for bad in (published.scan_aggregation, published.sgraf_training):
        with pytest.raises(BadInput, match="unknown corpus"):
            bad("flickr")


def test_the_papers_tables_have_the_labels_of_the_ablations():
    names = {"graph": published.sgraf_graph(), "nodes": published.sgraf_nodes()}
    for name, table in names.items():
        assert table["variant"].tolist() == list(study.ablation("sgraf", name))
    assert published.sgraf_training()["variant"].tolist()[:3] == list(study.ablation("sgraf", "training"))
    assert published.scan_aggregation()["variant"].tolist()[:4] == list(study.ablation("scan", "aggregation"))
    assert published.scan_configuration()["variant"].tolist() == list(study.ablation("scan", "configuration"))
    assert set(published.scan_sum_max()["variant"]) <= known_labels()


def test_node_cosines_compare_the_last_global_node_with_the_first_nodes():
    torch.manual_seed(0)
    model = build("sgraf", INPUTS, d=8, m=5, steps=2).double().eval()
    features = Features(torch.randn(2, 3, 5, dtype=torch.float64), torch.ones(2, 3, dtype=torch.bool))
    tokens = Tokens(torch.tensor([[1, 5, 2, 0], [1, 6, 7, 2]]), torch.tensor([[True] * 3 + [False], [True] * 4]))
    cosines = node_cosines(model, features, tokens)
    with torch.no_grad():
        nodes, mask = model.similarity.nodes(model.encode_images(features), model.encode_captions(tokens))
    for i, t in np.ndindex(2, 2):
        raw = nodes[i, t][mask[0, t]].numpy()
        now = raw
        for layers in model.similarity.reasoner.steps:
            q, k = (
                now @ layers[n].weight.detach().numpy().T + layers[n].bias.detach().numpy() for n in ("query", "key")
            )
            edges = np.stack([reference.softmax([float(a @ b) for b in k]) for a in q])
            w, b = (p.detach().numpy() for p in (layers["graph"].weight, layers["graph"].bias))
            now = np.maximum(edges @ now @ w.T + b, 0)
        expected = [now[0] @ n / np.linalg.norm(now[0]) / np.linalg.norm(n) for n in raw]
        assert_close(cosines[i, t][: len(raw)], torch.tensor(np.array(expected)), rtol=1e-7, atol=1e-9)
    assert cosines[0, 0, 4] == 0
    with pytest.raises(BadInput, match="no graph of words"):
        node_cosines(build("sgraf", INPUTS, d=8, reasoner="saf").eval(), features, tokens)


def test_words_are_drawn_beside_their_image_with_one_scale_for_a_kind():
    image = np.zeros((4, 4, 3), np.uint8)
    lines = [
        (image, "right", ["a", "ring"], {"SAF": [0.2, 0.8], "SGR": [-0.5, 0.6]}),
        (image, "wrong", ["a", "red", "cross"], {"SAF": [0.1, 0.3, 0.4], "SGR": [0.1, 0.2, 0.3]}),
    ]
    figure = plots.word_weights(lines, [2, 3])
    heights = [[bar.get_height() for bar in ax.patches] for ax in figure.axes]
    assert heights == [[], [0.2, 0.8], [-0.5, 0.6], [], [0.1, 0.3, 0.4], [0.1, 0.2, 0.3]]
    assert figure.axes[1].get_ylim() == figure.axes[4].get_ylim() and figure.axes[2].get_ylim()[0] < -0.5
    assert [t.get_text() for t in figure.axes[4].get_xticklabels()] == ["a", "red", "cross"]
    plt.close(figure)
    for wrong in ([], [(image, "x", ["a"], {"SAF": [0.1, 0.2]})]):
        with pytest.raises(BadInput, match="weight for each word"):
            plots.word_weights(wrong)
