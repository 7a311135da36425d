"""Costs of the stacks of a tiny case, each computed once by the documented cost model."""

from __future__ import annotations

import json
from fractions import Fraction

from adversary.frame import Facts, Json
from adversary.fusing import graph_file, moved_elements
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.formats.own.graph_json import graph_from_json
from onchip.model.accounting.accounting import AccountingName
from onchip.model.group.cost import stack_cost
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.fronts.costs import Costing
from onchip.search.budget.limits import Run
from oracles.fusion import Costs, Placed

FEMTO_PER_PICO = 1000


class StackTable:
    """Costs of stacks with one mapper of layers and one objective."""

    def __init__(self, facts: Facts, options: Facts) -> None:
        accelerator = accelerator_from_yaml(json.dumps(facts["machine"]), "machine.yaml")
        accounting = AccountingName(options.get("accounting", "interpreter"))
        doubled = 16 if accounting is AccountingName.DEFINES else None
        precision = Precision(8, options.get("partial-bits", doubled)).on(accelerator)
        graph = graph_from_json(json.dumps(graph_file(facts)).encode(), "graph.json")
        self.network: FusableNetwork = partly_fusable_of(graph, precision).network
        self.accelerator: Accelerator = accelerator
        self._facts = facts
        self.objective: str = options["objective"]
        objective, method = FusionObjective(self.objective), options["method"]
        costing = Costing(self.network, accelerator, objective, method, use_cache=False, accounting=accounting)
        costs = costing.costs(Run())
        self.mapper, self._conventions = costs.mapper, costs.conventions
        self._known: dict[Placed, Costs | None] = {}

    @property
    def outside(self) -> Costs:
        """Return the cost of the operators outside all stacks, whose operands pass DRAM once."""
        parts = [_moved(self._facts["machine"]["dram"], *each) for each in moved_elements(self._facts)]
        return tuple(map(sum, zip(*(self._criteria(*part) for part in ((0, 0, 0), *parts)), strict=True)))

    def _criteria(self, energy_fj: int, cycles: int, dram_bits: int) -> Costs:
        costs = {"energy": (energy_fj,), "latency": (cycles,), "edp": (energy_fj, cycles)}
        return costs.get(self.objective, (dram_bits,))

    def cost(self, placed: Placed) -> Costs | None:
        """Return whole femtojoules, cycles, both, or bits of DRAM; None where nothing fits."""
        if placed not in self._known:
            try:
                self._known[placed] = self._cost(placed)
            except InputError:
                self._known[placed] = None
        return self._known[placed]

    def _cost(self, placed: Placed) -> Costs:
        start, stop = placed.run
        layers = self.network.layers[start:stop]
        inside = {layer.output.name for layer in layers}
        read = dict.fromkeys(read.source for layer in layers for read in layer.reads if read.source not in inside)
        maps = self.network.maps
        stack = Stack(tuple(maps[name] for name in read), layers, layers[-1].output.name in self.network.outputs)
        resident: dict[str, int] = {}
        for name, memory in placed.homes:
            if name not in read:
                resident[memory] = resident.get(memory, 0) + maps[name].size_bits
        columns, rows, mode = placed.tile
        found = stack_cost(
            stack,
            self.accelerator,
            Tiling(columns, rows, OverlapMode(mode)),
            self.mapper,
            self._conventions,
            input_homes={name: memory for name, memory in placed.homes if name in read},
            output_home=placed.output_home,
            resident_bits=resident,
        ).sums
        energy_fj = round(found.energy_pj * FEMTO_PER_PICO)
        return self._criteria(energy_fj, round(found.cycles), found.moved_bits.get(DRAM, 0))


def _moved(dram: Json, read: list[int], written: int) -> tuple[int, int, int]:
    """Return the femtojoules, cycles and bits to read each operand once and write one; sizes in bytes."""
    wide = dram["access_bits"]
    shortest = dram.get("shortest_access_bits", wide)
    energy_pj, cycles = Fraction(0), 0
    for way, operands in (("read", read), ("write", [written])):
        units = sum(Fraction(-(-8 * elements // shortest) * shortest, wide) for elements in operands)
        energy_pj += units * Fraction(str(dram[f"{way}_energy_pj"]))
        rates = [port["bits_per_cycle"] for port in dram.get("ports", ()) if port["direction"] in (way, "read_write")]
        cycles += -(-8 * sum(operands) // sum(rates)) if rates else 0
    return round(energy_pj * FEMTO_PER_PICO), cycles, 8 * (sum(read) + written)
