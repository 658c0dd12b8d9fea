"""The claims ledger: sentences of the papers, rules that decide them, and verdicts from rows of results."""

from xmr_core.study.claims.claim import Claim, Measure, decide, in_words, ledger
from xmr_core.study.claims.papers import CLAIMS

__all__ = ["CLAIMS", "Claim", "Measure", "decide", "in_words", "ledger"]
