"""Presets: what the papers trained with, per corpus, and that every such configuration is one a run accepts."""

import pytest
import torch

from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, full_options, papers
from xmr_core.training.runs.config import base_config

# What the papers trained with: (method, corpus, options) → (lr, epochs, epochs between decays or schedule, batch)
PAPERS = [
    ("vse++", "f30k", {}, (2e-4, 30, 15, 128)),
    ("vse++", "coco", {"measure": "order"}, (1e-3, 30, 15, 128)),
    ("pvse", "coco", {}, (2e-4, 30, "constant", 256)),
    ("pcme", "coco", {}, (2e-4, 30, "cosine", 128)),
    ("pcme", "cub", {}, (1e-4, 10, "cosine", 150)),
    ("scan", "f30k", {}, (2e-4, 30, 15, 128)),
    ("scan", "coco", {}, (5e-4, 20, 10, 128)),
    ("sgraf", "f30k", {"reasoner": "sgr"}, (2e-4, 40, 30, 128)),
    ("sgraf", "f30k", {"reasoner": "saf"}, (2e-4, 30, 20, 128)),
    ("sgraf", "coco", {"reasoner": "saf"}, (2e-4, 20, 10, 128)),
    ("vse-infty", "coco", {}, (5e-4, 25, 15, 128)),
    ("vse+2ad", "f30k", {}, (5e-4, 25, 15, 128)),
    ("dive", "coco", {}, (1e-3, 80, "cosine", 200)),
    ("chan", "f30k", {}, (5e-4, 25, 15, 384)),
]


@pytest.mark.parametrize(("method", "corpus", "options", "wanted"), PAPERS)
def test_the_settings_of_the_papers(method, corpus, options, wanted):
    config = base_config(preset="published", method=method, device="cpu", published_for=corpus, **options)
    train = config.train
    found = (
        train.lr,
        train.epochs,
        train.decay_every if train.schedule == "step" else train.schedule,
        config.batch_images,
    )
    assert found == wanted and config.form == "published"


def test_settings_that_hang_on_an_option():
    def full(method, corpus, **options):
        config = base_config(preset="published", method=method, device="cpu", published_for=corpus, **options)
        return full_options(method, "published", dict(config.options))

    assert full("scan", "coco", direction="i2t", aggregate="lse")["lse_scale"] == 20
    assert (
        full("scan", "coco", direction="t2i", aggregate="lse")["lse_scale"] is None
    )  # the paper's for the direction, 6
    assert (
        full("scan", "f30k", direction="i2t", aggregate="lse")["lse_scale"] is None
    )  # the paper's for the direction, 5
    assert full("vse++", "coco", measure="order")["margin"] == 0.05
    assert [full("dive", c)["slot_lr"] for c in ("f30k", "coco")] == [0.05, 0.1]
    assert [[full("pcme", c)[o] for o in ("d", "scale", "kl", "uniform")] for c in ("coco", "cub")] == [
        [1024, 15, 1e-5, 0],
        [512, 5, 1e-3, 10],
    ]
    assert full("scan", "coco", direction="i2t", aggregate="lse", lse_scale=7.0)["lse_scale"] == 7, (
        "what a user says counts"
    )


def test_every_paper_has_settings_and_every_setting_is_accepted():
    torch.manual_seed(0)
    assert {corpus for spec in papers().values() for corpus in spec.settings} == {"f30k", "coco", "cub"}
    for method, spec in papers().items():
        assert bool(spec.settings) == bool(spec.published), "MaxSim was never published on images"
        for corpus in spec.settings:
            config = base_config(preset="published", method=method, device="cpu", published_for=corpus)
            build(method, Inputs(5, 3, 9, word_dim=4), "published", **{**config.options, "d": 8})


def test_what_cannot_be_is_left_out_of_a_preset():
    regions = base_config(dataset="precomputed", data_root="x", preset="study")
    assert regions.data.views == 0 and regions.cell_drop == 0.2, "no pictures to crop"
    assert base_config(dataset="flickr8k", data_root="x", preset="study").data.views == 4
    tuned = base_config(dataset="flickr8k", data_root="x", preset="study", fine_tune="image", image_model="m")
    assert tuned.data.views == 1000 and tuned.data.fine_tunes("image") and not tuned.data.fine_tunes("text")
    assert (
        base_config(
            dataset="flickr8k", data_root="x", preset="study", fine_tune="image", image_model="m", views=3
        ).data.views
        == 3
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"cell_drop": 0.1}, {"cell_rule": "grid"}, {"word_drop": 0.1}, {"word_rule": "vse"}, {"erase": 0.1},
        {"val_images": 5}, {"unit": "captions"}, {"positives": "diagonal"}, {"batch_images": 9},
        {"captions_per_image": 3}, {"word_dim": 7}, {"freeze_epochs": 3}, {"pretrained_lr": 0.5}, {"unfreeze_every": 2},
        {"seed": 5}, {"lr": 0.5}, {"form": "published"}, {"d": 24}, {"method": "vse++", "options": {"d": 64}},
    ],
)  # fmt: skip
def test_whatever_changes_the_numbers_changes_the_name_of_a_run(changes):
    config = base_config(dataset="scenes", device="cpu")
    assert config.replace(**changes).identity({}) != config.identity({})


def test_which_of_several_equal_devices_trains_does_not_change_the_name():
    config = base_config(dataset="scenes", device="cpu")
    one, two, other = (config.replace(device=name).identity({}) for name in ("cuda:0", "cuda:1", "cpu"))
    assert one == two != other
