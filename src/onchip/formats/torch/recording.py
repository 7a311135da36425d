"""The operators and tensors of a running torch program, told apart by the storages they lie in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

import torch
from torch.utils._pytree import tree_leaves

from onchip.errors import InternalError
from onchip.formats.attributes import writable
from onchip.formats.torch.storage import bits_of, bytes_of, covers_its_storage, slice_label, storage_of
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor


@dataclass
class Recording:
    """All operators in the order of execution, needed or not.

    `outputs` pairs the name torch gives a network output with its tensor; `optional` are the
    outputs of operators that are no tensors unless somebody reads them; `tensor_in` says which
    tensor a storage holds now; `values` keeps the storages, or another would get the same name.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    optional: set[str] = field(default_factory=set)
    tensor_in: dict[int, str] = field(default_factory=dict)
    values: list[torch.Tensor] = field(default_factory=list)

    def unique_name(self, name: str) -> str:
        """`name`, or with the first number that no tensor or operator bears."""
        taken = self.tensors.keys() | {operator.name for operator in self.operators}
        candidates = (f"{name}_{number}" if number else name for number in count())
        return next(each for each in candidates if each not in taken)

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
        self._hold(value, name)
        return name

    def add_copy(self, source: str, value: torch.Tensor) -> str:
        """An Identity that makes a network output of an input or a parameter, or of a view of one."""
        name = self.unique_name(f"{source}.output")
        self.add_operator(name, "Identity", [source], [self.add_tensor(name, value)])
        return name

    def add_version(self, name: str, value: torch.Tensor) -> str:
        """The tensor that an operator in place leaves in the value's storage, as large as the old one."""
        old = self.held_by(value)
        self.tensors[name] = Tensor(name, old.size_bytes, Role.ACTIVATION, old.shape, old.bits)
        self._hold(value, name)
        return name

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

    def operands(self, values: Iterable[object]) -> list[str]:
        """The tensors in which the values, and those in lists of values, lie."""
        leaves = [leaf for value in values for leaf in tree_leaves(value)]
        return [self.operand(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.numel() > 0]

    def operand(self, value: torch.Tensor) -> str:
        """The tensor a value lies in; a slice of a parameter is a parameter of its own."""
        tensor = self.held_by(value)
        if tensor.role is not Role.PARAMETER or covers_its_storage(value):
            return tensor.name
        name = f"{tensor.name}{slice_label(value)}"
        if name not in self.tensors:
            shape = tuple(size if stride else 1 for size, stride in zip(value.shape, value.stride(), strict=True))
            self.tensors[name] = Tensor.of_shape(name, shape, bits_of(value), Role.PARAMETER)
        return name

    def _hold(self, value: torch.Tensor, name: str) -> None:
        self.tensor_in[storage_of(value)] = name
        self.values.append(value)
