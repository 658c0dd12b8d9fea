"""One function that loads a model from wherever it is: a run, a folder, a file, the hub, an authors' checkpoint."""

from pathlib import Path

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.base.machine import resolve_device
from xmr_core.data.inputs import CaptionReader, Describer, RawInputs
from xmr_core.evaluation.results import rsum_interval
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.pretrained import find_pretrained, read_settings
from xmr_core.features.words import read_vocabulary
from xmr_core.methods.common import Inputs
from xmr_core.methods.model_file import load_with_inputs
from xmr_core.methods.official import official_with_inputs
from xmr_core.methods.registry import method_spec
from xmr_core.models.dual_encoder import ZeroShot
from xmr_core.models.model import Model
from xmr_core.models.model_folder import CONFIG, TYPE, hub_folder, read_model
from xmr_core.training.runs.folder import TrainedRun
from xmr_core.training.runs.folder import load as load_run
from xmr_core.training.runs.names import find_run, stored_ids

_OFFICIAL = (".tar", ".pth", ".pt")


def load(
    source: str | Path | TrainedRun | Model,
    method: str = "",
    vocabulary: str | Path = "",
    device: str = "auto",
    **options,
) -> Model:
    """A model that encodes sentences and images, scores and ranks them.

    source, the first that fits:
        a model, which is only moved to the device;
        a run, or one in the folder `runs`: its id, its short name ('dive-1'), or a beginning that one id has;
        a folder of Model.save_pretrained;
        a folder of a dual encoder of transformers (CLIP, SigLIP), or the name of one, or of a folder of ours, on the
        hub, 'owner/name' with '@revision' if needed;
        a file that run.export wrote. It holds the method alone, so it reads images only where they need no network:
        cells of the scenes, or pixels;
        a checkpoint of the authors (.pth.tar, .pth): give its `method`, its `vocabulary` file, and `options`. It reads
        features of regions.
    device: where the model computes, as torch names it; 'auto' takes an accelerator where there is one.
    Raises: BadInput for a source that is none of these, saying what was looked for, or a device that this machine does
        not have; DamagedFile for a damaged one.

    >>> load("no-such-run")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: 'no-such-run' is no run, folder or file here...
    """
    device = resolve_device(device)  # refuses an unknown one before anything is read
    return _read(source, method, vocabulary, options).to(device)


def _read(source: str | Path | TrainedRun | Model, method: str, vocabulary: str | Path, options: dict) -> Model:
    if isinstance(source, Model):
        return source
    if isinstance(source, TrainedRun):
        return model_of(source)
    if not isinstance(source, str | Path) or not str(source):
        raise BadInput(
            f"a model is named by a word or a path, or is a run; got {source!r:.60} ({type(source).__name__})."
        )
    name, path = str(source), Path(source).expanduser()
    if (method or vocabulary or options) and path.suffix not in _OFFICIAL:
        raise BadInput(f"leave out method, vocabulary and options: {name!r} is no checkpoint of the authors.")
    if path.is_file():
        if path.suffix in _OFFICIAL:
            return _official(path, method, vocabulary, options)
        if path.suffix == ".safetensors":
            return _of_file(path)
        raise BadInput(f"{path} is no model: give a .safetensors file of run.export, or a checkpoint of the authors.")
    elsewhere = path.is_dir() or "/" in name
    run_id = name if name in stored_ids() else None if elsewhere else find_run(name)
    if run_id is not None:
        return model_of(load_run(run_id))
    if not elsewhere:
        raise BadInput(
            f"{name!r} is no run, folder or file here. `python -m xmr_core runs` lists the runs in "
            f"{paths.root() / 'runs'}; a model on the hub has a name with a slash."
        )
    if path.is_dir() and not (path / CONFIG).exists():
        raise BadInput(f"{path} holds no {CONFIG}, so it is no model. Give a folder of save_pretrained.")
    folder = path if path.is_dir() else hub_folder(name)
    if read_settings(folder / CONFIG).get("model_type") == TYPE:
        return read_model(folder)
    return _dual(name)


