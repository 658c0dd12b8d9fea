"""Versions of what decides the numbers of a run. Raise one when its numbers change, and never for a change of words.

A run's identity holds its configuration, names of its data by content, and these versions. The code is hashed too, but
only recorded: tidying code trains nothing again. `tests/test_numerics.py` holds numbers of every stage and method, and
fails when numbers change and the version here (or in the method's own file) does not.

A method from outside the package, and a reader or a frozen extractor without a version, count by the code they run too:
`own_code_version`.
"""

from collections.abc import Callable

from xmr_core.base.code_version import is_own_code, is_own_module, own_code_version, own_module_version, package_hash
from xmr_core.data.corpora import READERS, reader_of
from xmr_core.data.scenes import load_scenes
from xmr_core.methods.registry import method_spec

STAGES: dict[str, int] = {
    "training": 1,  # the loop, schedules, stages of fine-tuning, choice of the epoch
    "batches": 1,  # batches and augmentation
    "captions": 1,  # vocabulary, tokenisers, word pieces, word vectors
    "encoders": 1,  # encoders of images and captions
    "evaluation": 1,  # scores, ranks, metrics
    "features": 1,  # reduction, views and pixels; the extractors have versions of their own
}

# Readers of this package, by data set. The world of `scenes` has its own version in the fingerprint of the corpus.
READER_VERSIONS = {name: 1 for name in ("scenes", "flickr8k", "flickr30k", "coco", "cub", "precomputed", "folder")}

def component_versions(method: str, dataset: str) -> dict[str, int | str]:
    """The versions of the components that a method on a data set reaches, by component.

    A method or reader that is not the package's own (a reader may replace one under its name) counts by its code.

    >>> component_versions("dive", "scenes")["reader"]
    1
    """
    return {**STAGES, "method": _method_version(method), "reader": _reader_version(dataset)}


def code_of(method: str, dataset: str) -> str:
    """12 hex digits for the code of this package, and for a method's or reader's own code beside it; recorded with a
    run, no part of its identity."""
    versions = component_versions(method, dataset)
    own = [str(v) for v in (versions["method"], versions["reader"]) if isinstance(v, str)]
    return "-".join([package_hash(), *own])


def identity_scheme(run_id: str) -> int:
    """Which rule named a run: 1 for ids that hash the code (until November 2026), 2 for component versions.

    Both kinds of ids are valid names in tables of results; only ids of scheme 2 can be asked for.

    >>> identity_scheme("dive-scenes-c049fed43d48b1ad"), identity_scheme("dive-scenes-s0-1a2b3c4d5e")
    (1, 2)
    """
    *_, seed, digits = ["", *run_id.split("-")]
    return 2 if seed[:1] == "s" and seed[1:].isdigit() and len(digits) == 10 else 1


def _reader(dataset: str) -> Callable | None:
    """The function that reads a data set, also one named 'package.module:function'; None for a corpus in memory."""
    if ":" in dataset:
        return reader_of(dataset)
    return {"scenes": load_scenes, **READERS}.get(dataset)


def _own_parts(method: str) -> list[Callable]:
    """What of a method is defined outside this package: builders of its forms and its class of options."""
    spec = method_spec(method)
    return [part for part in (spec.matched, spec.published, spec.options) if part is not None and is_own_code(part)]


def _method_version(method: str) -> int | str:
    """The version that the spec says, and the code of all that is the user's own, the file of an address included."""
    spec, module = method_spec(method), method.partition(":")[0] if ":" in method else ""
    codes = [own_code_version(part) for part in _own_parts(method)]
    codes += [own_module_version(module)] if module and is_own_module(module) else []
    named = [code for code in dict.fromkeys(codes) if code]  # of one file most often
    return "-".join([str(spec.version), *named]) if named else spec.version


def _reader_version(dataset: str) -> int | str:
    """The explicit version of a reader of this package; the version of its code for any other; 0 for a corpus in
    memory.
    """
    reader, explicit = _reader(dataset), READER_VERSIONS.get(dataset)
    if reader is None:
        return 0
    return own_code_version(reader) if explicit is None or is_own_code(reader) else explicit
