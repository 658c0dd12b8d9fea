"""What one round of slot attention learns."""

from torch import nn


class SlotBlock(nn.Module):
    """The layers of one round of `SlotHead` with weight_sharing=False: those of q, k, v and the output, the feed-forward,
    their LayerNorms, and the GRU cell with update 'gru'. The head computes with them.

    Args: d_local: width of the local features. d: width of the slots. inner: heads × width of a head.
    """

    def __init__(self, d_local: int, d: int, inner: int, ff_mult: int, update: str):
        super().__init__()
        add_layers(self, d_local, d, inner, ff_mult)
        self.cell = gru_cell(d, update)


def add_layers(to: nn.Module, d_local: int, d: int, inner: int, ff_mult: int) -> None:
    """Give a module the layers of a block. A head that shares weights has them itself: checkpoints know these names."""
    to.norm_query, to.norm_context = nn.LayerNorm(d), nn.LayerNorm(d_local)
    to.to_q = nn.Linear(d, inner, bias=False)
    to.to_k = nn.Linear(d_local, inner, bias=False)
    to.to_v = nn.Linear(d_local, inner, bias=False)
    to.to_out = nn.Linear(inner, d)
    to.norm_ff = nn.LayerNorm(d)
    to.ff_in, to.ff_out = nn.Linear(d, ff_mult * d), nn.Linear(ff_mult * d, d)


def gru_cell(d: int, update: str) -> nn.GRUCell | None:
    """The cell of update 'gru'; None for 'residual'."""
    return nn.GRUCell(d, d) if update == "gru" else None
