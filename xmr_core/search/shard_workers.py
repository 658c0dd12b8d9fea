"""Worker processes, each of which searches one shard."""

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context

import numpy as np
import torch

from xmr_core.base.errors import ProcessLost
from xmr_core.base.types import Representation
from xmr_core.evaluation.engine import top_k
from xmr_core.search.elements import Elements, open_elements
from xmr_core.search.gallery import open_gallery
from xmr_core.search.index import CAPTIONS, IMAGES
from xmr_core.search.opened import Index
from xmr_core.search.two_stage import Answers, two_stage
from xmr_core.similarities.base import Similarity


def best_of_one(
    gallery: Representation, elements: Elements | None, similarity: Similarity | Callable, query: Representation,
    target: str, k: int, modality: str, most: int | None,
) -> Answers:  # fmt: skip
    """The best k items of one shard for one query: proposed by its elements, or of all."""
    if elements is not None and target == "images":
        return two_stage(elements, query, similarity, k, modality=modality, most=most)
    scores, positions = top_k(similarity, query, gallery, k, modality)
    return Answers(scores, positions, np.array([-np.inf]), np.array([True]))


class Workers:
    """A process for each shard. They map the same files as this process, so their memory is not needed twice."""

    def __init__(self, indexes: Sequence[Index], elements: bool):
        self.folders = [index.folder for index in indexes]
        self.processes, self._opened = [ProcessPoolExecutor(1, get_context("spawn")) for _ in indexes], []
        for index in indexes:
            files = [("images", index.folder / IMAGES)]
            if index.captions is not None:
                files.append(("captions", index.folder / CAPTIONS))
            self._opened.append((tuple(files), index.digest("images") if elements else None))

    def ask(self, similarity: Similarity, task: tuple) -> list[Answers]:
        """The Answers of all shards to one task, in order.

        Raises: ProcessLost where a process ended; what the search in a process raised.
        """
        futures = [
            process.submit(_best_of_files, *opened, similarity, task)
            for process, opened in zip(self.processes, self._opened, strict=True)
        ]
        wait(futures)
        for folder, future in zip(self.folders, futures, strict=True):
            if isinstance(e := future.exception(), BrokenExecutor):
                raise ProcessLost(
                    f"the process that searches {folder} is lost, so there is no answer ({e}). Ask again; if it "
                    "happens again, the machine may be short of memory."
                )
        return [future.result() for future in futures]

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.shutdown()


def _best_of_files(files: tuple, digest: str | None, similarity: Similarity, task: tuple) -> Answers:
    """In a process: the best items of the shard in these files, which stay open for the next question."""
    galleries, elements = _opened(files, digest)
    with torch.inference_mode():
        return best_of_one(galleries[task[1]], elements, similarity, *task)


@cache
def _opened(files: tuple, digest: str | None) -> tuple[dict[str, Representation], Elements | None]:
    galleries = {modality: open_gallery(file) for modality, file in files}
    return galleries, open_elements(files[0][1].parent, galleries["images"], digest) if digest else None