def as_model(trained: TrainedRun | Model) -> Model:
    """The model of a run; a model as it is."""
    return model_of(trained) if isinstance(trained, TrainedRun) else trained


def model_of(run: TrainedRun) -> Model:
    """The model of a run, which reads any images and sentences as its corpus was read.

    >>> from xmr_core.training.runs.presets import base_config
    >>> from xmr_core.training.runs import train_or_load
    >>> run = train_or_load(base_config("vse++", device="cpu", size="tiny", d=8, epochs=1))
    >>> model_of(run).rank(["a red square"], run.prepared().corpus.read_pixels([0, 1, 2]))[0].columns.tolist()
    ['rank', 'item', 'score']
    """
    config, data = run.config, run.config.data
    try:
        prepared = run.prepared()
    except BadInput as e:
        raise BadInput(
            f"run {run.id} needs its data set to read images and words, and it is not as it was: {e} A folder of "
            "save_pretrained, written while the data are there, needs none."
        ) from None
    frozen_text, made_on = data.text_model and not data.fine_tunes("text"), run.provenance.environment
    about = {
        "run": run.id, "method": config.method, "form": config.form, "options": dict(config.options),
        "dataset": data.dataset, "size": run.setting.size, "seed": config.train.seed, "epochs": config.train.epochs,
        "features": data.features, "image_model": data.image_model,
        "text_model": data.text_model if frozen_text else "",
        "reads": "images" if prepared.describer else "regions", "commit": made_on.git_commit,
        "device": made_on.device, "versions": {n: getattr(made_on, n) for n in ("python", "torch", "transformers")},
        "results": _results(run),
    }  # fmt: skip
    return Model(method_spec(config.method).label, run.method(), prepared, about)


def _results(run: TrainedRun) -> list[dict]:
    """RSUM with its interval, and R@1 of both directions, for each relevance set; percent. Counts of queries."""
    out = []
    for kind, own in run.per_query.groupby("relevance", sort=False):
        value, low, high = rsum_interval(run.per_query, kind)
        first = {d: float(100 * g["R@1"].mean()) for d, g in own.groupby("direction")}
        counts = {"images": int((own["direction"] == "i2t").sum()), "captions": int((own["direction"] == "t2i").sum())}
        out.append({"relevance": kind, "rsum": value, "low": low, "high": high, **first, **counts})
    return out


def _of_file(path: Path) -> Model:
    method, words, about, inputs = load_with_inputs(path)
    if inputs.text_width:
        raise BadInput(f"{path.name} reads states of a text model, which is not in it. Use Model.save_pretrained.")
    describer = None
    if not inputs.image_width:
        describer = Describer("pixels", inputs.resolution)
    elif about.get("dataset") == "scenes" and about.get("features", "auto") in ("auto", "cells"):
        cells = CellDescriptor(inputs.resolution)
        if (inputs.cells, inputs.image_width) == cells.shape:  # else another network described the images
            describer = Describer("cells", inputs.resolution, cells)
    return Model(method.name, method, RawInputs(inputs, CaptionReader(words), describer), about)


def _official(path: Path, method: str, vocabulary: str | Path, options: dict) -> Model:
    if not method or not vocabulary:
        raise BadInput(
            f"{path.name} is a checkpoint of the authors: say whose (method='scan'), and give its words "
            "(vocabulary=FILE)."
        )
    (model, inputs), words = official_with_inputs(path, method, **options), read_vocabulary(vocabulary)
    raw = RawInputs(inputs, CaptionReader(words), None)
    return Model(method_spec(method).label, model, raw, {"checkpoint": path.name})


class _DualCaptions(CaptionReader):
    """Word pieces the way that a dual encoder was trained on them."""

    def __call__(self, texts):
        return self.model.tokens(texts)[0]


def _dual(name: str) -> Model:
    model = ZeroShot(name)
    describer = Describer("pixels", model.resolution, pixels_fit=model.fit)
    inputs = Inputs(image_width=0, cells=0, vocabulary=0, resolution=model.resolution)
    raw = RawInputs(inputs, _DualCaptions(model.pieces, model), describer)
    return Model(find_pretrained(name).name, model, raw, {"model": model.identity})
