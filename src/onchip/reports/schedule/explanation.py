"""Why a schedule costs what it costs: where the energy goes, what moves, and what stands against its staying."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from onchip.arch.energies import summed
from onchip.arch.memory import DRAM
from onchip.errors import InternalError, UsageError
from onchip.model.program.figures import ScheduleFigures
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.explain.schedule_movements import (
    MovementKind,
    MovementReason,
    ScheduleMovements,
    TensorMovement,
)
from onchip.reports.schedule.operator_figures import OperatorFigures, figures_of_operators
from onchip.reports.schedule.outcome import ScheduleOutcome

STREAMED: Final = (MovementKind.STREAMED_IN, MovementKind.STREAMED_OUT)
SHORT_OF_ROOM: Final = (MovementReason.TOO_LARGE, MovementReason.NO_ROOM)


@dataclass(frozen=True, slots=True)
class MovementSum:
    """Movements of one tensor of the network, alike in kind, reason, operator of the network and memory on the chip.

    `memory` is None for what is streamed. `worst` is the one of them that lacks the most room.
    """

    tensor: str
    kind: MovementKind
    operator: str
    memory: str | None
    reason: MovementReason
    times: int
    bits: int
    energy_pj: float | None
    worst: TensorMovement

    @property
    def size_bytes(self) -> int:
        """All that moves, rounded up."""
        return -(-self.bits // 8)


@dataclass(frozen=True)
class ScheduleExplanation:
    """Of a legal schedule, as a whole or, if it is named, of one `tensor` of the network."""

    outcome: ScheduleOutcome
    figures: ScheduleFigures
    history: ScheduleHistory
    tensor: str | None = None

    @classmethod
    def of(cls, outcome: ScheduleOutcome, tensor: str | None = None) -> ScheduleExplanation:
        """Explain a schedule; raises UsageError for a tensor that there is not, InternalError without a schedule."""
        document, tiles, figures = outcome.document, outcome.tiles, outcome.figures
        if document is None or tiles is None or figures is None:
            raise InternalError("there is no schedule to explain", place="explanation")
        if tensor is not None:
            bands = {one.name: one.part_of or one.name for one in tiles.graph.tensors}
            if tensor not in bands and tensor not in bands.values():
                some = ", ".join(list(dict.fromkeys(bands.values()))[:5])
                raise UsageError(f"{tensor!r} is no tensor of it", place="--tensor", expected=f"one like {some}")
            tensor = bands.get(tensor, tensor)
        history = ScheduleHistory(document.answer, tiles, outcome.accelerator, outcome.compute_costs)
        return cls(outcome, figures, history, tensor)

    @cached_property
    def movements(self) -> ScheduleMovements:
        """Every Copy and every streamed operand."""
        return ScheduleMovements(self.history)

    @cached_property
    def own_movements(self) -> tuple[TensorMovement, ...]:
        """Those of the tensor, if one is named, in the order of steps."""
        found = [one for one in self.movements.all if self.tensor in (None, one.tensor)]
        return tuple(sorted(found, key=lambda one: one.step))

    @cached_property
    def operators(self) -> tuple[OperatorFigures, ...]:
        """The operators of the network, the most expensive first; by cycles if energies are unknown."""
        found = figures_of_operators(self.outcome.network, self.history)
        return tuple(sorted(found, key=lambda one: (-sum(one.energy_pj.values()), -one.cycles)))

    @cached_property
    def sums(self) -> tuple[MovementSum, ...]:
        """What moves, the most expensive first; by bits if energies are unknown."""
        origins = self.history.tiles.operators
        found = sums_of_movements(self.own_movements, {name: origin.operator for name, origin in origins.items()})
        return tuple(sorted(found, key=lambda one: (-(one.energy_pj or 0.0), -one.bits)))


def sums_of_movements(movements: Iterable[TensorMovement], origin_of: Mapping[str, str]) -> tuple[MovementSum, ...]:
    """The sums of movements that are alike; `origin_of` says of which operator of the network a tile operator is."""
    found: dict[tuple[str, str, str, str | None, str], MovementSum] = {}
    for one in movements:
        operator, memory = origin_of[one.operator], _on_chip(one)
        key = one.tensor, one.kind, operator, memory, one.reason
        if key not in found:
            found[key] = MovementSum(one.tensor, one.kind, operator, memory, one.reason, 0, 0, 0.0, one)
        known = found[key]
        found[key] = replace(
            known,
            times=known.times + 1,
            bits=known.bits + one.bits,
            energy_pj=summed((known.energy_pj, one.energy_pj)),
            worst=max(known.worst, one, key=_missing_bytes),
        )
    return tuple(found.values())


def _missing_bytes(one: TensorMovement) -> int:
    return 0 if one.crowding is None else one.crowding.missing_bytes


def _on_chip(one: TensorMovement) -> str | None:
    """The memory at the other end than DRAM, the target of what stays on the chip."""
    if one.kind in STREAMED:
        return None
    return one.source if one.target == DRAM else one.target
