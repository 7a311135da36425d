"""DARTS_V2, the ImageNet network of the second-order search (Liu et al., ICLR 2019).

Written from the published genotype and the published network (quark0/darts, `DARTS_V2`):
48 channels, 14 cells, without the auxiliary head, which inference does not run.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

Choice = tuple[str, int]

NORMAL: tuple[tuple[Choice, Choice], ...] = (
    (("sep_conv_3x3", 0), ("sep_conv_3x3", 1)),
    (("sep_conv_3x3", 0), ("sep_conv_3x3", 1)),
    (("sep_conv_3x3", 1), ("skip_connect", 0)),
    (("skip_connect", 0), ("dil_conv_3x3", 2)),
)
REDUCTION: tuple[tuple[Choice, Choice], ...] = (
    (("max_pool_3x3", 0), ("max_pool_3x3", 1)),
    (("skip_connect", 2), ("max_pool_3x3", 1)),
    (("max_pool_3x3", 0), ("skip_connect", 2)),
    (("skip_connect", 2), ("max_pool_3x3", 1)),
)
CONCATENATED = (2, 3, 4, 5)


class FactorizedReduction(nn.Module):
    """Halves height and width: two pointwise convolutions of stride 2, one shifted by a pixel."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.even = nn.Conv2d(channels_in, channels_out // 2, 1, stride=2, bias=False)
        self.odd = nn.Conv2d(channels_in, channels_out // 2, 1, stride=2, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        """As torch calls it."""
        x = self.relu(x)
        return self.norm(torch.cat([self.even(x), self.odd(x[:, :, 1:, 1:])], dim=1))


def pointwise(channels_in: int, channels_out: int) -> nn.Module:
    """What adapts a cell's input to the cell's channels."""
    return nn.Sequential(nn.ReLU(), nn.Conv2d(channels_in, channels_out, 1, bias=False), nn.BatchNorm2d(channels_out))


def depthwise_separable(channels: int, stride: int, dilation: int = 1) -> list[nn.Module]:
    """A 3x3 convolution of each channel on its own, then a pointwise one."""
    return [
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, stride, dilation, dilation, groups=channels, bias=False),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
    ]


def candidate(name: str, channels: int, stride: int) -> nn.Module:
    """The operation a genotype names."""
    match name:
        case "max_pool_3x3":
            return nn.MaxPool2d(3, stride, padding=1)
        case "skip_connect":
            return nn.Identity() if stride == 1 else FactorizedReduction(channels, channels)
        case "sep_conv_3x3":
            return nn.Sequential(*depthwise_separable(channels, stride), *depthwise_separable(channels, 1))
        case "dil_conv_3x3":
            return nn.Sequential(*depthwise_separable(channels, stride, dilation=2))
    raise ValueError(f"no operation {name!r}")


class Cell(nn.Module):
    """Each step adds two operations on earlier states; the last four states are concatenated."""

    def __init__(self, before: int, previous: int, channels: int, *, reduces: bool, input_was_reduced: bool) -> None:
        super().__init__()
        adapt = FactorizedReduction if input_was_reduced else pointwise
        self.adapt_before = adapt(before, channels)
        self.adapt_previous = pointwise(previous, channels)
        self.steps = REDUCTION if reduces else NORMAL
        self.operations = nn.ModuleList(
            candidate(name, channels, 2 if reduces and state < 2 else 1) for step in self.steps for name, state in step
        )

    def forward(self, before: Tensor, previous: Tensor) -> Tensor:
        """As torch calls it."""
        states = [self.adapt_before(before), self.adapt_previous(previous)]
        operations = iter(self.operations)
        for (_, left), (_, right) in self.steps:
            first = next(operations)(states[left])
            second = next(operations)(states[right])
            states.append(first + second)
        return torch.cat([states[index] for index in CONCATENATED], dim=1)


class DartsV2(nn.Module):
    """The ImageNet network: a stem to 28x28, 14 cells, the 5th and the 10th reducing."""

    def __init__(self, channels: int = 48, cells: int = 14, classes: int = 1000) -> None:
        super().__init__()
        self.stem0 = nn.Sequential(
            nn.Conv2d(3, channels // 2, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(channels // 2),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels // 2, channels, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.stem1 = nn.Sequential(
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.cells = nn.ModuleList()
        before = previous = channels
        input_was_reduced = True
        for index in range(cells):
            reduces = index in (cells // 3, 2 * cells // 3)
            channels *= 2 if reduces else 1
            self.cells.append(Cell(before, previous, channels, reduces=reduces, input_was_reduced=input_was_reduced))
            before, previous, input_was_reduced = previous, len(CONCATENATED) * channels, reduces
        self.pool = nn.AvgPool2d(7)
        self.classifier = nn.Linear(previous, classes)

    def forward(self, image: Tensor) -> Tensor:
        """As torch calls it."""
        before = self.stem0(image)
        previous = self.stem1(before)
        for cell in self.cells:
            before, previous = previous, cell(before, previous)
        return self.classifier(self.pool(previous).flatten(1))
