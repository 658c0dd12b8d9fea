"""Out again: what transformers, sentence-transformers and onnxruntime compute from an exported folder is ours."""

import subprocess
import sys

import numpy as np
import pytest
import tiny_models
import torch

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.data.inputs import one_image
from xmr_core.features.pretrained import library
from xmr_core.training.runs.config import base_config

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("module_home"),
    pytest.mark.filterwarnings("ignore"),  # few words are known; exporters deprecate something every month
]
TEXTS = ["a red circle", "A Dog runs on the grass!", "a"]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    names = ("clip", "siglip", "bert", "gpt2")
    return {name: str(tiny_models.save(name, tmp_path_factory.mktemp(name))) for name in names}


def trained(method: str = "clip", **changes) -> xmr.Model:
    fixed = {"size": "tiny", "epochs": 1, "freeze_epochs": 0, "batch_images": 16, "device": "cpu", "lr": 1e-2}
    return xmr.load(xmr.train_or_load(base_config(method, **fixed | changes)).id, device="cpu")


def images(model) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (4, 50, 40, 3), np.uint8)


@pytest.mark.parametrize("lora", [0, 2])
@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_transformers_reads_a_fine_tuned_dual_encoder(zoo, tmp_path, name, lora):
    model = trained(dual_model=zoo[name], lora=lora)
    folder = model.export(tmp_path / "out", "transformers")
    again = xmr.load(folder, device="cpu")  # which test_zero_shot compares with transformers
    x = images(model)
    torch.testing.assert_close(again.similarity(x, TEXTS), model.similarity(x, TEXTS), rtol=0, atol=2e-6)
    logit = torch.tensor(model.method.objective.score_loss.log_scale.item())
    torch.testing.assert_close(again.method.model.logit_scale.detach().reshape(()), logit)
    tokenizer = library().AutoTokenizer.from_pretrained(folder)
    assert ("attention_mask" in tokenizer(["a dog"])) is (name == "clip"), "SigLIP reads its padding"
    assert not torch.equal(again.similarity(x, TEXTS), xmr.load(zoo[name], device="cpu").similarity(x, TEXTS))


LOADS = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
np.save(sys.argv[2], model.encode(sys.argv[3:]))
assert not any(name.startswith("xmr_") for name in sys.modules)
"""


@pytest.mark.parametrize(("name", "lora"), [("bert", 2), ("gpt2", 0)])
def test_sentence_transformers_reads_the_captions_side(zoo, tmp_path, name, lora):
    model = trained("vse++", text_model=zoo[name], fine_tune="text", d=8, lora=lora)
    folder = model.export(tmp_path / "out", "sentence-transformers")
    saved = tmp_path / "x.npy"
    subprocess.run([sys.executable, "-c", LOADS, folder, saved, *TEXTS], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(saved), model.encode_texts(TEXTS).x.numpy(), atol=2e-6)


@pytest.mark.parametrize(
    ("name", "method"), [("clip", "clip"), ("clip", "maxsim"), ("siglip", "clip"), ("siglip", "dive")]
)
def test_onnxruntime_computes_the_same_representations(zoo, tmp_path, name, method):
    import onnxruntime

    model = trained(method, dual_model=zoo[name], lora=2)
    folder = model.export(tmp_path / "out", "onnx")
    x = np.stack([one_image(image, model.raw) for image in images(model)])
    tokens = model.raw.new_captions(TEXTS)
    given = {"images": {"pixels": model.raw.new_images(x).x}, "captions": {"ids": tokens.ids, "mask": tokens.mask}}
    ours = {"images": model.encode_images(x), "captions": model.encode_texts(TEXTS)}
    for side, tensors in given.items():
        session = onnxruntime.InferenceSession(folder / f"{side}.onnx")
        out = session.run(None, {key: value.numpy() for key, value in tensors.items()})
        np.testing.assert_allclose(out[0], ours[side].x.numpy(), atol=2e-6)
        assert method == "clip" or np.array_equal(out[1], ours[side].mask.numpy())


def test_what_a_format_cannot_hold_is_refused(zoo, tmp_path):
    pooled = trained("pcme++", dual_model=zoo["clip"])
    words, sets = trained("vse++", d=8), trained("dive", text_model=zoo["bert"], fine_tune="text", d=8)
    for model, form, fault in (
        (words, "onnx", "has none"), (words, "transformers", "only method clip"),
        (sets, "sentence-transformers", "one vector"), (words, "pickle", "form"),
        (pooled, "onnx", "no graph of its GaussianGPOHead"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=fault):
            model.export(tmp_path / form, form)
        assert not (tmp_path / form).exists(), "nothing half-written stays"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(BadInput, match="not empty"):
        sets.export(tmp_path / "full", "onnx")
