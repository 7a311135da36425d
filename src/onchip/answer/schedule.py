"""A schedule: the whole answer. Which operators run together in tiles, how each tile's loops run, what moves when.

docs/schedule.md says what each part means; `verify` holds a schedule to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.program import Plan
from onchip.answer.stacks import Tiling
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.layer import Layer

WORKSPACE = "@workspace"
"""Behind an operator's name: the tensor of what its mapping needs in a memory while it runs."""
MOST_TILE_OPERATORS: Final = 50_000
"""A network in more of them lies outside the space of schedules."""


class ScheduleError(InputError):
    """A schedule that cannot be, or a file of one that cannot be read."""


@dataclass(frozen=True, slots=True)
class Homes:
    """By operand the memory in which it is whole while its operator runs; None: DRAM, from or to which it streams.

    The home of an operand that the layer does not have is None.
    """

    input: str | None = None
    weight: str | None = None
    output: str | None = None

    def of(self, operand: Operand) -> str | None:
        """The home of one operand."""
        return {Operand.INPUT: self.input, Operand.WEIGHT: self.weight, Operand.OUTPUT: self.output}[operand]

    def __iter__(self) -> Iterator[tuple[Operand, str]]:
        """The operands that have a home on the chip."""
        return ((operand, home) for operand in Operand if (home := self.of(operand)) is not None)


@dataclass(frozen=True, slots=True)
class ScheduledStack:
    """Operators of the network, by name, in the order in which they run; each runs tile by tile if there is a tiling.

    `tiling` cuts the last operator's output; a stack of several operators has one, and only that output leaves it.
    Raises ScheduleError for a stack without operators, or one of several without a tiling.
    """

    operators: tuple[str, ...]
    tiling: Tiling | None = None

    def __post_init__(self) -> None:
        if not self.operators:
            raise ScheduleError("a stack has no operators", place="stacks", expected="at least one")
        if self.tiling is None and len(self.operators) > 1:
            place = f"stack of {self.operators[0]!r}"
            raise ScheduleError(f"{len(self.operators)} operators run without tiles", place=place, expected="a tile")


@dataclass(frozen=True, slots=True)
class ScheduledMapping:
    """How each tile operator of the stack numbered `stack` runs whose loop nest is `layer`, its operands at `homes`."""

    stack: int
    layer: Layer
    homes: Homes
    mapping: LayerMapping


@dataclass(frozen=True, slots=True)
class Schedule:
    """`stacks` in the order in which they run; `program` places and moves every tensor of the network in tiles.

    Raises ScheduleError where an operator is in two stacks, or two mappings are of the same stack, layer and homes.
    """

    stacks: tuple[ScheduledStack, ...]
    mappings: tuple[ScheduledMapping, ...]
    program: Plan

    def __post_init__(self) -> None:
        names = Counter(name for stack in self.stacks for name in stack.operators)
        for name, times in names.items():
            if times > 1:
                raise ScheduleError(f"operator {name!r} is in {times} stacks", place="stacks", expected="one")
        keys = Counter((one.stack, one.layer, one.homes) for one in self.mappings)
        for (stack, _, _), times in keys.items():
            if times > 1:
                detail = f"{times} mappings are of the same layer and homes"
                raise ScheduleError(detail, place=f"mappings of stack {stack}", expected="one")

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from onchip.reports.picture import html_of_schedule

        return html_of_schedule(self)
