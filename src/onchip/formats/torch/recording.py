"""Operators and tensors of a running torch program, distinguished by their storages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, pairwise
from math import prod
from typing import Any, Final, TypeAlias

import torch
from torch.utils._pytree import tree_leaves, tree_map

from onchip.errors import InternalError
from onchip.formats.states_and_loops import NEXT, writable
from onchip.ir.operator import SEEN_PARTS, SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor

Extent: TypeAlias = tuple[tuple[int, int], ...]
"""(size, stride) pairs in elements, the smallest stride first."""
Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides and offset, in elements."""


def storage_of(value: torch.Tensor) -> int:
    """Return an identifier of the storage, valid while the storage exists; views of one tensor share it."""
    return int(value.untyped_storage()._cdata)


def bits_of(value: torch.Tensor) -> int:
    """Return the bits of one element of a tensor."""
    return 8 * int(value.element_size())


def bytes_of(value: torch.Tensor) -> int:
    """Return the bytes of all elements, also if an expanded tensor stores them once."""
    return int(value.numel() * value.element_size())


def covers_its_storage(value: torch.Tensor) -> bool:
    """Return True if the tensor has every byte of its storage, in any order."""
    return bool(_elements(_extent(value)) * value.element_size() == value.untyped_storage().nbytes())


def layout_of(value: torch.Tensor) -> Layout:
    """Return the layout, which distinguishes the views of one storage."""
    return tuple(value.shape), tuple(value.stride()), int(value.storage_offset())


def is_in_order(value: torch.Tensor) -> bool:
    """Return True if the elements are in memory order, and none repeats in a part of a storage."""
    strides = [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1]
    moving = [stride for stride in strides if stride > 0]
    is_descending = all(before > after for before, after in pairwise(moving))
    return is_descending and (len(moving) == len(strides) or covers_its_storage(value))


def _extent(value: torch.Tensor) -> Extent:
    """Return the elements of the storage that a tensor has; adjacent dimensions without a hole are merged."""
    pairs = [pair for pair in zip(value.stride(), value.shape, strict=True) if pair[0] > 0 and pair[1] > 1]
    merged: list[tuple[int, int]] = []
    for stride, size in sorted(pairs):
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    return tuple(merged)


def _slice_label(value: torch.Tensor) -> str:
    """Return `[start:stop]` in elements of the storage, or `[start:sizexstride,...]` if the slice has holes.

    All views of the same elements have one label, in any order.
    """
    start, extent = int(value.storage_offset()), _extent(value)
    if all(stride == 1 for _, stride in extent):
        return f"[{start}:{start + _elements(extent)}]"
    return f"[{start}:{','.join(f'{size}x{stride}' for size, stride in extent)}]"


def _elements(extent: Extent) -> int:
    return prod(size for size, _ in extent)


Value: TypeAlias = Any
"""A value of a program: tensors, numbers, and lists of these; recorded, views replace tensors."""
RealBytes: TypeAlias = torch.Tensor
"""The bytes of a tensor as they lie in memory: uint8, of one dimension."""
COPIED: Final = None
"""Replaces an operator: the elements of its only operand are copied."""


