"""Calls of a program as they were recorded: of which bytes their operands are views, and how they run on real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

import torch
from torch.utils._pytree import tree_leaves, tree_map

from onchip.formats.torch.storage import Layout, layout_of

Value: TypeAlias = Any
"""What a program hands about: tensors, numbers, and lists of these; recorded, views in place of tensors."""
RealBytes: TypeAlias = torch.Tensor
"""The bytes of a tensor as they lie in memory: uint8, of one dimension."""
COPIED: Final = None
"""In place of an operator: what its one operand shows is copied, element by element."""


@dataclass(frozen=True, slots=True)
class RecordedView:
    """Elements of a tensor of the graph, or of what a call makes of it, which the graph does not have."""

    tensor: str
    element_type: torch.dtype
    layout: Layout
    made_by: RecordedCall | None = None

    @classmethod
    def of(cls, value: torch.Tensor, tensor: str, made_by: RecordedCall | None = None) -> RecordedView:
        """The view that a value without elements is of the tensor that lies in its storage."""
        return cls(tensor, value.dtype, layout_of(value), made_by)

    def zeros(self) -> RealBytes:
        """As many bytes as the tensor has of which all elements are seen."""
        shape, _, _ = self.layout
        return torch.zeros(prod(shape) * self.element_type.itemsize, dtype=torch.uint8)

    def among(self, content: RealBytes) -> torch.Tensor:
        """The elements, in these bytes of the tensor."""
        shape, strides, start = self.layout
        return content.view(self.element_type).as_strided(shape, strides, start)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """An operator, and its arguments by name, in which views stand for tensors.

    `written` are the tensors that it writes in place: the name of the argument, and of the tensor's next version;
    `results` those among the leaves of what it returns, by their place.
    Of the tensors in `overwritten` no byte counts that is there before.
    """

    target: torch._ops.OpOverload | None
    arguments: Mapping[str, Value]
    written: tuple[tuple[str, str], ...] = ()
    results: tuple[tuple[int, str], ...] = ()
    overwritten: frozenset[str] = frozenset()

    def run(self, content: Callable[[str], RealBytes]) -> dict[str, RealBytes]:
        """The bytes of all that it writes; `content` has those of the tensors that it reads. Raises as torch does."""
        bases: dict[str, RealBytes] = {}

        def real(leaf: Value) -> Value:
            if not isinstance(leaf, RecordedView):
                return torch.device("cpu") if isinstance(leaf, torch.device) else leaf
            if leaf.made_by is not None:
                (made,) = leaf.made_by.run(content).values()
                return leaf.among(made)
            if leaf.tensor not in bases:
                is_new = leaf.tensor in self.overwritten
                bases[leaf.tensor] = leaf.zeros() if is_new else content(leaf.tensor).clone()
            return leaf.among(bases[leaf.tensor])

        with torch.no_grad():
            arguments = {name: tree_map(real, value) for name, value in self.arguments.items()}
            found = next(iter(arguments.values())) if self.target is COPIED else self.target(**arguments)
        leaves = tree_leaves(found)
        return {
            **{tensor: bases[self.arguments[name].tensor] for name, tensor in self.written},
            **{tensor: bytes_in_order(leaves[place]) for place, tensor in self.results},
        }


def bytes_in_order(value: torch.Tensor) -> RealBytes:
    """The elements one after the other, as bytes."""
    return value.detach().contiguous().reshape(-1).view(torch.uint8)
