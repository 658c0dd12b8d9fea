"""Captions through BERT: word pieces to features."""

from torch import Tensor, nn

from xmr_core.base.masked import require_element
from xmr_core.base.types import Features, Tokens
from xmr_core.data.features.model_folder import library


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

    @property
    def local_width(self) -> int:
        """Width of local_feats."""
        return self.project.out_features

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
