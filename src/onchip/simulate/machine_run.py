"""What came of executing a program on real bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from onchip.simulate.kernel_protocol import Bytes


class WrongBytes(StrEnum):
    """Where bytes were found that are not the tensor's."""

    READ = "read by an operator"
    WRITTEN = "written by an operator"
    AT_THE_END = "at the end"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first bytes that are not those of the unplanned run; `step` counts the operators run before."""

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
    """What happened: bytes really moved, tensors compared bit for bit, the first that differs.

    `loads` and `write_backs` go from and to DRAM, `moved` from scratchpad to scratchpad. After a difference the
    machine stops: whatever follows from it differs as well. `left` are the bytes of each scratchpad at the end.
    """

    loads: int
    write_backs: int
    moved: int
    compared: int
    difference: Difference | None
    outputs: Mapping[str, Bytes]
    left: Mapping[str, Bytes] = field(default_factory=dict)
