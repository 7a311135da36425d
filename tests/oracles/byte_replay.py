"""A replay of a plan file for one scratchpad on a memory of single bytes: checks legality and counts traffic.

Written from the meaning of a plan (DESIGN, section 2). Each byte knows which tensor occupies it; nothing is shared with
the verifier.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Instruction = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Network:
    """The planned network: sizes and roles by name, without uncounted parameters, and the operands of each operator."""

    size_bytes: dict[str, int]
    role: dict[str, str]
    reads: dict[str, tuple[str, ...]]
    writes: dict[str, tuple[str, ...]]

    @property
    def compulsory_bytes(self) -> int:
        """Return the bytes of one load of each input and parameter that is read, and one write of each output."""
        read = {name for names in self.reads.values() for name in names}
        loaded = (n for n, role in self.role.items() if role in ("input", "parameter") and n in read)
        written = (n for n, role in self.role.items() if role == "output")
        return sum(self.size_bytes[name] for name in (*loaded, *written))


class IllegalError(Exception):
    """The first violation of a plan."""


@dataclass(slots=True)
class ByteMachine:
    """A scratchpad of bytes; operators that `may_run_again` write into new residencies each time.

    `lies_at` is the offset of each resident tensor; tensors in `has_data` have been written, and those in `in_dram`
    have a copy in DRAM.
    """

    network: Network
    capacity_bytes: int
    alignment_bytes: int
    moves_only_the_compulsory: bool
    may_run_again: frozenset[str] = frozenset()
    bytes_: list[str | None] = field(default_factory=list)
    lies_at: dict[str, int] = field(default_factory=dict)
    has_data: set[str] = field(default_factory=set)
    been_here: set[str] = field(default_factory=set)
    in_dram: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    moved_bytes: int = 0
    peak_bytes: int = 0
    arena_bytes: int = 0

    def run(self, instructions: list[Instruction]) -> None:
        """Run a whole program; raises IllegalError at the first violation."""
        self.bytes_ = [None] * self.capacity_bytes
        self.in_dram = {name for name, role in self.network.role.items() if role in ("input", "parameter")}
        for instruction in instructions:
            ((kind, what),) = instruction.items()
            if kind == "compute":
                self._compute(what)
            elif kind == "allocate":
                self._known(what["tensor"], what["memory"])
                self._allocate(what["tensor"], what["offset_bytes"])
            elif kind == "free":
                self._known(what["tensor"], what["memory"])
                self._free(what["tensor"])
            else:
                self._copy(what["tensor"], what["source"], what["target"])
        if set(self.order) != set(self.network.reads):
            raise IllegalError("an operator has not run")
        if self.written != {name for name, role in self.network.role.items() if role == "output"}:
            raise IllegalError("an output has not been written")

    def _known(self, tensor: str, memory: str) -> None:
        if tensor not in self.network.size_bytes or memory != "sram":
            raise IllegalError(f"{tensor} in {memory}")

    def _allocate(self, tensor: str, offset: int) -> None:
        stop = offset + self.network.size_bytes[tensor]
        if tensor in self.lies_at or offset < 0 or offset % self.alignment_bytes or stop > self.capacity_bytes:
            raise IllegalError(f"{tensor} at {offset}")
        if any(self.bytes_[offset:stop]):
            raise IllegalError(f"{tensor} at {offset} overlaps")
        self.bytes_[offset:stop] = [tensor] * (stop - offset)
        self.lies_at[tensor] = offset
        self.peak_bytes = max(self.peak_bytes, sum(one is not None for one in self.bytes_))
        self.arena_bytes = max(self.arena_bytes, stop)

    def _free(self, tensor: str) -> None:
        if self.lies_at.pop(tensor, None) is None:
            raise IllegalError(f"{tensor} freed where it is not")
        self.bytes_ = [None if one == tensor else one for one in self.bytes_]
        self.has_data.discard(tensor)

    def _copy(self, tensor: str, source: str, target: str) -> None:
        self._known(tensor, "sram")
        if {source, target} != {"sram", "dram"}:
            raise IllegalError(f"{tensor} from {source} to {target}")
        if tensor not in self.lies_at or tensor not in (self.in_dram if source == "dram" else self.has_data):
            raise IllegalError(f"{tensor} from {source} to {target}")
        role = self.network.role[tensor]
        if target == "dram":
            if tensor in self.written:
                raise IllegalError(f"{tensor} written again")
            self.written |= {tensor} if role == "output" else set()
            self.in_dram.add(tensor)
        is_first_load = source == "dram" and tensor not in self.been_here and role in ("input", "parameter")
        is_read = any(tensor in names for names in self.network.reads.values())
        is_compulsory = (is_first_load and is_read) or (target == "dram" and role == "output")
        if self.moves_only_the_compulsory and not is_compulsory:
            raise IllegalError(f"{tensor} moves without need")
        if source == "dram":
            self.has_data.add(tensor)
            self.been_here.add(tensor)
        self.moved_bytes += self.network.size_bytes[tensor]

    def _compute(self, operator: str) -> None:
        if operator not in self.network.reads or (operator in self.order and operator not in self.may_run_again):
            raise IllegalError(f"{operator} runs")
        if any(tensor in self.has_data for tensor in self.network.writes[operator]):
            raise IllegalError(f"{operator} writes what is there")
        for tensor in self.network.reads[operator]:
            if tensor not in self.has_data:
                raise IllegalError(f"{operator} reads {tensor}")
        for tensor in self.network.writes[operator]:
            if tensor not in self.lies_at:
                raise IllegalError(f"{operator} writes {tensor}")
            self.has_data.add(tensor)
            self.been_here.add(tensor)
        self.order.append(operator)
