"""The best mapping that a rival has seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import inf, isfinite
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.cost.layer_batch import LayerCosts
from onchip.ir.loopnest import Layer
from onchip.plan.mapping import Mapping
from onchip.plan.result import Result, Status, Stop
from onchip.solve.limits import Run
from onchip.solve.mapping.objective import MappingObjective

CHUNK: Final = 256


class Best:
    """Costs mappings of one layer and keeps the best."""

    def __init__(self, layer: Layer, accelerator: Accelerator, objective: MappingObjective) -> None:
        self._costs = LayerCosts(layer, accelerator)
        self._objective = objective
        self.value = inf
        self.mapping: Mapping | None = None

    def values(self, mappings: Sequence[Mapping]) -> Iterator[tuple[float, Mapping]]:
        """In the objective's unit, infinite for those that do not fit."""
        costs = self._costs.of(mappings)
        for mapping, energy, cycles in zip(mappings, costs.energy_pj, costs.cycles, strict=True):
            yield self._objective.of(float(energy), float(cycles)) if isfinite(energy) else inf, mapping

    def offer(self, value: float, mapping: Mapping) -> bool:
        """Whether it is the best so far; then it is kept."""
        if value >= self.value:
            return False
        self.value, self.mapping = value, mapping
        return True

    def result(self, method: str, run: Run, stop: Stop) -> Result[Mapping]:
        """Nothing is proven: the bound is 0."""
        if self.mapping is None:
            return Result(Status.UNKNOWN, None, None, 0, run.seconds, method, stop)
        return Result(Status.FEASIBLE, self.mapping, round(self.value), 0, run.seconds, method, stop)


def in_chunks(mappings: Iterable[Mapping]) -> Iterator[list[Mapping]]:
    """Lists of at most CHUNK."""
    rest = iter(mappings)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
