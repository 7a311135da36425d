"""What ExecuTorch says of a module's tensors, as buffers to be packed, and what was decided, written back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from onchip.answer.packing import Buffer
from onchip.errors import GraphError


class TensorSpec(Protocol):
    """The part of ExecuTorch's `TensorSpec` that memory planning reads and writes.

    `lifetime` is the first and the last node that has to do with it, both included. Where there is a `storage_base`,
    the tensor lies `storage_base_offset` bytes behind the start of that.
    """

    lifetime: list[int]
    mem_id: int | None
    mem_obj_id: int | None
    mem_offset: int | None
    storage_base_offset: int

    @property
    def shape(self) -> list[int]:
        """Return the sizes of its dimensions."""

    @property
    def storage_base(self) -> TensorSpec | None:
        """The tensor that it lies within."""

    @property
    def allocated_memory(self) -> int:
        """Its bytes, rounded up to its alignment."""

    def realign(self, new_alignment: int) -> int:
        """Set its alignment; return its bytes."""


@dataclass(frozen=True, slots=True)
class ModuleBuffers:
    """The tensors of a module that need a place of their own, and those that lie within another's or have no bytes.

    `buffers[i]` is what `specs[i]` needs, for its life and the lives of all that lie within it.
    """

    specs: tuple[TensorSpec, ...]
    buffers: tuple[Buffer, ...]
    within: tuple[TensorSpec, ...]
    empty: tuple[TensorSpec, ...]

    @classmethod
    def of(cls, specs: Iterable[TensorSpec], alignment_bytes: int) -> Self:
        """Read them; raises GraphError for a tensor without a life, or within one that is not planned here."""
        asked = tuple(specs)
        own = [spec for spec in asked if spec.storage_base is None]
        within = tuple(spec for spec in asked if spec.storage_base is not None)
        lives = {id(spec): _life(spec) for spec in asked}
        for spec in within:
            root, (start, stop) = id(_root(spec)), lives[id(spec)]
            if root not in lives:
                raise GraphError(
                    "it lies within a tensor that has no planned memory",
                    place=_name(spec),
                    expected="one that is planned, as for alloc_graph_input=True",
                )
            lives[root] = (min(start, lives[root][0]), max(stop, lives[root][1]))
        sizes = {id(spec): spec.realign(alignment_bytes) for spec in asked}
        sized = tuple(spec for spec in own if sizes[id(spec)])
        buffers = tuple(Buffer(*lives[id(spec)], sizes[id(spec)]) for spec in sized)
        return cls(sized, buffers, within, tuple(spec for spec in own if not sizes[id(spec)]))

    def place(self, places: Sequence[tuple[int, int]], default_memory: int) -> None:
        """Write the `mem_id` and offset of each buffer to its tensor, and to those that lie within it.

        Tensors without bytes are at the start of the default memory, or of the one that they are pinned to. Raises
        GraphError where a tensor does not lie wholly within the one that it is said to lie in.
        """
        for spec, (memory, offset) in zip(self.specs, places, strict=True):
            _write(spec, memory, offset)
        for spec in self.empty:
            _write(spec, default_memory if spec.mem_id is None else spec.mem_id, 0)
        for spec in self.within:
            root, offset = _root(spec), _offset_in_root(spec)
            if root.mem_id is None or root.mem_offset is None or offset + spec.allocated_memory > root.allocated_memory:
                raise GraphError(
                    f"it ends {offset + spec.allocated_memory} bytes into a tensor of {root.allocated_memory}",
                    place=_name(spec),
                    expected="a tensor within its storage",
                )
            _write(spec, root.mem_id, root.mem_offset + offset)


def _write(spec: TensorSpec, memory: int, offset: int) -> None:
    spec.mem_id, spec.mem_offset, spec.mem_obj_id = memory, offset, None


def _life(spec: TensorSpec) -> tuple[int, int]:
    """The half-open range of nodes; raises GraphError where ExecuTorch has computed none."""
    first, last = spec.lifetime
    if first is None or last is None:
        raise GraphError(
            "it has no lifetime", place=_name(spec), expected="lifetimes as ExecuTorch's pass computes them"
        )
    return first, last + 1


def _root(spec: TensorSpec) -> TensorSpec:
    """The tensor whose storage it is in the end; raises GraphError for a circle."""
    seen, root = {id(spec)}, spec
    while root.storage_base is not None:
        root = root.storage_base
        if id(root) in seen:
            raise GraphError("it lies within itself", place=_name(spec), expected="a storage of its own in the end")
        seen.add(id(root))
    return root


def _offset_in_root(spec: TensorSpec) -> int:
    offset = 0
    while spec.storage_base is not None:
        offset, spec = offset + spec.storage_base_offset, spec.storage_base
    return offset


def _name(spec: TensorSpec) -> str:
    """Tensors have no names there: one is known by its shape and its life."""
    return f"tensor of shape {list(spec.shape)} over nodes {list(spec.lifetime)}"