@dataclass(frozen=True, slots=True)
class RecordedView:
    """Elements of a tensor of the graph, or of the result of a call that is not in the graph."""

    tensor: str
    element_type: torch.dtype
    layout: Layout
    made_by: RecordedCall | None = None

    @classmethod
    def of(cls, value: torch.Tensor, tensor: str, made_by: RecordedCall | None = None) -> RecordedView:
        """Return the view that a value without elements is of the tensor in its storage."""
        return cls(tensor, value.dtype, layout_of(value), made_by)

    def zeros(self) -> RealBytes:
        """Return the bytes of a tensor whose elements are all seen, as zeros."""
        shape, _, _ = self.layout
        return torch.zeros(prod(shape) * self.element_type.itemsize, dtype=torch.uint8)

    def among(self, content: RealBytes) -> torch.Tensor:
        """Return the elements in these bytes of the tensor."""
        shape, strides, start = self.layout
        return content.view(self.element_type).as_strided(shape, strides, start)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """An operator and its arguments by name, with views in place of tensors.

    `written` pairs each argument that is written in place with the next version of its tensor; `results` are the new
    tensors among the returned leaves, by position. The old bytes of tensors in `overwritten` are irrelevant.
    """

    target: torch._ops.OpOverload | None
    arguments: Mapping[str, Value]
    written: tuple[tuple[str, str], ...] = ()
    results: tuple[tuple[int, str], ...] = ()
    overwritten: frozenset[str] = frozenset()

    def run(self, content: Callable[[str], RealBytes]) -> dict[str, RealBytes]:
        """Return the bytes of all written tensors; `content` gives those of read tensors. Raises as torch does."""
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
    """Return the bytes of the elements in their order."""
    return value.detach().contiguous().reshape(-1).view(torch.uint8)


