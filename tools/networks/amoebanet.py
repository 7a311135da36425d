"""AmoebaNet-D (Real et al., AAAI 2019) as GPipe trained it: 18 layers, 256 filters.

Written from the published genotype, with the choices of kakaobrain/torchgpipe: the normal cell
concatenates states 0, 3, 4 and 6 (as the authors' TensorFlow code, not as the paper), and the
genotype's 3x3 max pooling is run as 3x3 average pooling (the sizes are the same).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

Choice = tuple[int, str]

NORMAL: tuple[tuple[Choice, Choice], ...] = (
    ((1, "conv_1x1"), (1, "pool_3x3")),
    ((1, "identity"), (0, "conv_1x7_7x1")),
    ((0, "conv_1x1"), (0, "conv_1x7_7x1")),
    ((2, "pool_3x3"), (2, "identity")),
    ((1, "pool_3x3"), (5, "conv_1x1")),
)
NORMAL_CONCATENATED = (0, 3, 4, 6)
REDUCTION: tuple[tuple[Choice, Choice], ...] = (
    ((0, "max_pool_2x2"), (0, "pool_3x3")),
    ((2, "identity"), (1, "conv_3x3")),
    ((2, "conv_1x7_7x1"), (2, "pool_3x3")),
    ((3, "identity"), (1, "max_pool_2x2")),
    ((2, "pool_3x3"), (3, "conv_1x1")),
)
REDUCTION_CONCATENATED = (4, 5, 6)


class FactorizedReduction(nn.Module):
    """Halves height and width; the shifted half is padded to the size of the other."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.pad = nn.ZeroPad2d((0, 1, 0, 1))
        self.even = nn.Conv2d(channels_in, channels_out // 2, 1, stride=2, bias=False)
        self.odd = nn.Conv2d(channels_in, channels_out // 2, 1, stride=2, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        """As torch calls it."""
        x = self.relu(x)
        return self.norm(torch.cat([self.even(x), self.odd(self.pad(x[:, :, 1:, 1:]))], dim=1))


def convolution(
    channels_in: int, channels_out: int, kernel: tuple[int, int] = (1, 1), stride: tuple[int, int] = (1, 1)
) -> list[nn.Module]:
    """ReLU, convolution that keeps the size at stride 1, BatchNorm."""
    padding = (kernel[0] // 2, kernel[1] // 2)
    return [
        nn.ReLU(),
        nn.Conv2d(channels_in, channels_out, kernel, stride, padding, bias=False),
        nn.BatchNorm2d(channels_out),
    ]


def candidate(name: str, channels: int, stride: int) -> nn.Module:
    """The operation a genotype names; convolutions larger than 1x1 run on a quarter of the channels."""
    quarter = channels // 4
    match name:
        case "identity":
            return nn.Identity() if stride == 1 else FactorizedReduction(channels, channels)
        case "pool_3x3":
            return nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
        case "max_pool_2x2":
            return nn.MaxPool2d(2, stride)
        case "conv_1x1":
            return nn.Sequential(*convolution(channels, channels, stride=(stride, stride)))
        case "conv_3x3":
            return nn.Sequential(
                *convolution(channels, quarter),
                *convolution(quarter, quarter, (3, 3), (stride, stride)),
                *convolution(quarter, channels),
            )
        case "conv_1x7_7x1":
            return nn.Sequential(
                *convolution(channels, quarter),
                *convolution(quarter, quarter, (1, 7), (1, stride)),
                *convolution(quarter, quarter, (7, 1), (stride, 1)),
                *convolution(quarter, channels),
            )
    raise ValueError(f"no operation {name!r}")


class Cell(nn.Module):
    """Five pairwise sums over the two previous cells' outputs; some states are concatenated."""

    def __init__(self, before: int, previous: int, channels: int, *, reduces: bool, input_was_reduced: bool) -> None:
        super().__init__()
        self.adapt_previous = nn.Sequential(*convolution(previous, channels))
        self.adapt_before: nn.Module = nn.Identity()
        if input_was_reduced:
            self.adapt_before = FactorizedReduction(before, channels)
        elif before != channels:
            self.adapt_before = nn.Sequential(*convolution(before, channels))
        self.steps = REDUCTION if reduces else NORMAL
        self.concatenated = REDUCTION_CONCATENATED if reduces else NORMAL_CONCATENATED
        self.operations = nn.ModuleList(
            candidate(name, channels, 2 if reduces and state < 2 else 1) for step in self.steps for state, name in step
        )

    def forward(self, before: Tensor, previous: Tensor) -> Tensor:
        """As torch calls it."""
        states = [self.adapt_previous(previous), self.adapt_before(before)]
        operations = iter(self.operations)
        for (left, _), (right, _) in self.steps:
            first = next(operations)(states[left])
            second = next(operations)(states[right])
            states.append(first + second)
        return torch.cat([states[index] for index in self.concatenated], dim=1)


class AmoebaNetD(nn.Module):
    """A stem with two reduction cells, then three runs of normal cells, a reduction between."""

    def __init__(self, layers: int = 18, filters: int = 256, classes: int = 1000) -> None:
        super().__init__()
        channels = filters // 4
        self.stem = nn.Sequential(
            nn.ReLU(), nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(channels)
        )
        run = [False] * (layers // 3)
        before = previous = channels
        input_was_reduced = False
        self.cells = nn.ModuleList()
        for reduces in (True, True, *run, True, *run, True, *run):
            channels *= 2 if reduces else 1
            cell = Cell(before, previous, channels, reduces=reduces, input_was_reduced=input_was_reduced)
            self.cells.append(cell)
            before, previous, input_was_reduced = previous, channels * len(cell.concatenated), reduces
        self.pool = nn.AvgPool2d(7)
        self.classifier = nn.Linear(previous, classes)

    def forward(self, image: Tensor) -> Tensor:
        """As torch calls it."""
        before = previous = self.stem(image)
        for cell in self.cells:
            before, previous = previous, cell(before, previous)
        return self.classifier(self.pool(previous).flatten(1))
