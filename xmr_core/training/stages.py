"""Fine-tuning in stages: pretrained networks wait until the new parts have learned something, then learn from the
output downwards.
"""

from collections.abc import Iterator

from torch import nn


def pretrained_parts(method: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """(prefix of parameter names, module) of each encoder that holds a pretrained network to be fine-tuned.

    Such a module has `stage_prefixes()`, groups of prefixes of its parameters' names from the output to the input, and
    `train_stages(n)`, after which the first n groups learn and no other.
    """
    for name, module in method.named_modules():
        if hasattr(module, "stage_prefixes") and hasattr(module, "train_stages"):
            yield f"{name}." if name else "", module


def pretrained_names(method: nn.Module) -> set[str]:
    """Names of all pretrained parameters of a method."""
    prefixes = tuple(
        part + prefix
        for part, module in pretrained_parts(method)
        for group in module.stage_prefixes()
        for prefix in group
    )
    return {name for name, _ in method.named_parameters() if name.startswith(prefixes)} if prefixes else set()


def stages_learning(epoch: int, stages: int, freeze_epochs: int, unfreeze_every: int) -> int:
    """How many of a network's stages learn in an epoch.

    None in the first freeze_epochs. Then all of them; or, with unfreeze_every above 0, one, and one more every so many
    epochs.
    """
    if epoch < freeze_epochs:
        return 0
    return min(stages, 1 + (epoch - freeze_epochs) // unfreeze_every) if unfreeze_every else stages


def thaw(method: nn.Module, epoch: int, freeze_epochs: int, unfreeze_every: int) -> None:
    """Let a method's pretrained networks learn as far as the epoch says; what does not learn keeps no gradient."""
    for _, module in pretrained_parts(method):
        module.train_stages(stages_learning(epoch, len(module.stage_prefixes()), freeze_epochs, unfreeze_every))
        for parameter in module.parameters():
            if not parameter.requires_grad:
                parameter.grad = None
