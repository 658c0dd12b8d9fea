"""The model card of a folder: what the model is, how to use it, what it was trained on, its numbers and its limits."""

from collections.abc import Mapping

from xmr_core import __version__
from xmr_core.methods.registry import method_spec
from xmr_core.methods.spec import MethodSpec

_NAMES = {"annotated": "annotated pairs", "exhaustive": "every true pair", "human": "human judgments"}
_INSTALL = f"pip install 'xmr-study>={__version__}'"


def model_card(label: str, about: Mapping) -> str:
    """A README.md with metadata that the hub reads. label: of the method. about: of search.load.model_of.

    Its owner adds the licence, and may change every word: `read_model` does not check this file.

    >>> card = model_card("DivE", {"method": "dive", "dataset": "scenes", "results": []})
    >>> card.splitlines()[1], "xmr.load" in card, "Kim, Kim & Kwak" in card
    ('library_name: xmr_core', True, True)
    """
    spec = method_spec(about["method"]) if about.get("method") else None
    dataset, results = about.get("dataset", ""), about.get("results", [])
    parts = [
        ["---", *_metadata(label, about), "---", ""],
        [f"# {label}, trained on {dataset or 'data of its owner'}", ""],
        [f"{label}: {spec.summary}", ""] if spec else [],
        _use(about),
        ["## Training", "", *(f"- {name}: {value}" for name, value in _settings(about)), ""],
        _numbers(results, about),
        ["## Limits", "",
         f"It knows images like those of {dataset or 'its training data'} and the words of their captions. A word that "
         "was not among them is read as unknown. Captions of a data set describe what its annotators saw and chose to "
         "say, with their biases. Scores order items and are no probabilities that a sentence is true, and scores of "
         "two models cannot be compared.", ""],
        ["## Licence", "",
         "Not stated yet. Its owner adds `license: …` to the head of this file, and takes the terms of the training "
         "data and of the pretrained networks into account.", ""],
        _citation(label, spec),
    ]  # fmt: skip
    return "\n".join(line for part in parts for line in part)


def _metadata(label: str, about: Mapping) -> list[str]:
    dataset, results = about.get("dataset", ""), about.get("results", [])
    head = ["library_name: xmr_core", "# license: the owner's choice, for example mit"]
    head += ["pipeline_tag: feature-extraction", "tags:", "- image-text-retrieval"]
    head += [f"- {about['method']}"] if about.get("method") else []
    head += ["datasets:", f"- {dataset}"] if dataset and dataset != "scenes" else []
    if results:
        head += [
            "model-index:", f"- name: {label} on {dataset}", "  results:", "  - task:",
            "      type: image-text-retrieval", "    dataset:", f"      name: {dataset}", f"      type: {dataset}",
            "      split: test", "    metrics:",
            *(
                line
                for row in results
                for line in (f"    - name: RSUM, {_NAMES.get(row['relevance'], row['relevance'])}", "      type: rsum",
                             f"      value: {row['rsum']:.1f}")
            ),
        ]  # fmt: skip
    return head


def _use(about: Mapping) -> list[str]:
    regions = about.get("reads") == "regions"
    image = "features" if regions else '["photo.jpg"]'
    read = (
        "Images are features of regions, an array of regions × width for each image, from the detector of its data."
        if regions
        else "Images are files, PIL images or arrays of any size. They are turned as EXIF says and become squares as "
        "in training, by the settings in this folder; nothing has to be prepared."
    )
    return [
        "## Use", "", "```sh", _INSTALL, "```", "", "```python", "import xmr_core as xmr", "",
        'model = xmr.load("this folder, or its name on the hub")',
        f'scores = model.similarity({image}, ["a dog on the beach"])  # scores[image, sentence]', "```", "",
        f"{read} Sentences are plain strings.", "",
    ]  # fmt: skip


def _settings(about: Mapping) -> list[tuple[str, object]]:
    names = ("method", "form", "options", "dataset", "size", "seed", "epochs", "features", "image_model", "text_model")
    names += ("run", "commit", "device", "versions")
    return [(name, about[name]) for name in names if about.get(name) not in (None, "", {})]


def _numbers(results: list[Mapping], about: Mapping) -> list[str]:
    if not results:
        return ["## Results", "", "None were measured.", ""]
    counts = ""
    if "images" in results[0]:
        counts = f" of {results[0]['images']:,} images and {results[0]['captions']:,} captions"
    lines = [
        "## Results", "",
        f"Test split{counts} of {about.get('dataset', 'its data')}, one run. Every caption ranks all images, and every "
        "image all captions; a tie counts against the model. Percent; the interval holds 95 % of the values over "
        "resampled images, and not the variation between seeds. RSUM is the sum of R@1, R@5 and R@10 in both "
        "directions.", "",
    ]  # fmt: skip
    lines += ["| relevance | RSUM | R@1, image to text | R@1, text to image |", "|---|---|---|---|"]
    for row in results:
        name = _NAMES.get(row["relevance"], row["relevance"])
        interval = f"{row['rsum']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
        lines.append(f"| {name} | {interval} | {row['i2t']:.1f} | {row['t2i']:.1f} |")
    return [*lines, ""]


def _citation(label: str, spec: MethodSpec | None) -> list[str]:
    method = f"the method, {label} ({spec.citation}), " if spec else "the paper of the method "
    return [
        "## How to cite", "",
        f"Cite {method}and name this model with its state, `owner/name@commit`, and xmr-study {__version__}. The "
        "method was implemented anew by xmr-study, so its numbers are not those of the paper.", "",
    ]  # fmt: skip
