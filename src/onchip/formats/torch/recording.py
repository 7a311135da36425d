"""The operators and tensors of a running torch program, told apart by the storages they lie in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

import torch
from torch.utils._pytree import tree_leaves, tree_map

from onchip.errors import InternalError
from onchip.formats.attributes import writable
from onchip.formats.states import NEXT
from onchip.formats.torch.recorded_calls import COPIED, RecordedCall, RecordedView, Value
from onchip.formats.torch.storage import (
    Layout,
    bits_of,
    bytes_of,
    covers_its_storage,
    is_in_order,
    layout_of,
    permutation_of,
    slice_label,
    storage_of,
)
from onchip.ir.operator import SEEN_PARTS, SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor


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
