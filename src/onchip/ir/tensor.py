"""A tensor: an edge of the network's graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Self

from onchip.errors import GraphError


class Role(StrEnum):
    """The role of a tensor in the network."""

    INPUT = "input"
    ACTIVATION = "activation"
    OUTPUT = "output"
    PARAMETER = "parameter"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array of known size.

    `shape` and `bits` (per element) are both given or both None. `aliases` are further names of the same bytes (two
    network outputs over one base). `part_of` and `region` (half-open ranges, one per dimension) say that the tensor is
    a tile of a larger one. Raises GraphError for invalid values.
    """

    name: str
    size_bytes: int
    role: Role
    shape: tuple[int, ...] | None = None
    bits: int | None = None
    aliases: tuple[str, ...] = ()
    part_of: str | None = None
    region: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise GraphError("a tensor has no name", expected="a name")
        if self.size_bytes <= 0:
            raise self._error(f"its size is {self.size_bytes} bytes", "at least 1 byte")
        if (self.shape is None) != (self.bits is None):
            raise self._error("shape and bits stand together", "both or neither")
        if self.shape is not None and self.bits is not None:
            expected_bytes = size_in_bytes(self.shape, self.bits)
            if self.size_bytes != expected_bytes:
                expected = f"{expected_bytes} for {list(self.shape)} of {self.bits} bits"
                raise self._error(f"its size is {self.size_bytes} bytes", expected)
        if (self.part_of is None) != (self.region is None):
            raise self._error("part_of and region stand together", "both or neither")
        for start, stop in self.region or ():
            if start < 0 or stop <= start:
                raise self._error("a range of its region is empty", "0 <= start < stop")

    @classmethod
    def of_shape(cls, name: str, shape: tuple[int, ...], bits: int, role: Role) -> Self:
        """Return a tensor of `shape` with elements of `bits` bits; raises GraphError for empty shapes."""
        for dimension in shape:
            if dimension <= 0:
                raise GraphError(
                    f"its shape {list(shape)} has the dimension {dimension}",
                    place=f"tensor {name!r}",
                    expected="every dimension at least 1",
                )
        if bits <= 0:
            raise GraphError(f"its elements have {bits} bits", place=f"tensor {name!r}", expected="at least 1")
        return cls(name, size_in_bytes(shape, bits), role, shape, bits)

    def _error(self, what: str, expected: str) -> GraphError:
        return GraphError(what, place=f"tensor {self.name!r}", expected=expected)


def size_in_bytes(shape: tuple[int, ...], bits: int) -> int:
    """Return ceil(elements * bits / 8); a scalar has one element."""
    return -(-prod(shape) * bits // 8)
