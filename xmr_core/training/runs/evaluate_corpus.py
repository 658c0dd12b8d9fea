"""What a finished score matrix is worth: every kind of relevance, and agreement with graded judgments."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base.types import Corpus
from xmr_core.evaluation.analysis.agreement import judgment_agreement
from xmr_core.evaluation.engine import Scores
from xmr_core.evaluation.evaluate import Evaluation, evaluate_scores


def evaluate_corpus(
    scores: Float[np.ndarray, "i t"] | Scores,
    corpus: Corpus,
    split: str = "test",
    done: Callable[[int], object] = lambda pairs: None,
) -> tuple[Evaluation, pd.DataFrame]:
    """(evaluation by all kinds of relevance of the corpus, its summary with a row of Kendall's τ_c for each kind of
    grade).

    scores: a matrix or Scores of the split's images and captions, in file order. A run, an ensemble and a pretrained
    dual encoder are all evaluated here. done: receives the number of pairs of each block that is done.
    """
    relevances = {kind: relevance_of(split) for kind, relevance_of in corpus.relevance_sets.items()}
    evaluation = evaluate_scores(scores, relevances, done=done)
    agreement = judgment_agreement(scores, relevances["annotated"], corpus.grades)
    return evaluation, pd.concat([evaluation.summary(), *([agreement] if len(agreement) else [])], ignore_index=True)
