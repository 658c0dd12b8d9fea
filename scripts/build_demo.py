"""What two trained models answer: the demonstration on the site's first page, fifty sentences without a server, and the
picture in README.md (python scripts/build_demo.py).
"""

import base64
import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

import xmr_study as study
from xmr_core.base.files import write_atomic
from xmr_study.examples import disputed, top
from xmr_study.plots.images import image_answers
from xmr_study.plots.style import palette_png

TEMPLATE = Path(__file__).resolve().parent / "site" / "demonstration.html"
METHODS, QUERIES, ANSWERS, COLUMNS, SIDE = ("VSE∞", "DivE"), 50, 6, 16, 72
PICTURE = Path(__file__).resolve().parents[1] / "reports" / "figures" / "answers.png"
ASKED = 2  # sentences of the picture


def opened() -> tuple:
    """(the trained models, the corpus, its test split, the images that each caption fits, the captions)."""
    runs = study.run({"preset": "trained"}, list(METHODS))
    prepared = runs.first().prepared()
    split, corpus = prepared.splits["test"], prepared.corpus
    texts = corpus.captions["text"].iloc[split.caption_rows].tolist()
    return runs, corpus, split, corpus.relevance_sets["exhaustive"]("test"), texts


def picture() -> None:
    """The picture in README.md: some sentences with the first answers of both methods."""
    runs, corpus, split, every, texts = opened()
    chosen = [c for c in disputed(dict(zip(METHODS, runs, strict=True)), "t2i", 200) if len(every[c]) > 3][:ASKED]
    rows = {}
    for name in METHODS:
        parts = [own for _, own in top(runs.first(name), "t2i", chosen, ANSWERS).groupby("query", sort=False)]
        pixels = [corpus.read_pixels(split.image_rows[own["item"]]) for own in parts]
        rows[name] = [
            list(zip(x, own["score"], own["mark"], strict=True)) for x, own in zip(pixels, parts, strict=True)
        ]
    write_atomic(PICTURE, palette_png(image_answers([texts[c] for c in chosen], rows), dpi=80))


def demonstration() -> str:
    """The page's part as HTML. The sentences are spread over how many images they fit, from one to the most."""
    runs, corpus, split, every, texts = opened()
    fits = np.array([len(every[caption]) for caption in range(len(texts))])
    order = sorted({texts[c]: c for c in np.argsort(fits, kind="stable")}.values(), key=lambda c: fits[c])
    chosen = [order[n] for n in np.linspace(0, len(order) - 1, QUERIES).round().astype(int)]
    chosen = [chosen[n] for n in np.random.default_rng(0).permutation(QUERIES)]
    answers = [top(runs.first(name), "t2i", chosen, ANSWERS) for name in METHODS]
    used = sorted({item for table in answers for item in table["item"]})
    rows = [dict(list(table.groupby("query"))) for table in answers]
    queries = [
        {"text": texts[c], "fits": int(fits[c]),
         "answers": [[[used.index(item), mark != "wrong"] for item, mark in own[c][["item", "mark"]].values]
                     for own in rows]}
        for c in chosen
    ]  # fmt: skip
    data = {"methods": METHODS, "images": len(split.image_rows), "columns": COLUMNS, "queries": queries}
    sheet = Image.new("RGB", (COLUMNS * SIDE, -(-len(used) // COLUMNS) * SIDE))
    for n, pixels in enumerate(corpus.read_pixels(split.image_rows[used])):
        sheet.paste(Image.fromarray(pixels).resize((SIDE, SIDE)), (n % COLUMNS * SIDE, n // COLUMNS * SIDE))
    file = io.BytesIO()
    sheet.save(file, "WEBP", quality=80)
    style = f"#demo i {{ background-image: url(data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}); }}"
    page = TEMPLATE.read_text().replace("/*DATA*/", json.dumps(data, ensure_ascii=False).replace("</", "<\\/"))
    return f"<style>{style}</style>\n{page}"


if __name__ == "__main__":
    picture()
