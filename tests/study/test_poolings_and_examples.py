"""What a pooling learned, how fast poolings are, and which answers are shown: against loops over single items."""

import numpy as np
import pytest
import torch
from tiny import tiny_config

from xmr_core.base.types import Features
from xmr_core.heads.pooling import AdaptivePoolHead, aggregator
from xmr_core.training.runs import train_or_load
from xmr_study.examples import disputed, top
from xmr_study.pooling import rank_weights, speeds, weights_by_rank


@pytest.mark.parametrize("name", ["mean", "max", "k-max", "gpo", "softpool", "adpool"])
def test_weights_by_rank_give_the_pooled_vector_of_every_channel_on_average(name):
    torch.manual_seed(0)
    head = AdaptivePoolHead(1, 1, normalise=False) if name == "adpool" else aggregator(name, 1, 1)
    head.normalise = False
    if hasattr(head, "project"):
        head.project = torch.nn.Identity()  # what follows the pooling
    items = Features(torch.randn(1, 7, 1), torch.ones(1, 7, dtype=torch.bool))
    weights, ranked = weights_by_rank(head, items), sorted(items.local_feats[0, :, 0].tolist(), reverse=True)
    pooled = sum(w * v for w, v in zip(weights.tolist(), ranked, strict=True))
    assert pooled == pytest.approx(head(items).x.item(), abs=1e-5)
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-5)


def test_speeds_are_in_those_of_gcn():
    table = speeds(2, items=2, features=3, d=8).set_index("pooling")
    assert table.loc["GCN", "speed"] == 1.0 and {"AdPool", "LIP", "GPO"} <= set(table.index)
    assert (table["ms"] * table["speed"]).tolist() == pytest.approx([table.loc["GCN", "ms"]] * len(table))


@pytest.fixture(scope="module")
def runs(module_home):
    return {name: train_or_load(tiny_config(name)) for name in ("vse++", "vse+2ad")}


@pytest.mark.slow
def test_learned_weights_are_of_items_with_all_their_features(runs):
    table = rank_weights(runs["vse+2ad"].method(), runs["vse+2ad"].prepared().splits["test"], "AdPool")
    assert table.groupby("panel")["weight"].sum().tolist() == pytest.approx([1.0, 1.0], abs=1e-5)
    assert table["share"].between(0, 1).all() and set(table["label"]) == {"AdPool"}


@pytest.mark.slow
def test_shown_answers_are_the_best_by_a_loop_over_all_scores(runs):
    run = runs["vse++"]
    method, split = run.method(), run.prepared().splits["test"]
    with torch.inference_mode():
        images = method.encode_images(split.images_at(np.arange(len(split.image_rows)))).x.double()
        captions = method.encode_captions(split.captions_at(np.arange(len(split.caption_rows)))).x.double()
    scores = (images @ captions.T).numpy()
    every = run.prepared().corpus.relevance_sets["exhaustive"]("test")
    for direction, rows in (("i2t", scores), ("t2i", scores.T)):
        table = top(run, direction, [0, 3], k=4)
        for query, part in table.groupby("query"):
            assert part["score"].tolist() == pytest.approx(sorted(rows[query], reverse=True)[:4], abs=1e-5)
            for line in part.itertuples():
                image, caption = (query, line.item) if direction == "i2t" else (line.item, query)
                own, true = split.owners[caption] == image, image in every[caption]
                assert line.mark == ("annotated" if own else "true" if true else "wrong")
                assert line.score == pytest.approx(scores[image, caption], abs=1e-5)


@pytest.mark.slow
def test_disputed_queries_are_those_that_only_some_methods_get_right(runs):
    for direction in ("i2t", "t2i"):
        right = {}
        for name, run in runs.items():
            own = run.per_query.query("relevance == 'annotated' and direction == @direction")
            right[name] = own["R@1"].tolist()
        differ = [q for q, pair in enumerate(zip(*right.values(), strict=True)) if pair[0] != pair[1]]
        n = len(differ) + 2
        chosen = disputed(runs, direction, n)
        images = [own["image"].iloc[q] for q in differ]
        new = [q for place, q in enumerate(differ) if images[place] not in images[:place]]
        assert chosen[: len(new)] == new, "no image twice before every image was there"
        assert sorted(chosen[: len(differ)]) == differ and len(set(chosen)) == n
