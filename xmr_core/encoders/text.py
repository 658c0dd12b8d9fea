"""Captions to features: word vectors and a recurrent network over them, or BERT."""

import torch
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.recurrent import at_last, run_gru
from xmr_core.base.tensors import masked_max, require_element
from xmr_core.base.types import Features, Tokens
from xmr_core.features.pretrained import library

LOCALS = ("words", "states")
SUMMARIES = ("average", "concatenate", "concatenate-last-token", "concatenate-max", "last", "max")


class GRUEncoder(nn.Module):
    """Word vectors and a GRU. Local features are words or states; the global feature is one of six summaries.

    summary                 directions, hidden  global feature "n d"                    used by
    average                 2, d                ½(forward final + backward final)       DivE (`gpo_rnn`)
    concatenate             2, d/2              [forward final; backward final]         PVSE (current), DivE without
                                                                                        its flag
    concatenate-last-token  2, d/2              both states at the last token; there    PVSE (legacy), PCME
                                                the backward GRU has read one word
    concatenate-max         2, d/2              max over tokens of [forward; backward]  the matched form
    last                    1, d                forward final                           VSE++
    max                     2, d                max over tokens of the averaged states  DivE (author's option)

    local: 'words', the word vectors after dropout, "n l word_dim" (DivE, PVSE); or 'states', for each token the
    averaged (average, max) or concatenated states, "n l d". The GRU never reads padding.

    Args: vocabulary: number of words, padding included. vectors: word vectors "vocabulary word_dim" to start from, or
        None for `init`: 'normal' N(0, 1) or 'uniform' ±0.1. train_words: False freezes the word vectors.
    Shapes: Tokens "n l" → Features(local_feats "n l word_dim" or "n l d", global_feat "n d").
    Raises: BadInput for an unknown summary or local, an odd d for two directions, or a
        caption without a word.
    Source: the papers and code of VSE++ (Faghri et al. 2018), PVSE (Song & Soleymani 2019), DivE (Kim et al. 2023).

    >>> captions = Tokens(torch.tensor([[1, 5, 2]]), torch.ones(1, 3, dtype=torch.bool))
    >>> GRUEncoder(vocabulary=6, word_dim=4, d=8)(captions).global_feat.shape
    torch.Size([1, 8])
    """

    def __init__(
        self,
        vocabulary: int,
        word_dim: int,
        d: int,
        summary: str = "average",
        local: str = "words",
        dropout: float = 0.1,
        vectors: Tensor | None = None,
        init: str = "normal",
        train_words: bool = True,
    ):
        super().__init__()
        require_choice("summary", summary, SUMMARIES)
        require_choice("local", local, LOCALS)
        halved = summary.startswith("concatenate")
        if halved and d % 2:
            raise BadInput(f"width {d} cannot be split between two directions; choose an even one.")
        self.embed = nn.Embedding(vocabulary, word_dim)
        if init == "uniform":
            nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        if vectors is not None:
            self.embed.weight.data.copy_(vectors)
        self.embed.weight.requires_grad_(train_words)
        self.rnn = nn.GRU(word_dim, d // 2 if halved else d, batch_first=True, bidirectional=summary != "last")
        self.dropout = nn.Dropout(dropout)
        self.summary, self.local = summary, local

    @property
    def local_width(self) -> int:
        """Width of local_feats: word_dim for words, d for states."""
        if self.local == "words":
            return self.embed.embedding_dim
        return self.rnn.hidden_size * (2 if self.summary.startswith("concatenate") else 1)

    def forward(self, tokens: Tokens) -> Features:
        require_element(tokens.mask, "caption")
        words = self.dropout(self.embed(tokens.ids))  # n l word_dim
        states, final = run_gru(self.rnn, words, tokens.mask)
        if self.summary == "concatenate-last-token":
            pooled = at_last(states, tokens.mask)
        elif self.summary == "concatenate":
            pooled = torch.cat([final[0], final[1]], -1)
        elif self.summary == "last":
            pooled = final[0]
        elif self.summary == "average":
            pooled = final.mean(0)
        if self.summary in ("average", "max"):
            states = states.unflatten(-1, (2, -1)).mean(-2)
        if self.summary.endswith("max"):
            pooled = masked_max(states, tokens.mask[..., None], dim=1)
        return Features(states if self.local == "states" else words, tokens.mask, self.dropout(pooled))


# Captions through BERT: word pieces to features.


class BertEncoder(nn.Module):
    """local = W h_l + b of every last-layer state h ([CLS] and [SEP] included), global = the [CLS] row of local.

    Args: model: a model of transformers that gives `last_hidden_state` "n l e" from input_ids and attention_mask. d:
        joint width.
    Shapes: Tokens "n l" → Features(local_feats "n l d", global_feat "n d").
    Raises: BadInput for a caption without a word piece.
    Source: the BERT branches of VSE∞ (Chen et al., CVPR 2021), VSE+2AD and DivE; W starts as torch's own.

    Example: `BertEncoder(bert_of(tensors), d=1024)`.
    """

    def __init__(self, model: nn.Module, d: int):
        super().__init__()
        self.model, self.project = model, nn.Linear(model.config.hidden_size, d)
        self.local_width = d  # of local_feats

    def forward(self, tokens: Tokens) -> Features:
        require_element(tokens.mask, "caption")
        states = self.model(input_ids=tokens.ids, attention_mask=tokens.mask.long()).last_hidden_state
        local = self.project(states)
        return Features(local, tokens.mask, local[:, 0])


def bert_of(tensors: dict[str, Tensor], dropout: float = 0.1) -> nn.Module:
    """A BERT with random weights, of the sizes that its tensors have (names as in transformers); heads are 64 wide.

    Raises: KeyError for a missing tensor that a size is read from.
    """
    words, hidden = tensors["embeddings.word_embeddings.weight"].shape
    layers = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
    config = library().BertConfig(
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=len(layers),
        num_attention_heads=max(1, hidden // 64),
        intermediate_size=len(tensors["encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(tensors["embeddings.position_embeddings.weight"]),
        type_vocab_size=len(tensors["embeddings.token_type_embeddings.weight"]),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return library().BertModel(config, add_pooling_layer=any(name.startswith("pooler.") for name in tensors))