@dataclass
class Recording:
    """The operators of a program in execution order, needed or not.

    `outputs` pairs torch's name of a network output with its tensor; `optional` are operator outputs that are tensors
    only if they are read; `tensor_in` maps a storage to the tensor that it holds now; `values` keeps the storages
    alive, so that identifiers stay unique. `transposed` are ordered copies of permuted tensors, `copies` those that
    Identities make of inputs and parameters. `scales` maps the storage of a dequantised weight to its other parameters;
    `states` pairs a state with the tensor of its next value.

    `calls` maps a tensor to the call that writes it, `shown` maps a network output to the view that it is, `held` maps
    parameters and states to the program's tensors, `slices` maps a parameter to the view that it is of another;
    `dequantised` maps a storage to the call that dequantises a weight.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    optional: set[str] = field(default_factory=set)
    tensor_in: dict[int, str] = field(default_factory=dict)
    values: list[torch.Tensor] = field(default_factory=list)
    transposed: dict[tuple[str, Layout], torch.Tensor] = field(default_factory=dict)
    copies: dict[tuple[str, str, int], str] = field(default_factory=dict)
    scales: dict[int, list[str]] = field(default_factory=dict)
    states: list[tuple[str, str]] = field(default_factory=list)
    calls: dict[str, RecordedCall] = field(default_factory=dict)
    shown: dict[str, RecordedView] = field(default_factory=dict)
    held: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    slices: dict[str, RecordedView] = field(default_factory=dict)
    dequantised: dict[int, RecordedCall] = field(default_factory=dict)
    element_types: dict[str, torch.dtype] = field(default_factory=dict)

    def unique_name(self, name: str) -> str:
        """Return `name`, or `name` with the first free number."""
        taken = self.tensors.keys() | {operator.name for operator in self.operators}
        candidates = (f"{name}_{number}" if number else name for number in count())
        return next(each for each in candidates if each not in taken)

    def knows(self, value: torch.Tensor) -> bool:
        """Return True if a tensor of the graph lies in the value's storage."""
        return storage_of(value) in self.tensor_in

    def held_by(self, value: torch.Tensor) -> Tensor:
        """Return the tensor in the value's storage; raises InternalError for a storage that was never written."""
        if not self.knows(value):
            raise InternalError("a value lies in a storage that no operator wrote")
        return self.tensors[self.tensor_in[storage_of(value)]]

    def hold_the_same(self, source: torch.Tensor, result: torch.Tensor) -> None:
        """Let the result's storage hold the source's tensor, until an operator in place writes either."""
        self._hold(result, self.tensor_in[storage_of(source)])

    def add_tensor(self, name: str, value: torch.Tensor, role: Role = Role.ACTIVATION) -> str:
        """Add a tensor in the value's storage; return its name."""
        self.tensors[name] = Tensor.of_shape(name, tuple(value.shape), bits_of(value), role)
        self.element_types[name] = value.dtype
        self._hold(value, name)
        return name

    def view(self, value: torch.Tensor) -> RecordedView:
        """Return the tensor and the elements that a value shows."""
        storage = storage_of(value)
        return RecordedView.of(value, self.tensor_in[storage], self.dequantised.get(storage))

    def viewed(self, value: Value) -> Value:
        """Return the value with views in place of tensors; a tensor without elements stays, on the CPU."""

        def leaf_of(leaf: Value) -> Value:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return self.view(leaf) if leaf.numel() else torch.empty(leaf.shape, dtype=leaf.dtype)

        return tree_map(leaf_of, value)

    def add_output(self, name: str, value: torch.Tensor) -> None:
        """Add a network output with torch's name; an Identity makes an output over an input or a parameter."""
        tensor = self._written(value)
        self.outputs.append((name, tensor))
        self._show(name, tensor, value)

    def add_state(self, name: str, value: torch.Tensor) -> None:
        """Add the next value of a state as a network output; each has its own tensor."""
        tensor = self._written(value)
        if tensor in {other for _, other in self.states}:
            tensor = self._add_copy(tensor, value)
        self.states.append((name, tensor))
        self._show(f"{name}{NEXT}", tensor, value)

    def _written(self, value: torch.Tensor) -> str:
        """Return the tensor that a value lies in, or the one copy of it that an Identity makes."""
        tensor = self.operand(value)
        if self.tensors[tensor].role not in (Role.INPUT, Role.PARAMETER):
            return tensor
        elements = tensor, _slice_label(value), bytes_of(value)
        if elements not in self.copies:
            self.copies[elements] = self._add_copy(tensor, value)
        return self.copies[elements]

    def _show(self, name: str, tensor: str, value: torch.Tensor) -> None:
        """Note the elements of a tensor that an output shows: all elements of a copy."""
        is_copy = tensor != self.tensor_in[storage_of(value)]
        shown = torch.empty(value.shape, dtype=value.dtype, device="meta") if is_copy else value
        self.shown[name] = RecordedView.of(shown, tensor)

    def _add_copy(self, source: str, value: torch.Tensor) -> str:
        name = self.unique_name(f"{source}.output")
        self.calls[name] = RecordedCall(COPIED, {"self": self.view(value)}, results=((0, name),))
        self.element_types[name] = value.dtype
        self.add_operator(name, "Identity", [source], [name])
        self.tensors[name] = Tensor.of_shape(name, tuple(value.shape), bits_of(value), Role.ACTIVATION)
        return name

    def add_version(self, name: str, value: torch.Tensor) -> str:
        """Add the tensor that an operator in place leaves in the value's storage, with the old size."""
        old = self.held_by(value)
        self.tensors[name] = Tensor(name, old.size_bytes, Role.ACTIVATION, old.shape, old.bits)
        self._hold(value, name)
        return name

    def note_call(self, call: RecordedCall) -> None:
        """Note the call that computes each tensor that it writes."""
        self.calls |= dict.fromkeys((name for _, name in (*call.written, *call.results)), call)

    def add_operator(
        self,
        name: str,
        kind: str,
        reads: Iterable[str],
        outputs: Iterable[str],
        attributes: dict[str, AttributeValue] | None = None,
    ) -> None:
        """Add an operator that reads tensors of any role; a parameter is listed once."""
        names = tuple(reads)
        inputs = tuple(each for each in names if self.tensors[each].role is not Role.PARAMETER)
        parameters = tuple(dict.fromkeys(each for each in names if self.tensors[each].role is Role.PARAMETER))
        kept = {label: writable(value) for label, value in (attributes or {}).items()}
        self.operators.append(Operator(name, kind, inputs, tuple(outputs), parameters, kept))

    def in_order(self, value: torch.Tensor) -> torch.Tensor:
        """Return the value, or the result of a Transpose if its elements are not in the order of its map."""
        if not self.knows(value) or self.held_by(value).role is Role.PARAMETER or is_in_order(value):
            return value
        source, layout = self.tensor_in[storage_of(value)], layout_of(value)
        if (source, layout) not in self.transposed:
            copy = torch.empty(value.shape, dtype=value.dtype, device="meta")
            name = self.unique_name(f"{source}.transpose")
            kind, attributes = self._transposition(value)
            self.calls[name] = RecordedCall(COPIED, {"self": self.view(value)}, results=((0, name),))
            self.add_operator(name, kind, [source], [self.add_tensor(name, copy)], attributes)
            self.transposed[source, layout] = copy
        return self.transposed[source, layout]

    def operands(self, values: Iterable[object]) -> list[str]:
        """Return the tensors in which the values, and those in lists of values, lie."""
        leaves = self.leaves(values)
        return [self.operand(leaf) for leaf in leaves] + [
            name for leaf in leaves for name in self.scales.get(storage_of(leaf), ())
        ]

    def leaves(self, values: Iterable[object]) -> list[torch.Tensor]:
        """Return all tensors with elements among the values and in lists of values."""
        leaves = [leaf for value in values for leaf in tree_leaves(value)]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.numel() > 0]

    def views_seen(self, leaves: Iterable[torch.Tensor]) -> dict[str, AttributeValue]:
        """Return the attributes that list the shapes read, if one is a view of a tensor of another shape."""
        maps = [leaf for leaf in leaves if self.held_by(leaf).role is not Role.PARAMETER]
        if all(tuple(leaf.shape) == self.held_by(leaf).shape for leaf in maps):
            return {}
        seen: dict[str, AttributeValue] = {SEEN_SHAPES: [[int(size) for size in leaf.shape] for leaf in maps]}
        parts = [self._part_seen(leaf) for leaf in maps]
        return {**seen, SEEN_PARTS: [*parts]} if any(parts) else seen

    def _part_seen(self, value: torch.Tensor) -> list[AttributeValue]:
        """Return first element and strides of a view that does not show each element once; empty for others."""
        tensor = self.held_by(value)
        if bits_of(value) != tensor.bits or bytes_of(value) == tensor.size_bytes:
            return []
        _, strides, first = layout_of(value)
        return [first, *map(int, strides)]

    def operand(self, value: torch.Tensor) -> str:
        """Return the tensor that a value lies in; a slice of a parameter becomes a separate parameter."""
        tensor = self.held_by(value)
        if tensor.role is not Role.PARAMETER or covers_its_storage(value):
            return tensor.name
        name = f"{tensor.name}{_slice_label(value)}"
        if name not in self.tensors:
            shape = tuple(size if stride else 1 for size, stride in zip(value.shape, value.stride(), strict=True))
            self.tensors[name] = Tensor.of_shape(name, shape, bits_of(value), Role.PARAMETER)
            self.slices[name] = self.view(value)
        return name

    def _transposition(self, value: torch.Tensor) -> tuple[str, dict[str, AttributeValue]]:
        """Return a Transpose of a whole map, or the kind `contiguous` for a part of a map, which ONNX lacks."""
        if not covers_its_storage(value) or 0 in value.stride():
            strides: list[AttributeValue] = [int(stride) for stride in value.stride()]
            return "contiguous", {"strides": strides, "offset": int(value.storage_offset())}
        in_memory = sorted(range(value.dim()), key=lambda axis: -value.stride(axis))
        stored = [int(value.shape[axis]) for axis in in_memory]
        attributes: dict[str, AttributeValue] = {"perm": [in_memory.index(axis) for axis in range(value.dim())]}
        if tuple(stored) != self.held_by(value).shape:
            attributes[SEEN_SHAPES] = [list(stored)]
        return "Transpose", attributes

    def _hold(self, value: torch.Tensor, name: str) -> None:
        self.tensor_in[storage_of(value)] = name
        self.values.append(value)
