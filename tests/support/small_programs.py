"""Small files of `torch.export`: fixed, with open sizes, with a state, quantised. They need torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.ao.quantization.fx._decomposed
from torch.nn import functional

Value: TypeAlias = Any
"""A torch tensor, module or program."""
Module: Value = torch.nn.Module


class Small(Module):  # type: ignore[misc]
    """A convolution, its normalisation, a mean over the pixels and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 4)

    def forward(self, x: Value) -> Value:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Cached(Module):  # type: ignore[misc]
    """Attention over stored keys; each inference writes one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 16, 8))
        self.query = torch.nn.Linear(8, 8)

    def forward(self, x: Value, at: Value) -> Value:
        self.keys.index_copy_(1, at, self.query(x))
        return torch.softmax(x @ self.keys.transpose(1, 2), -1)


class QuantisedNetwork(Module):  # type: ignore[misc]
    """A network as pt2e leaves it: operators between dequantisation and quantisation run over integers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(8, 8, 3, 3, dtype=torch.int8))
        self.register_buffer("scales", torch.ones(8))
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))

    def forward(self, x: Value) -> Value:
        stated = self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(*stated)
        first = quantised(torch.relu(functional.conv2d(quantised(x), weight, padding=1)))
        return quantised(first + quantised(functional.conv2d(first, weight, padding=1)))


def quantised(x: Value, scale: float = 0.1) -> Value:
    """Return a map quantised to integers and dequantised."""
    integers = torch.ops.quantized_decomposed.quantize_per_tensor(x, scale, 0, -128, 127, torch.int8)
    return torch.ops.quantized_decomposed.dequantize_per_tensor(integers, scale, 0, -128, 127, torch.int8)


def saved(path: Path, module: Value, *inputs: Value, **options: Value) -> Value:
    """Return the program of a module, and write it to the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module.eval(), inputs, **options)
        torch.export.save(program, path)
    return program


def dynamic_file(path: Path) -> Path:
    """Write a program with a batch of any size, and twice as many rows as a second symbol."""
    dims = {"x": {0: torch.export.Dim("batch"), 2: 2 * torch.export.Dim("half", min=2, max=64)}}
    saved(path, Small(), torch.zeros(2, 3, 16, 16), dynamic_shapes=dims)
    return path


def small_programs(folder: Path) -> list[Path]:
    """Write a file of each program."""
    saved(folder / "small.pt2", Small(), torch.zeros(1, 3, 8, 8))
    saved(folder / "cached.pt2", Cached(), torch.zeros(1, 1, 8), torch.zeros(1, dtype=torch.int64))
    saved(folder / "quantised.pt2", QuantisedNetwork(), torch.zeros(1, 8, 4, 4))
    dynamic_file(folder / "dynamic.pt2")
    return sorted(folder.glob("*.pt2"))
