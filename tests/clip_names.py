"""Tensors of OpenAI's CLIP and of PCME++ by the authors' names, as this package and transformers name them."""

import torch

_BLOCK = {"attn.out_proj": "self_attn.out_proj", "ln_1": "layer_norm1", "ln_2": "layer_norm2", "mlp.c_fc": "mlp.fc1",
          "mlp.c_proj": "mlp.fc2"}  # fmt: skip
_IMAGE = {
    "class_embedding": "embeddings.class_embedding", "positional_embedding": "embeddings.position_embedding.weight",
    "conv1.weight": "embeddings.patch_embedding.weight", "ln_pre": "pre_layrnorm",
}  # fmt: skip
_TEXT = {
    "token_embedding.weight": "embeddings.token_embedding.weight", "ln_final": "final_layer_norm",
    "positional_embedding": "embeddings.position_embedding.weight",
}  # fmt: skip
_SPREAD = ("uncertainty_transformer.resblocks.", "transformer.prob_resblocks.")


def tower(weights: dict[str, torch.Tensor], image: bool) -> dict[str, torch.Tensor]:
    """The state of ClipImageBranches or ClipTextBranches from the authors' tensors behind 'backbone.'."""
    out = {}
    for name, value in weights.items():
        if not name.startswith("backbone."):
            continue
        name = name.removeprefix("backbone.")
        if (start := next((s for s in (*_SPREAD, "transformer.resblocks.") if name.startswith(s)), None)) is None:
            theirs, ours = next(pair for pair in (_IMAGE if image else _TEXT).items() if name.startswith(pair[0]))
            out["backbone." + ours + name.removeprefix(theirs)] = value
            continue
        number, _, rest = name.removeprefix(start).partition(".")
        block = f"spread_blocks.{number}." if start in _SPREAD else f"backbone.encoder.layers.{number}."
        if rest.startswith("attn.in_proj_"):
            for part, piece in zip("qkv", value.chunk(3), strict=True):
                out[f"{block}self_attn.{part}_proj.{rest.removeprefix('attn.in_proj_')}"] = piece
        else:
            theirs, _, kind = rest.rpartition(".")
            out[f"{block}{_BLOCK[theirs]}.{kind}"] = value
    return out


def head(weights: dict[str, torch.Tensor], mean: tuple[str, str], spread: tuple[str, str]) -> dict[str, torch.Tensor]:
    """The state of GaussianGPOHead. mean, spread: the authors' prefixes of linear layer and pooling."""
    names = dict(zip((*mean, *spread), ("mean_linear.", "mean_pool.", "spread_linear.", "spread_pool."), strict=True))
    pairs = ((name, next((t for t in names if name.startswith(t)), None)) for name in weights)
    return {names[theirs] + name.removeprefix(theirs): weights[name] for name, theirs in pairs if theirs}
