"""The authors' names of tensors and ours: pairs of prefixes. The first pair that fits a name is used."""

_TEXT = (
    ("txt_enc.embed.", "caption_encoder.embed."),
    ("txt_enc.rnn.", "caption_encoder.rnn."),
    ("txt_enc.cap_rnn.", "caption_encoder.rnn."),
)
# BERT's own names are those of transformers; VSE∞ and CHAN call the projection 'linear', VSE+2AD 'fc'
_BERT = (
    ("txt_enc.bert.", "caption_encoder.model."),
    ("txt_enc.linear.", "caption_encoder.project."),
    ("txt_enc.fc.", "caption_encoder.project."),
)
_GRID = (
    ("img_enc.image_encoder.fc.", "image_encoder.fc."),
    ("img_enc.image_encoder.gpool.", "image_head."),
    ("img_enc.img_proj.", "image_encoder.fc."),
)
_FC = ("img_enc.fc.", "image_encoder.fc.")
_MODALITIES = (("img_enc", "image_head"), ("txt_enc", "caption_head"))


def _pie(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    names = {"attention": "", "fc": "fc.", "layer_norm": "layer_norm."}
    return tuple((f"{theirs}.{old}.", f"{ours}.{new}") for old, new in names.items())


def _slots(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    block = f"{theirs}.agg_block"
    return (
        (f"{block}.latents", f"{ours}.latents"),
        (f"{block}.layers.0.0.norm.", f"{ours}.norm_query."),
        (f"{block}.layers.0.0.norm_context.", f"{ours}.norm_context."),
        (f"{block}.layers.0.0.fn.to_out.0.", f"{ours}.to_out."),
        (f"{block}.layers.0.0.fn.", f"{ours}."),
        (f"{block}.layers.0.2.norm.", f"{ours}.norm_ff."),
        (f"{block}.layers.0.2.fn.net.0.", f"{ours}.ff_in."),
        (f"{block}.layers.0.2.fn.net.3.", f"{ours}.ff_out."),
        (f"{block}.last_layer.0.", f"{ours}.norm_last."),
        (f"{theirs}.residual_norm.", f"{ours}.norm_global."),
    )


def _global(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    names = {"embedding_local.0": "local", "embedding_local.1": "norm_local", "embedding_global.0": "global_linear",
             "embedding_global.1": "norm_global", "embedding_common.0": "common"}  # fmt: skip
    return tuple((f"sim_enc.{theirs}.{old}.", f"{ours}.{new}.") for old, new in names.items())


def _each(make) -> tuple[tuple[str, str], ...]:
    return tuple(pair for theirs, ours in _MODALITIES for pair in make(theirs, ours))


_MLP = (("img_enc.mlp.layers.", "image_encoder.mlp."), ("img_enc.mlp.bns.0.", "image_encoder.norm."))

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "vse++": (_FC, *_TEXT),
    "pvse": (_FC, *_TEXT, *_each(lambda t, o: _pie(f"{t}.pie_net", o))),
    "pcme": (
        _FC, *_TEXT,
        *_each(lambda t, o: _pie(f"{t}.pie_net", f"{o}.mean")),
        *_each(lambda t, o: ((f"{t}.uncertain_net.attention.", f"{o}."), (f"{t}.uncertain_net.", f"{o}."))),
        ("criterion.negative_scale", "similarity.a"), ("criterion.shift", "similarity.b"),
    ),
    "scan": (_FC, *_TEXT),
    "sgraf": (
        _FC, *_TEXT, *_global("v_global_w", "image_head"), *_global("t_global_w", "caption_head"),
        ("sim_enc.sim_tranloc_w.", "similarity.nodes.local."),
        ("sim_enc.sim_tranglo_w.", "similarity.nodes.global_linear."), ("sim_enc.sim_eval_w.", "similarity.score."),
        ("sim_enc.SAF_module.attn_sim_w.", "similarity.reasoner.weigh."),
        ("sim_enc.SAF_module.bn.", "similarity.reasoner.norm."), ("sim_enc.SGR_module.", "similarity.reasoner.steps."),
    ),
    "vse-infty": (_FC, *_TEXT, *_BERT, *_GRID, *_MLP, *_each(lambda t, o: ((f"{t}.gpool.", f"{o}."),))),
    "vse+2ad": (_FC, *_TEXT, *_BERT, *_GRID, *_MLP, *_each(lambda t, o: ((f"{t}.pool.", f"{o}."),))),
    "dive": (
        _FC, *_TEXT,
        ("img_enc.mlp.fc", "image_encoder.fc"), ("img_enc.mlp.bn.bn.", "image_encoder.norm."),
        *_each(lambda t, o: _slots(f"{t}.spm", o)), *_each(lambda t, o: _pie(f"{t}.spm", o)),
    ),
    "chan": (
        _FC, *_TEXT, *_BERT[:2],
        ("img_enc.feedforward.ln.", "image_encoder.norm."), ("img_enc.feedforward.attn.", "image_encoder.attention."),
    ),
}  # fmt: skip

# inside a name that one of the rules has changed
INNER = {".graph_query_w.": ".query.", ".graph_key_w.": ".key.", ".sim_graph_w.": ".graph."}

# left out: a BatchNorm that the authors' forward pass never uses, and the CNN, whose features are our input
UNUSED = ("img_enc.mlp.bns.1.", "img_enc.cnn.", "img_enc.backbone.")
UNUSED_OF = {"chan": ("txt_enc.fc.",)}  # of one method: a linear layer of its bi-GRU, which is never applied


def renamed(method: str, name: str) -> str | None:
    """Our name of an official tensor, or None when no rule fits it.

    >>> renamed("scan", "img_enc.fc.weight")
    'image_encoder.fc.weight'
    """
    for old, new in RULES[method]:
        if name.startswith(old):
            name = new + name[len(old) :]
            for a, b in INNER.items():
                name = name.replace(a, b)
            return name
    return None
