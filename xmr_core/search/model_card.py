"""The model card of a folder: what the model is, how to use it, what it was trained on, its numbers and its limits."""

import json
from collections.abc import Mapping

from xmr_core import __version__
from xmr_core.methods.registry import method_spec

_FACTS = ("method", "form", "options", "dataset", "size", "seed", "epochs", "features", "image_model", "text_model")
_FACTS += ("run", "commit", "device", "versions")


def model_card(label: str, about: Mapping) -> str:
    """A README.md with metadata that the hub reads. label: of the method. about: of search.load.model_of.

    Its owner adds the licence, and may change every word: `read_model` does not check this file.

    >>> card = model_card("DivE", {"method": "dive", "dataset": "scenes", "results": []})
    >>> card.splitlines()[1], "xmr.load" in card, "Kim, Kim & Kwak" in card
    ('library_name: "xmr_core"', True, True)
    """
    data, results = about.get("dataset") or "data of its owner", about.get("results", [])
    spec = method_spec(about["method"]) if about.get("method") else None
    given = "features" if about.get("reads") == "regions" else '["photo.jpg"]'
    kinds = "features of regions, regions × width" if given == "features" else "files, PIL images or arrays of any size"
    head = {"library_name": "xmr_core", "pipeline_tag": "feature-extraction", "tags": ["image-text-retrieval", label]}
    numbers = ["None were measured."]
    if results:
        metrics = [{"name": r["relevance"], "type": "rsum", "value": round(r["rsum"], 1)} for r in results]
        measured = {"dataset": {"name": data, "type": data, "split": "test"}, "metrics": metrics}
        measured["task"] = {"type": "image-text-retrieval"}
        head["model-index"] = [{"name": f"{label} on {data}", "results": [measured]}]
        numbers = [
            f"Test split of {results[0]['images']:,} images and {results[0]['captions']:,} captions of {data}.",
            "Percent of one run, with the interval of 95 % over resampled images; ties count against it.", "",
            "| relevance | RSUM | R@1, image to text | R@1, text to image |", "|---|---|---|---|",
            *map("| {relevance} | {rsum:.1f} [{low:.1f}, {high:.1f}] | {i2t:.1f} | {t2i:.1f} |".format_map, results),
        ]  # fmt: skip
    facts = (f"- {name}: {about[name]}" for name in _FACTS if about.get(name))
    lines = [
        "---", *(f"{name}: {json.dumps(value)}" for name, value in head.items()), "---", "",
        f"# {label}, trained on {data}", "", spec.summary if spec else "", "", "## Use", "", "```python",
        f"# pip install 'xmr-study>={__version__}'", "import xmr_core as xmr", "",
        'model = xmr.load("this folder, or its name on the hub")',
        f'model.similarity({given}, ["a dog on the beach"])  # scores[image, sentence]', "```", "",
        f"Images are {kinds}.", "", "## Training", "", *facts, "",
        "## Results", "", *numbers, "", "## Limits", "",
        f"It knows images like those of {data} and the words of their captions, with the biases of who wrote them.",
        "Scores order items and are no probabilities; scores of two models cannot be compared.", "",
        "## Licence", "", "Not stated yet: its owner adds `license: …` to the head of this file.", "",
        "## How to cite", "", f"Cite {spec.citation if spec else 'the paper of the method'} and this model by its name",
        f"`owner/name@commit` with xmr-study {__version__}, which implemented the method anew.", "",
    ]  # fmt: skip
    return "\n".join(lines)
