"""Train the small CLIP that comes along (`shipped:clip`): from random weights, on the drawn images of world 1.

    python scripts/ship_clip.py

It is there so that fine-tuning can be tried where no dual encoder can be downloaded. It is no part of the study.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerFast

import xmr_core as xmr
from xmr_core.models.load import SHIPPED

SIDE, WIDTH, LAYERS, LONGEST = 64, 64, 2, 32  # pixels; of the vectors; of each tower; word pieces
EPOCHS, RATE = 120, 2e-3
SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<start>", "eos_token": "<end>"}


def untrained(folder: Path, texts: list[str]) -> None:
    """A CLIP of transformers with random weights, and a tokenizer of the words of some captions."""
    words = {word: n for n, word in enumerate([*SPECIAL.values(), *sorted({w for t in texts for w in t.split()})])}
    tokenizer = Tokenizer(models.WordLevel(words, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(token, words[token]) for token in ("<start>", "<end>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<start> $A <end>", special_tokens=ends)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **SPECIAL).save_pretrained(folder)
    size = {"hidden_size": WIDTH, "intermediate_size": WIDTH // 2, "num_hidden_layers": LAYERS}
    size |= {"num_attention_heads": 4}
    ids = {name.replace("token", "token_id"): words[token] for name, token in SPECIAL.items() if name != "unk_token"}
    text = size | ids | {"vocab_size": len(words), "max_position_embeddings": LONGEST}
    vision = size | {"image_size": SIDE, "patch_size": 8}
    torch.manual_seed(0)
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH)).save_pretrained(folder)
    square = {"height": SIDE, "width": SIDE}
    scaling = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_center_crop": False, "size": square}
    kind = {"image_processor_type": "CLIPImageProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(kind | scaling))


def main() -> int:
    texts = xmr.data.load_scenes("quick", seed=1).captions["text"].tolist()
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "untrained-clip")
        untrained(Path(place), texts)
        config = xmr.base_config(
            "clip", world_seed=1, dual_model=place, epochs=EPOCHS, lr=RATE, freeze_epochs=0, pretrained_lr=1.0, views=0,
            device="cpu",
        )  # fmt: skip
        run = xmr.train_or_load(config)
        shutil.rmtree(SHIPPED / "clip", ignore_errors=True)
        xmr.load(run, device="cpu").save_pretrained(SHIPPED / "clip")
    print(run, sum(f.stat().st_size for f in (SHIPPED / "clip").iterdir()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
