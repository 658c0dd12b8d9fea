"""What a run of the protocol leaves: a line of numbers, and the rank of every query.

A line of runs.csv is a run: what was trained, where, how long it took, and one column for each number, named by
`column`. ranks/<run>-<processor>.xz holds the first rank of every query of the ten test galleries.
"""

import lzma
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import UInt16

from xmr_core.base import files
from xmr_core.base.errors import DamagedFile
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.machine import processor
from xmr_core.base.types import EmbeddingSet
from xmr_core.data.prepare import prepare
from xmr_core.data.scenes.corpus import DEFAULT_AMBIGUITY
from xmr_core.evaluation.analysis.elements import element_ablation
from xmr_core.evaluation.analysis.representations import encode_split, set_spread
from xmr_core.evaluation.analysis.uncertainty import query_uncertainty
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.evaluation.metrics import FULL, Protocol
from xmr_core.models.load import SHIPPED, model_of
from xmr_core.training.runs.folder import TrainedRun
from xmr_study.analysis import neighbourhood, uncertainty_rows, weakest_elements
from xmr_study.measures import answers_known, attention
from xmr_study.protocol import KEY, WORLDS, Job, labels, variant_of, variants
from xmr_study.tidy import carried

FOLDER = carried("reports") / "rows"
GALLERIES = Protocol("ten galleries", 5000, 10, "ten times 500 test images, metrics averaged over galleries")
KINDS = ("annotated", "exhaustive")
COLUMNS = [
    "run_id", "part", *KEY, "best_epoch", "validation", "parameters", "train_seconds", "evaluate_seconds",
    "unit_seconds", "processor", "torch", "commit", "started_utc", "failure",
]  # fmt: skip


def column(relevance: str, direction: str, metric: str, k: int = 0) -> str:
    """The name of a number's column.

    >>> column("annotated", "i2t", "recall", 1), column("", "images", "log_circular_variance")
    ('annotated i2t recall 1', 'images log_circular_variance')
    """
    return " ".join(filter(None, (relevance, direction, metric, str(k or ""))))


def read(folder: Path = FOLDER) -> pd.DataFrame:
    """A line for each run, in the order in which they ended; COLUMNS, and one for each number: fractions, `rsum` in
    [0, 6]; none where there is no file. validation: the best epoch's RSUM there, percent. unit_seconds: of
    `unit_seconds`, just after the run. failure: why a run has no numbers."""
    path = folder / "runs.csv"
    return pd.read_csv(path, dtype={"commit": str, "label": str}) if path.exists() else pd.DataFrame(columns=COLUMNS)


COLLAPSED = 50.0  # points of validation RSUM below the median of the same runs


def results(folder: Path = FOLDER) -> pd.DataFrame:
    """The runs of the study as a frame, a line each: the columns of `read`, `method`, and whether a run `collapsed`
    (docs/protocol.md#protocol-budget: its validation RSUM lies more than COLLAPSED below the median of its label at
    that rate, length, ambiguity and data set; one that failed has no numbers and is none of these).

    >>> bool(results(Path("no such folder")).empty)
    True
    """
    rows = read(folder)
    same = [name for name in KEY if name not in ("world", "seed")]
    median = rows.groupby(same)["validation"].transform("median")
    method = {label: variants()[variant_of(label)][0] for label in rows["label"].unique()}
    return rows.assign(method=rows["label"].map(method), collapsed=rows["validation"] < median - COLLAPSED)


def scoring(folder: Path = FOLDER) -> pd.DataFrame:
    """Milliseconds in which a compared method scores 1,000 images of 64 regions against 5,000 captions of 12 words, on
    one thread: columns label, ms; none where there is no file."""
    path = folder / "scoring.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["label", "ms"])


def shipped_name(job: Job) -> str:
    """The folder in xmr_core/shipped of a compared method's model: of its first seed on the first world that decides;
    '' for every other run.

    >>> from xmr_study.protocol import in_common_form
    >>> jobs = [Job("comparison", label, in_common_form(label, world_seed=1)) for label in ("MaxSim t-i", "α=8")]
    >>> [shipped_name(job) for job in jobs]
    ['maxsim-t-i', '']
    """
    data = job.config.data
    where = (data.dataset, data.world_seed, job.config.train.seed, data.ambiguity)
    first = where == ("scenes", WORLDS[0], 0, DEFAULT_AMBIGUITY)
    return folder_name(job.label) if first and job.label in labels() else ""


def folder_name(label: str) -> str:
    """The name of a compared method's folder in xmr_core/shipped.

    >>> folder_name("VSE∞"), folder_name("SCAN t-i")
    ('vse-infty', 'scan-t-i')
    """
    method, options = variants()[label]
    return label.lower().replace(" ", "-") if options else method


