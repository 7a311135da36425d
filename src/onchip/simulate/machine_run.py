"""Results of executing a program on real data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from onchip.simulate.kernel_protocol import Bytes


class WrongBytes(StrEnum):
    """The event at which wrong bytes of a tensor were found."""

    READ = "read by an operator"
    WRITTEN = "written by an operator"
    AT_THE_END = "at the end"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first bytes that differ from the unplanned run; `step` is the number of operators run before."""

    tensor: str
    found: WrongBytes
    step: int
    instruction: int | None = None
    operator: str | None = None

    def __str__(self) -> str:
        place = "" if self.instruction is None else f", instruction {self.instruction}"
        who = "" if self.operator is None else f" {self.operator!r}"
        return f"step {self.step}{place}: {self.tensor!r}, {self.found}{who}, differs from the unplanned run"


@dataclass(frozen=True, slots=True)
class MachineRun:
    """The result of a run: bytes moved, the number of tensors compared bit for bit, and the first difference.

    `loads` and `write_backs` are from and to DRAM, `moved` between scratchpads, in bytes. The machine stops at a
    difference, because everything after it differs too. `left` are the bytes of each scratchpad at the end.
    """

    loads: int
    write_backs: int
    moved: int
    compared: int
    difference: Difference | None
    outputs: Mapping[str, Bytes]
    left: Mapping[str, Bytes] = field(default_factory=dict)
