"""Where a model comes from: a run, a folder, a file, the hub, an authors' checkpoint, or training on own numbers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.machine import as_a_run, resolve_device
from xmr_core.data.corpora import config_for, from_arrays
from xmr_core.data.inputs import CaptionReader, RawInputs, read_inputs
from xmr_core.evaluation.evaluate import rsums
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.words import Vocabulary, read_vocabulary
from xmr_core.methods.checkpoint import load_with_inputs, official_with_inputs
from xmr_core.methods.registry import method_spec
from xmr_core.models.dual_encoder import dual_model
from xmr_core.models.model import Model
from xmr_core.models.model_folder import CONFIG, TYPE, hub_folder, json_object, read_model
from xmr_core.training.runs import folder as runs
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.folder import TrainedRun, find_run, stored_ids
from xmr_core.training.runs.train_run import silent, train_or_load

_OFFICIAL = (".tar", ".pth", ".pt")
SHIPPED, _SHIPPED = Path(__file__).resolve().parents[1] / "shipped", "shipped:"  # folders of models; before a name


@as_a_run()
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
        'shipped:dive', or another of the study's models that come with this package; never a file or a run;
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
    if isinstance(source, TrainedRun | Model):
        return as_model(source).to(device)
    if not isinstance(source, str | Path) or not str(source):
        raise BadInput(f"a model is named by a word or a path, or is a run; got {source!r:.60}.")
    name, path = str(source), Path(source).expanduser()
    elsewhere = path.is_dir() or "/" in name
    if name.startswith(_SHIPPED):
        name = name.removeprefix(_SHIPPED)
        require_choice("shipped model", name, sorted(folder.parent.name for folder in SHIPPED.glob(f"*/{CONFIG}")))
        model = read_model(SHIPPED / name)
    elif path.is_file() and path.suffix in _OFFICIAL:
        model = _official(path, method, vocabulary, options)
    elif (method or vocabulary or options) and path.suffix not in _OFFICIAL:
        raise BadInput(f"leave out method, vocabulary and options: {name!r} is no checkpoint of the authors.")
    elif path.is_file():
        model = _of_file(path)
    elif (name in stored_ids() or not elsewhere) and (run_id := find_run(name)) is not None:
        model = model_of(runs.load(run_id))
    elif not elsewhere:
        listed = f"`python -m xmr_core runs` lists the runs in {paths.root() / 'runs'}"
        raise BadInput(f"{name!r} is no run, folder or file here. {listed}; a name on the hub has a slash.")
    else:
        folder = path if path.is_dir() else hub_folder(name)
        ours = json_object(folder / CONFIG).get("model_type") == TYPE
        model = read_model(folder) if ours else dual_model(name)
    return model.to(device)


def fit(
    method: str = "dive",
    *,
    images,
    captions: Sequence[str] | Sequence[Sequence[str]],
    image_of: Sequence[int] | None = None,
    splits: Sequence[str] | Mapping[str, float] | None = None,
    name: str = "arrays",
    ordered: bool = False,
    device: str = "auto",
    report: Callable[[dict], None] | None = None,
    **changes,
) -> Model:
    """Train any method on features of images and on sentences in memory; returns the model, as `xmr.load` does.

    method: an id ('dive') or an address ('mypackage.mine:SPEC'). images: floating-point features, numpy or torch,
        "n l e" (l local elements of each image) or "n e" (one vector of each image). captions: texts, or a list of
        texts for each image. image_of, splits, name, ordered: see `data.from_arrays`.
    device: as torch names it; 'auto' takes an accelerator where there is one. report: see `training.train`.
    changes: options of the method and fields of RunConfig, TrainConfig and DataConfig, such as d=256, epochs=20,
        lr=5e-4, batch_images=64, word_vectors='glove.6B.50d.txt'.
    The run is stored like any other: the same call loads it. Its id is `model.about["run"]`, its results on the test
    split are `model.about["results"]`. The model encodes features of other images and any sentences.
    Raises: BadInput before any work, for arrays that `from_arrays` refuses or an unknown name in changes; what
        training raises.

    >>> import numpy as np
    >>> features, sentences = np.random.default_rng(0).normal(size=(20, 3, 8)), ["a dog", "two cats"] * 10
    >>> model = fit("vse++", images=features, captions=sentences, d=8, epochs=1, batch_images=8, device="cpu")
    >>> model.similarity(features[:2], ["a dog", "a cat", "two dogs"]).shape
    torch.Size([2, 3])
    """
    corpus = from_arrays(images, captions, image_of, splits, name, ordered)
    data = config_for(corpus)
    if unread := data.unread(changes):
        raise BadInput(f"leave out {', '.join(unread)}: only the given features and captions are read.")
    config = RunConfig(data=data, method=method, device=resolve_device(device)).replace(**changes)
    return model_of(train_or_load(config, report or silent))


def as_model(trained: TrainedRun | Model) -> Model:
    """The model of a run; a model as it is."""
    return model_of(trained) if isinstance(trained, TrainedRun) else trained


@as_a_run()
def model_of(run: TrainedRun) -> Model:
    """The model of a run, which reads any images and sentences as its corpus was read.

    >>> from xmr_core.training.runs.config import base_config
    >>> from xmr_core.training.runs import train_or_load
    >>> run = train_or_load(base_config("vse++", device="cpu", size="tiny", d=8, epochs=1))
    >>> model_of(run).rank(["a red square"], run.prepared().corpus.read_pixels([0, 1, 2]))[0].columns.tolist()
    ['rank', 'item', 'score']
    """
    config, data, made_on = run.config, run.config.data, run.provenance.environment
    prepared = run.prepared()
    about = {
        "run": run.id, "method": config.method, "form": config.form, "options": dict(config.options),
        "dataset": data.dataset, "size": run.setting.size, "seed": config.train.seed, "epochs": config.train.epochs,
        "features": data.features, "image_model": data.image_model,
        "text_model": "" if data.fine_tunes("text") else data.text_model, "dual_model": data.dual_model,
        "reads": "images" if prepared.describer else "regions", "commit": made_on.git_commit,
        "device": made_on.device, "versions": {n: getattr(made_on, n) for n in ("python", "torch", "transformers")},
        "results": rsums(run.per_query),
    }  # fmt: skip
    raw = RawInputs(prepared.inputs, prepared.captions, prepared.describer)  # without the corpus
    return Model(method_spec(config.method).label, run.method(), raw, about)


def _of_file(path: Path) -> Model:
    method, words, about, inputs, built = load_with_inputs(path)
    if inputs.text_width:
        raise BadInput(f"{path.name} reads states of a text model, which is not in it. Use Model.save_pretrained.")
    kind, shape = "" if inputs.image_width else "pixels", (inputs.cells, inputs.image_width)
    if about.get("dataset") == "scenes" and about.get("features", "auto") in ("auto", "cells"):
        if shape == CellDescriptor(inputs.resolution).shape:  # else of another network
            kind = "cells"
    images = {"kind": kind, "resolution": inputs.resolution, "identity": "", "reduced": False} if kind else None
    description = {"images": images, "texts": "words" if isinstance(words, Vocabulary) else "pieces"}
    return Model(method.name, method, read_inputs(path.parent, description, inputs, words), about | built)


def _official(path: Path, method: str, vocabulary: str | Path, options: dict) -> Model:
    if not method or not vocabulary:
        raise BadInput(f"{path.name} is a checkpoint of the authors: say whose (method='scan', vocabulary=FILE).")
    (model, inputs), words = official_with_inputs(path, method, **options), read_vocabulary(vocabulary)
    raw = RawInputs(inputs, CaptionReader(words), None)
    about = {"method": method, "form": "published", "options": options, "checkpoint": path.name}
    return Model(method_spec(method).label, model, raw, about)
