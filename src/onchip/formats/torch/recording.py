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
from onchip.formats.networks import NEXT, writable
from onchip.ir.operator import SEEN_PARTS, SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor

Extent: TypeAlias = tuple[tuple[int, int], ...]
"""(size, stride) pairs in elements, the smallest stride first."""
Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides and offset, in elements."""


def storage_of(value: torch.Tensor) -> int:
    """Names the storage, as long as it is kept; views of one tensor have one storage."""
    return int(value.untyped_storage()._cdata)


def bits_of(value: torch.Tensor) -> int:
    """Return the bits of one element of a tensor."""
    return 8 * int(value.element_size())


def bytes_of(value: torch.Tensor) -> int:
    """Bytes of all elements as if each had its own, which those of an expanded tensor have not."""
    return int(value.numel() * value.element_size())


def covers_its_storage(value: torch.Tensor) -> bool:
    """Whether every byte of the storage is one of the tensor's, in any order."""
    return bool(_elements(_extent(value)) * value.element_size() == value.untyped_storage().nbytes())


def slice_label(value: torch.Tensor) -> str:
    """`[start:stop]` in elements of the storage; `[start:sizexstride,...]` where the slice has holes.

    The same for every view of the same elements, whatever their order.
    """
    start, extent = int(value.storage_offset()), _extent(value)
    if all(stride == 1 for _, stride in extent):
        return f"[{start}:{start + _elements(extent)}]"
    return f"[{start}:{','.join(f'{size}x{stride}' for size, stride in extent)}]"


def layout_of(value: torch.Tensor) -> Layout:
    """What tells views of one storage apart."""
    return tuple(value.shape), tuple(value.stride()), int(value.storage_offset())


def is_in_order(value: torch.Tensor) -> bool:
    """Whether its elements stand one after the other as in memory; of a part of a storage, none of them twice."""
    strides = [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1]
    moving = [stride for stride in strides if stride > 0]
    is_descending = all(before > after for before, after in pairwise(moving))
    return is_descending and (len(moving) == len(strides) or covers_its_storage(value))


def permutation_of(value: torch.Tensor) -> tuple[int, ...]:
    """By axis of the value its place among the axes in memory: the permutation with which a Transpose makes it."""
    in_memory = sorted(range(value.dim()), key=lambda axis: -value.stride(axis))
    return tuple(in_memory.index(axis) for axis in range(value.dim()))


def _extent(value: torch.Tensor) -> Extent:
    """Which elements of its storage a tensor has: neighbouring dimensions that leave no hole are one."""
    pairs = [pair for pair in zip(value.stride(), value.shape, strict=True) if pair[0] > 0 and pair[1] > 1]
    merged: list[tuple[int, int]] = []
    for stride, size in sorted(pairs):
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    return tuple(merged)


def _elements(extent: Extent) -> int:
    return prod(size for size, _ in extent)


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


