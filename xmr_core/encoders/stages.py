"""The stages of a pretrained network in the order in which fine-tuning opens them: from the output to the input."""

import json
from collections.abc import Collection
from pathlib import Path

from torch import nn

from xmr_core.base.errors import BadInput
from xmr_core.data.features.pretrained import copy_weights


class FineTuned(nn.Module):
    """An encoder around a pretrained network, `backbone`, whose stages can be opened for learning one after the other.

    A subclass sets `kind` ('image' or 'text'), then `backbone`, and calls find_stages when it is built. untrained:
    names of parameters ('backbone.…') that never learn.
    """

    kind: str
    backbone: nn.Module

    def find_stages(self, untrained: Collection[str] = ()) -> None:
        """Note the stages of the backbone and let all of them learn."""
        self.stages, self._untrained = stage_prefixes(self.backbone, "backbone."), frozenset(untrained)
        self.train_stages(len(self.stages))

    def load_weights(self, source: Path | str) -> str:
        """Fill the backbone with the weights of a folder or hub name; returns their identity.

        Raises: BadInput for another network.
        """
        return copy_weights(self.backbone, source, self.kind)

    def stage_prefixes(self) -> list[tuple[str, ...]]:
        """Groups of prefixes of parameter names, from the output to the input; for unfreezing and learning rates."""
        return self.stages

    def train_stages(self, count: int) -> None:
        """Let the last `count` stages of the backbone learn, and no others; what comes after the backbone learns."""
        for name, parameter in self.named_parameters():
            stage = next((n for n, group in enumerate(self.stages) if name.startswith(group)), None)
            if stage is not None:
                parameter.requires_grad_(stage < count and name not in self._untrained)


def read_description(description: str, function: str) -> dict:
    """The JSON object that `function` wrote. Raises: BadInput unless it holds an architecture."""
    try:
        values = json.loads(description)
        return {"architecture": values["architecture"], **values}
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"a description from {function} is needed, got {description[:60]!r}.") from None


def stage_prefixes(model: nn.Module, prefix: str = "") -> list[tuple[str, ...]]:
    """Groups of prefixes of parameter names, the last stage first; every parameter begins with those of exactly one
    group.

    A stage is an element of the outermost lists of modules (the stages of a ResNet or Swin, the layers of a
    transformer), with what follows it up to the next (a norm). What comes before the first stage (embeddings, stem) is
    the last group. A group fits str.startswith. prefix: put before every name ('backbone.').

    >>> stage_prefixes(nn.ModuleDict({"stem": nn.Linear(2, 2), "layers": nn.ModuleList([nn.Linear(2, 2)])}))
    [('layers.0.',), ('stem.',)]
    """
    groups: list[list[str]] = [[]]

    def walk(module: nn.Module, path: str) -> None:
        groups[-1].extend(path + name for name, _ in module.named_parameters(recurse=False))
        for name, child in module.named_children():
            inner = f"{path}{name}."
            if not _has_parameters(child):
                continue
            if isinstance(child, nn.ModuleList):
                groups.extend([f"{inner}{number}."] for number, part in child.named_children() if _has_parameters(part))
            elif any(isinstance(part, nn.ModuleList) for part in child.modules()):
                walk(child, inner)
            else:
                groups[-1].append(inner)

    walk(model, prefix)
    return [tuple(group) for group in reversed(groups) if group]


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None