def unit_seconds() -> float:
    """Processor seconds of a fixed piece of work on one thread, the median of five: seconds of a run divided by it can
    be compared between processors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        draw, times = torch.Generator().manual_seed(0), []
        weight, x = (torch.randn(192, 192, generator=draw) for _ in range(2))
        for _ in range(5):
            start, y = time.process_time(), x
            for _ in range(300):
                y = torch.tanh(y @ weight * 0.05).sort(dim=0).values
            times.append(time.process_time() - start)
        return sorted(times)[2]
    finally:
        torch.set_num_threads(before)


def measured(run: TrainedRun) -> tuple[dict[str, float], UInt16[np.ndarray, "r q"]]:
    """(column → number, first ranks) of a run on the ten galleries of its world, or on the test split of another data
    set. The ranks' rows are those of KINDS that there are; their columns the images, then the captions, of each gallery
    in turn."""
    drawn = run.config.data.dataset == "scenes"
    prepared = prepare(replace(run.config.data, size="galleries") if drawn else run.config.data)
    method, split = run.method(), prepared.splits["test"]
    images, captions = encode_split(method, split)
    relevances = {kind: relevance_of("test") for kind, relevance_of in prepared.corpus.relevance_sets.items()}
    evaluation = evaluate(method.similarity, images, captions, relevances, GALLERIES if drawn else FULL)
    table = pd.concat([evaluation.summary(), set_spread(images, captions)], ignore_index=True)
    numbers = {column(r.relevance, r.direction, r.metric, r.k): r.value for r in table.itertuples()}
    known = answers_known(run) if drawn else {}
    numbers |= {column("", "captions", name): value for name, value in known.items()}
    if "spread rises" in known and method.similarity.compares in ("sets", "samples", "distributions"):
        uncertain = query_uncertainty(images, captions, relevances["annotated"])
        numbers |= of_representation(run, uncertainty_rows(evaluation.per_query, uncertain))
    per_query = evaluation.per_query
    first = [per_query.loc[per_query["relevance"] == kind, "first_rank"].to_numpy(np.uint16) for kind in KINDS]
    first = [own for own in first if len(own)]
    return numbers, np.stack(first)


def of_representation(run: TrainedRun, rows: pd.DataFrame) -> dict[str, float]:
    """Column → number, of what claims ask of one method that makes sets or distributions: on the test split where slots
    look, what the weakest element adds, and how many elements have a neighbour of their own slot (of 200 images and a
    caption of each, for the share rises with their number); and `rows`, which are known already."""
    test, method = run.prepared().splits["test"], run.method()
    images, captions = encode_split(method, test)
    looks, numbers = attention(run), {}
    if isinstance(images, EmbeddingSet) and images.x.shape[1] > 1:
        weakest = weakest_elements(element_ablation(method.similarity, images, captions, {"annotated": test.relevance}))
        for line in weakest.itertuples():
            numbers[column("annotated", line.side, "rsum_of_weakest_element")] = line.gain / 100
        some = torch.from_numpy(np.unique(test.owners, return_index=True)[1][:200])
        numbers["same_slot_share"] = neighbourhood(images[:200], captions[some])["same element"] / 100
    table = pd.concat([rows, looks[(looks["k"] == 0) & ~looks["metric"].str.endswith("_error")]])
    return numbers | {column(r.relevance, r.direction, r.metric): r.value for r in table.itertuples()}


def packed(ranks: UInt16[np.ndarray, "r q"]) -> bytes:
    """Ranks as few bytes: how many rows there are, then the low bytes apart from the high ones, which are nearly all 0.

    >>> unpacked(packed(np.array([[1, 2], [300, 4]], np.uint16))).tolist()
    [[1, 2], [300, 4]]
    """
    planes = ranks.astype("<u2").view(np.uint8).reshape(*ranks.shape, 2)
    return lzma.compress(bytes([len(ranks)]) + np.ascontiguousarray(np.moveaxis(planes, -1, 0)).tobytes(), preset=9)


def unpacked(content: bytes) -> UInt16[np.ndarray, "r q"]:
    """What `packed` was given. Raises: DamagedFile."""
    try:
        whole = lzma.decompress(content)
        planes = np.frombuffer(whole[1:], np.uint8).reshape(2, whole[0], -1)
    except (lzma.LZMAError, EOFError, ValueError, IndexError) as e:
        raise DamagedFile(f"no file of ranks ({e}). Fetch it again.") from None
    return planes[0].astype(np.uint16) + (planes[1].astype(np.uint16) << 8)


def trained_on(run: TrainedRun) -> str:
    """The processor that trained a run, as base.machine.processor names it."""
    return re.sub(r"^cpu \((.*), \d+ cores\)$", r"\1", run.provenance.environment.device)


def ranks_file(line: Mapping[str, object], folder: Path = FOLDER) -> Path:
    """Where the ranks of a row are: the run, and 4 hex digits for the processor, for two may have trained it."""
    return folder / "ranks" / f"{line['run_id']}-{content_hash(str(line['processor']))[:4]}.xz"


def keep(job: Job, run: TrainedRun | Exception, folder: Path = FOLDER, shipped: Path = SHIPPED) -> None:
    """Add the line and the ranks of a run that ended, and its model if it is one that comes with the package; of a run
    that failed, a line that says why."""
    line = dict.fromkeys(COLUMNS) | {"part": job.part, **dict(zip(KEY, job.key, strict=True))}
    line |= {"unit_seconds": round(unit_seconds(), 4), "processor": processor()}
    if isinstance(run, Exception):
        line["failure"] = f"{type(run).__name__}: {run}"
    else:
        start = time.process_time()
        numbers, ranks = measured(run)
        made = run.provenance
        line |= {
            "run_id": run.id, "best_epoch": made.best_epoch, "validation": 100 * made.best_value,
            "parameters": made.parameters, "train_seconds": round(made.train_seconds, 1),
            "evaluate_seconds": round(time.process_time() - start, 1), "torch": made.environment.torch,
            "commit": made.environment.git_commit, "started_utc": made.started_utc, **numbers,
        }  # fmt: skip
        files.make_folder(folder / "ranks")
        line["processor"] = trained_on(run)
        files.write_atomic(ranks_file(line, folder), packed(ranks))
        if (name := shipped_name(job)) and not (shipped / name).exists():  # of two processors the first counts
            model_of(run).save_pretrained(shipped / name)
    table = pd.concat([read(folder), pd.DataFrame([line])], ignore_index=True)
    files.write_atomic(folder / "runs.csv", table.to_csv(index=False, float_format="%.7g"))