@dataclass
class Recording:
    """All operators in the order of execution, needed or not.

    `outputs` pairs the name torch gives a network output with its tensor; `optional` are the
    outputs of operators that are no tensors unless somebody reads them; `tensor_in` says which
    tensor a storage holds now; `values` keeps the storages, or another would get the same name.
    `transposed` are the copies in the order of their elements that were made of permuted tensors,
    `copies` those that Identities make of inputs and parameters. `scales` says by the storage of a
    dequantised weight what else it is made of; `states` pairs what keeps its value from one
    inference to the next with the tensor of its next value.

    `calls` says by the name of a tensor which call writes it, `shown` of which tensors the network outputs are views,
    `held` what the program holds of parameters and states, `slices` what parameters are parts of;
    `dequantised` says by storage which call makes floating point of a weight.
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
        """`name`, or with the first number that no tensor or operator bears."""
        taken = self.tensors.keys() | {operator.name for operator in self.operators}
        candidates = (f"{name}_{number}" if number else name for number in count())
        return next(each for each in candidates if each not in taken)

    def new_among(self, leaves: Iterable[object]) -> dict[int, torch.Tensor]:
        """Return by their places the tensors with elements that are not known yet."""
        tensors = ((place, leaf) for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor))
        return {place: leaf for place, leaf in tensors if leaf.numel() > 0 and not self.knows(leaf)}

    def knows(self, value: torch.Tensor) -> bool:
        """Whether a tensor of the graph lies in the value's storage."""
        return storage_of(value) in self.tensor_in

    def held_by(self, value: torch.Tensor) -> Tensor:
        """The tensor that lies in the value's storage now; raises InternalError for a storage never written."""
        if not self.knows(value):
            raise InternalError("a value lies in a storage that no operator wrote")
        return self.tensors[self.tensor_in[storage_of(value)]]

    def is_same_bytes(self, source: torch.Tensor, result: torch.Tensor) -> bool:
        """Whether the result has as many bytes, of the same data type, as the tensor `source` lies in."""
        return bool(source.dtype == result.dtype) and self.held_by(source).size_bytes == bytes_of(result)

    def hold_the_same(self, source: torch.Tensor, result: torch.Tensor) -> None:
        """Lets the result's storage hold the source's tensor, until an operator in place writes either."""
        self._hold(result, self.tensor_in[storage_of(source)])

    def add_tensor(self, name: str, value: torch.Tensor, role: Role = Role.ACTIVATION) -> str:
        """A new tensor in the value's storage."""
        self.tensors[name] = Tensor.of_shape(name, tuple(value.shape), bits_of(value), role)
        self.element_types[name] = value.dtype
        self._hold(value, name)
        return name

    def view(self, value: torch.Tensor) -> RecordedView:
        """Of which tensor of the graph a value shows which elements."""
        storage = storage_of(value)
        return RecordedView.of(value, self.tensor_in[storage], self.dequantised.get(storage))

    def viewed(self, value: Value) -> Value:
        """The same with views in place of tensors; one without elements stands for itself, on the CPU."""

        def leaf_of(leaf: Value) -> Value:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return self.view(leaf) if leaf.numel() else torch.empty(leaf.shape, dtype=leaf.dtype)

        return tree_map(leaf_of, value)

    def add_output(self, name: str, value: torch.Tensor) -> None:
        """Makes a network output, called so in torch; one over an input or a parameter is an Identity's."""
        tensor = self._written(value)
        self.outputs.append((name, tensor))
        self._show(name, tensor, value)

    def add_state(self, name: str, value: torch.Tensor) -> None:
        """Makes a network output of the next value of what is kept under the name; no two have one tensor."""
        tensor = self._written(value)
        if tensor in {other for _, other in self.states}:
            tensor = self._add_copy(tensor, value)
        self.states.append((name, tensor))
        self._show(f"{name}{NEXT}", tensor, value)

    def _written(self, value: torch.Tensor) -> str:
        """The tensor that a value lies in, or the copy of it that an Identity makes, once."""
        tensor = self.operand(value)
        if self.tensors[tensor].role not in (Role.INPUT, Role.PARAMETER):
            return tensor
        elements = tensor, slice_label(value), bytes_of(value)
        if elements not in self.copies:
            self.copies[elements] = self._add_copy(tensor, value)
        return self.copies[elements]

    def _show(self, name: str, tensor: str, value: torch.Tensor) -> None:
        """Note which elements of a tensor an output shows: of a copy, all of it."""
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
        """The tensor that an operator in place leaves in the value's storage, as large as the old one."""
        old = self.held_by(value)
        self.tensors[name] = Tensor(name, old.size_bytes, Role.ACTIVATION, old.shape, old.bits)
        self._hold(value, name)
        return name

    def note_call(self, call: RecordedCall) -> None:
        """Note by all that a call writes how it is computed."""
        self.calls |= dict.fromkeys((name for _, name in (*call.written, *call.results)), call)

    def add_operator(
        self,
        name: str,
        kind: str,
        reads: Iterable[str],
        outputs: Iterable[str],
        attributes: dict[str, AttributeValue] | None = None,
    ) -> None:
        """An operator that reads tensors of any role; a parameter is listed once."""
        names = tuple(reads)
        inputs = tuple(each for each in names if self.tensors[each].role is not Role.PARAMETER)
        parameters = tuple(dict.fromkeys(each for each in names if self.tensors[each].role is Role.PARAMETER))
        kept = {label: writable(value) for label, value in (attributes or {}).items()}
        self.operators.append(Operator(name, kind, inputs, tuple(outputs), parameters, kept))

    def in_order(self, value: torch.Tensor) -> torch.Tensor:
        """The value, or where its elements stand in another order than in its map, what a Transpose makes of it."""
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
        """The tensors in which the values, and those in lists of values, lie."""
        leaves = self.leaves(values)
        return [self.operand(leaf) for leaf in leaves] + [
            name for leaf in leaves for name in self.scales.get(storage_of(leaf), ())
        ]

    def leaves(self, values: Iterable[object]) -> list[torch.Tensor]:
        """All tensors with elements among the values and in lists of values."""
        leaves = [leaf for value in values for leaf in tree_leaves(value)]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.numel() > 0]

    def views_seen(self, leaves: Iterable[torch.Tensor]) -> dict[str, AttributeValue]:
        """The attributes that list what of all maps is read, where one is a view of a tensor of another shape."""
        maps = [leaf for leaf in leaves if self.held_by(leaf).role is not Role.PARAMETER]
        if all(tuple(leaf.shape) == self.held_by(leaf).shape for leaf in maps):
            return {}
        seen: dict[str, AttributeValue] = {SEEN_SHAPES: [[int(size) for size in leaf.shape] for leaf in maps]}
        parts = [self._part_seen(leaf) for leaf in maps]
        return {**seen, SEEN_PARTS: [*parts]} if any(parts) else seen

    def _part_seen(self, value: torch.Tensor) -> list[AttributeValue]:
        """The first element and the strides of a view that shows not each element once; empty for another one."""
        tensor = self.held_by(value)
        if bits_of(value) != tensor.bits or bytes_of(value) == tensor.size_bytes:
            return []
        _, strides, first = layout_of(value)
        return [first, *map(int, strides)]

    def operand(self, value: torch.Tensor) -> str:
        """The tensor a value lies in; a slice of a parameter is a parameter of its own."""
        tensor = self.held_by(value)
        if tensor.role is not Role.PARAMETER or covers_its_storage(value):
            return tensor.name
        name = f"{tensor.name}{slice_label(value)}"
        if name not in self.tensors:
            shape = tuple(size if stride else 1 for size, stride in zip(value.shape, value.stride(), strict=True))
            self.tensors[name] = Tensor.of_shape(name, shape, bits_of(value), Role.PARAMETER)
            self.slices[name] = self.view(value)
        return name

    def _transposition(self, value: torch.Tensor) -> tuple[str, dict[str, AttributeValue]]:
        """Of a whole map a Transpose; what takes a part of one as well has no kind of ONNX's."""
        if not covers_its_storage(value) or 0 in value.stride():
            strides: list[AttributeValue] = [int(stride) for stride in value.stride()]
            return "contiguous", {"strides": strides, "offset": int(value.storage_offset())}
        permutation = permutation_of(value)
        stored = [int(value.shape[axis]) for axis in sorted(range(value.dim()), key=permutation.__getitem__)]
        attributes: dict[str, AttributeValue] = {"perm": list(permutation)}
        if tuple(stored) != self.held_by(value).shape:
            attributes[SEEN_SHAPES] = [list(stored)]
        return "Transpose", attributes

    def _hold(self, value: torch.Tensor, name: str) -> None:
        self.tensor_in[storage_of(value)] = name
        self.values.append(value)
