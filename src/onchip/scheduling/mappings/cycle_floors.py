"""Lower bound on the cycles of a loop nest over all mappings and operand homes."""

from __future__ import annotations

from dataclasses import dataclass, field

from onchip.arch.accelerator import Accelerator
from onchip.bounds.layer.nest_work import work_of_all
from onchip.bounds.layer.port_floor import PortFloors
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.ir.layer import Layer


@dataclass(slots=True)
class CycleFloors:
    """The cycle bounds of nests on one machine, cached."""

    accelerator: Accelerator
    _known: dict[tuple[Layer, bool], float] = field(default_factory=dict, init=False)

    def least_cycles(self, layer: Layer, *, weight_is_an_input: bool) -> float:
        """Return the maximum of work over units at work, and the traffic of the busiest port."""
        key = layer, weight_is_an_input
        if key not in self._known:
            ports, work = PortFloors(self.accelerator), work_of_all(layer)
            passing = ports.cycles(layer, work, weight_is_an_input=weight_is_an_input)
            self._known[key] = max(layer.macs / AnyUnrolling(self.accelerator).of(layer).at_work, float(passing))
        return self._known[key]
