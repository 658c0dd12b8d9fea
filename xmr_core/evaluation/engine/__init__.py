"""From representations to ranks of relevant items and to the best items: blocks of scores under one memory budget."""

from xmr_core.evaluation.engine.matrix import as_matrix, score_blocks, score_matrix
from xmr_core.evaluation.engine.plan import MAX_ELEMENTS
from xmr_core.evaluation.engine.precision import PRECISIONS
from xmr_core.evaluation.engine.ranks import Question, Ranked, ranks, relevant_ranks
from xmr_core.evaluation.engine.scores import MatrixScores, MeanScores, Scores
from xmr_core.evaluation.engine.scoring import Scoring
from xmr_core.evaluation.engine.top import best, checked_k, top_k

__all__ = [
    "MAX_ELEMENTS", "PRECISIONS", "MatrixScores", "MeanScores", "Question", "Ranked", "Scores", "Scoring", "as_matrix",
    "best", "checked_k", "ranks", "relevant_ranks", "score_blocks", "score_matrix", "top_k",
]  # fmt: skip
