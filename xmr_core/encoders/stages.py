"""The parts of a network in the order in which fine-tuning opens them: from the output to the input."""

from torch import nn


def stage_prefixes(model: nn.Module, prefix: str = "") -> list[tuple[str, ...]]:
    """Groups of parameter-name prefixes, the last stage first; every parameter of the model begins with those of exactly one.

    A stage is an element of the outermost lists of modules (a ResNet's or Swin's stages, a transformer's layers). What stands
    behind a stage (a norm) belongs to it; what stands before the first (embeddings, stem) is the last group. A group fits
    str.startswith. Args: prefix: put before every name ('backbone.').
    """
    groups: list[list[str]] = [[]]

    def walk(module: nn.Module, at: str) -> None:
        groups[-1].extend(at + name for name, _ in module.named_parameters(recurse=False))
        for name, child in module.named_children():
            here = f"{at}{name}."
            if next(child.parameters(), None) is None:
                continue
            if isinstance(child, nn.ModuleList):
                groups.extend(
                    [[f"{here}{number}."] for number, part in child.named_children() if next(part.parameters(), None) is not None]
                )
            elif any(isinstance(inner, nn.ModuleList) for inner in child.modules()):
                walk(child, here)
            else:
                groups[-1].append(here)

    walk(model, prefix)
    return [tuple(group) for group in reversed(groups) if group]


def train_only(module: nn.Module, groups: list[tuple[str, ...]], count: int, never: frozenset[str] = frozenset()) -> None:
    """Let the first `count` groups learn and no other; parameters of no group are left alone, those in `never` never learn."""
    for name, parameter in module.named_parameters():
        at = next((n for n, group in enumerate(groups) if name.startswith(group)), None)
        if at is not None:
            parameter.requires_grad_(at < count and name not in never)
