"""What a layer's tile costs by its best mapping, for the cost model of fused stacks."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.arch.accelerator import Accelerator
from onchip.cost.layer import LayerCost, layer_cost
from onchip.errors import InputError, UsageError
from onchip.ir.loopnest import Layer
from onchip.plan.mapping import Mapping
from onchip.plan.result import Result, Stop
from onchip.solve.fusion.ledger import CostingStoppedError
from onchip.solve.limits import Run
from onchip.solve.mapping.cache import MappingCache
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.registry import MappingMethod


class UnmappableError(UsageError):
    """A method cannot map a layer that may well have mappings: nothing would be proven without it."""


@dataclass(frozen=True, slots=True)
class LayerMapper:
    """One method, asked within the run's limits; what it has proven may be kept between runs."""

    method: MappingMethod
    objective: MappingObjective
    run: Run
    cache: MappingCache | None = None

    def __call__(self, layer: Layer, accelerator: Accelerator) -> LayerCost | None:
        """None where nothing fits.

        Raises CostingStoppedError where the run has to stop first, UnmappableError for a layer that the method refuses.
        """
        try:
            result = self._result(layer, accelerator)
        except InputError as error:
            raise UnmappableError(error.what, place=f"--method {self.method.name}", expected=error.expected) from None
        if result.stopped_by is not Stop.COMPLETED:
            raise CostingStoppedError
        return None if result.answer is None else layer_cost(layer, accelerator, result.answer)

    def _result(self, layer: Layer, accelerator: Accelerator) -> Result[Mapping]:
        own = Run(self.run.limits, interrupt=self.run.interrupt, started=self.run.started)
        if self.cache is not None:
            return self.cache.solve(self.method, layer, accelerator, self.objective, own)
        return self.method(layer, accelerator, self.objective, own)
