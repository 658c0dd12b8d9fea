"""Tiny randomly initialised models and tokenizers of transformers, saved as their users have them."""

import json
from pathlib import Path

import torch

from xmr_core.features.pretrained import library, quiet

SIDE, PATCH, WIDTH = 32, 8, 16  # 4 × 4 patches
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
WORDS = ["a", "dog", "cat", "runs", "sits", "on", "the", "grass", "big", "small", "red", "ball", "##s", "##ing", "and"]

_LAYERS = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
_VISION = _LAYERS | {"image_size": SIDE, "patch_size": PATCH}
_TEXT = _LAYERS | {"vocab_size": 40}
_READS = _TEXT | {"max_position_embeddings": 20}
_SHORT = {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
_STAGES = {"hidden_sizes": [8, 8, 12, WIDTH], "depths": [1, 1, 2, 1]}
_SWIN = {"image_size": SIDE, "patch_size": 2, "embed_dim": 4, "depths": [1] * 4, "num_heads": [1, 1, 2, 2]}
_SWIN["window_size"] = 2


def pil_processor(name: str) -> type:
    """transformers' own image processor that needs no torchvision, by the name that preprocessor_config.json has."""
    return getattr(library(), f"{name}Pil", None) or getattr(library(), name)


def make(name: str):
    """A model by a short name; the same numbers each time."""
    t = library()
    ends = {"eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0}
    clip_text = _TEXT | ends | {"max_position_embeddings": 12}
    siglip_text = _TEXT | ends | {"max_position_embeddings": 10, "projection_size": WIDTH}
    makers = {
        "resnet": lambda: t.ResNetModel(t.ResNetConfig(embedding_size=8, layer_type="bottleneck", **_STAGES)),
        "vit": lambda: t.ViTModel(t.ViTConfig(**_VISION)),
        "vit-classifier": lambda: t.ViTForImageClassification(t.ViTConfig(**_VISION, num_labels=3)),
        "registers": lambda: t.Dinov2WithRegistersModel(t.Dinov2WithRegistersConfig(**_VISION, num_register_tokens=4)),
        "swin": lambda: t.SwinModel(t.SwinConfig(**_SWIN)),
        "convnext": lambda: t.ConvNextModel(t.ConvNextConfig(**_STAGES)),
        "masked": lambda: t.ViTMAEModel(t.ViTMAEConfig(**_VISION)),
        "clip": lambda: t.CLIPModel(t.CLIPConfig(vision_config=_VISION, text_config=clip_text, projection_dim=10)),
        "siglip": lambda: t.SiglipModel(t.SiglipConfig(vision_config=_VISION, text_config=siglip_text)),
        "bert": lambda: t.BertModel(t.BertConfig(**_TEXT, max_position_embeddings=20)),
        "bert-decoder": lambda: t.BertModel(t.BertConfig(**_READS, is_decoder=True)),
        "roberta": lambda: t.RobertaModel(t.RobertaConfig(**_READS | ends)),
        "roberta-decoder": lambda: t.RobertaModel(t.RobertaConfig(**_READS | ends, is_decoder=True)),
        "mpnet": lambda: t.MPNetModel(t.MPNetConfig(**_READS | ends)),
        "distilbert": lambda: t.DistilBertModel(t.DistilBertConfig(vocab_size=40, **_SHORT)),
        "gpt2": lambda: t.GPT2Model(t.GPT2Config(vocab_size=40, n_positions=20, n_embd=WIDTH, n_layer=2, n_head=2)),
        "llama": lambda: t.LlamaModel(t.LlamaConfig(**_READS, num_key_value_heads=2)),
        "xlm-causal": lambda: t.XLMModel(t.XLMConfig(vocab_size=40, emb_dim=WIDTH, n_layers=2, n_heads=2, causal=True)),
        "xlnet": lambda: t.XLNetModel(t.XLNetConfig(vocab_size=40, d_model=WIDTH, n_layer=2, n_head=2, d_inner=24)),
        "fnet": lambda: t.FNetModel(t.FNetConfig(vocab_size=40, hidden_size=WIDTH, num_hidden_layers=2)),
        "convbert": lambda: t.ConvBertModel(t.ConvBertConfig(**_READS, embedding_size=WIDTH)),
        "bart": lambda: t.BartModel(t.BartConfig(vocab_size=40, d_model=WIDTH, encoder_layers=1, decoder_layers=1)),
    }
    torch.manual_seed(3)
    with quiet():
        model = makers[name]().eval()
    for parameter in model.parameters():  # their own start leaves much at 0 or 1, where mistakes do not show
        parameter.data += 0.1 * torch.randn_like(parameter)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(), module.running_var.uniform_(0.5, 2)
    return model


def save(name: str, folder: Path, preprocessor: bool = True) -> Path:
    """Save a model with what belongs to it."""
    with quiet():
        model = make(name)
        model.save_pretrained(folder)
        if name != "bert" and (name in ("clip", "siglip") or model.main_input_name == "input_ids"):
            closing_tokenizer().save_pretrained(folder)
    if name == "bert":
        specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        (folder / "vocab.txt").write_text("\n".join(specials + WORDS) + "\n")
        content = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
        (folder / "tokenizer_config.json").write_text(json.dumps(content))
    elif preprocessor:
        size = {"height": SIDE, "width": SIDE}
        content = {"size": size, "image_mean": MEAN, "image_std": STD, "do_normalize": True}
        (folder / "preprocessor_config.json").write_text(json.dumps(content))
    return folder


def closing_tokenizer(pad: bool = True):
    """Whole words, an end of text behind them; it keeps capitals and punctuation apart, as a sentence-piece model
    would.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["<pad>", "<unk>", "<start>", "</s>", *WORDS, "A", "Dog", ".", "!"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 3)])
    padding = {"pad_token": "<pad>"} if pad else {}
    return library().PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>", **padding)
