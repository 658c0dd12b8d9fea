"""What the claims of SCAN and SGRAF measure and vary, against loops."""

import math

import numpy as np
import pytest
import reference
import torch
from tiny import tiny_config
from torch.testing import assert_close

import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Tokens
from xmr_core.data.scenes import content_words
from xmr_core.features.words import tokenise
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build
from xmr_core.training.runs import train_or_load
from xmr_study.analysis import content_preference, node_cosines
from xmr_study.measures import content_weight

INPUTS = Inputs(5, 3, 9, word_dim=4)


@pytest.mark.parametrize("label", study.ablation("scan", "configuration"))
def test_regions_of_any_length_are_those_of_the_encoder(label):
    _, options = study.ablation("scan", "configuration")[label]
    torch.manual_seed(0)
    model = build("scan", INPUTS, d=8, **options).double().eval()
    features = Features(3 * torch.randn(2, 3, 5, dtype=torch.float64), torch.ones(2, 3, dtype=torch.bool))
    tokens = Tokens(torch.randint(1, 9, (3, 4)), torch.ones(3, 4, dtype=torch.bool))
    with torch.no_grad():
        local, captions = model.image_encoder(features).local_feats, model.encode_captions(tokens)
        scores = model.similarity(model.encode_images(features), captions)
    for i, t in np.ndindex(2, 3):
        regions = [v.numpy() if not options.get("unit_regions", True) else reference.unit(v.numpy()) for v in local[i]]
        words, aggregate = list(captions.x[t].numpy()), options.get("aggregate", "mean")
        expected = reference.scan(regions, words, "i2t", 4.0, aggregate)
        assert scores[i, t].item() == pytest.approx(expected, abs=1e-7)


def test_all_negatives_never_become_hardest():
    scores, match = torch.rand(4, 4), torch.eye(4, dtype=torch.bool)
    options = study.ablation("scan", "configuration")["SCAN i-t, hinge, all negatives"][1]
    hard, never = (build("scan", INPUTS, d=8, **o).objective for o in (options | {"warmup_epochs": 2}, options))
    assert never.warmup_epochs > 1000 > hard.warmup_epochs
    costs = [[max(0.0, 0.2 + scores[i, j] - scores[i, i]) for j in range(4) if j != i] for i in range(4)]
    costs += [[max(0.0, 0.2 + scores[j, i] - scores[i, i]) for j in range(4) if j != i] for i in range(4)]
    per_direction = [sum(sum(c) for c in costs[:4]) / 12, sum(sum(c) for c in costs[4:]) / 12]
    assert never.warmup_loss(scores, match).item() == pytest.approx(float(sum(per_direction)))


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
def test_the_weight_of_content_is_that_of_every_caption_beside_its_own_image(own_home):
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
