"""`--method exact`: the mapping that costs least of all in a mapspace, proven. docs/mapping.md says why.

MAPSPACE states what the proof is about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import inf, isfinite
from typing import Final

import numpy as np

from onchip.arch.accelerator import Accelerator
from onchip.cost.layer_batch import LayerCosts
from onchip.cost.layer_tables import OPERANDS, Flags, Integers, Reals
from onchip.ir.loopnest import INPUT, OUTPUT, WEIGHT, Layer
from onchip.plan.mapping import Mapping
from onchip.plan.result import Result, Status, Stop
from onchip.solve.interruptible import run_watched
from onchip.solve.limits import Run
from onchip.solve.mapping import exact_kernel as kernel
from onchip.solve.mapping.exact_chains import SLACK, Chains, Cuts, mappings_of
from onchip.solve.mapping.exact_tables import Tables, tables_of
from onchip.solve.mapping.exact_work import Work, work_of
from onchip.solve.mapping.objective import MappingObjective

METHOD: Final = "exact"
MAPSPACE: Final = (
    "all splits of the loop bounds into whole factors over time and the dimensions of the array; every memory keeps "
    "each operand that it holds; the tiles of a memory's operands span the same loops, and of each operand also "
    "those right above along which it does not change; loops beside each other split what the input's tile above them "
    "spans into neighbouring tiles; between two memories any order of loops (for latency and energy-delay product: any "
    "class of loops innermost and any outermost, a class being the loops along which the same operand does not change)"
)
WAYS_AT_ONCE: Final = 1 << 20
TIME_CRITERIA: Final = 10
CHAINS_OF_A_DIVE: Final = 20
DIVING_SHARE: Final = 0.3
DIVING_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Criterion:
    """What is added up over boundaries: energy, or cycles of a port (waiting or busy) and of one preloading."""

    kind: int
    port: int = -1
    preload: int = -1


@dataclass(slots=True)
class ExactMapper:
    """One run on one layer."""

    layer: Layer
    accelerator: Accelerator
    objective: MappingObjective
    run: Run
    best: float = inf
    answer: Mapping | None = None
    proven: float = 0.0
    nodes: int = 0
    stopped_by: Stop = Stop.COMPLETED
    _stop: Flags = field(default_factory=lambda: np.zeros(1, np.bool_))
    _tables: Tables = field(init=False)
    _costs: LayerCosts = field(init=False)
    _work: Work = field(init=False)
    _criteria: Integers = field(init=False)

    def solve(self, start: Mapping | None = None) -> Result[Mapping]:
        """`start` is a mapping to improve on."""
        self._tables = tables_of(self.layer, self.accelerator)
        self._costs = LayerCosts(self.layer, self.accelerator)
        if start is not None:
            self._consider([start])
        run_watched(self._search, self._interrupt, self.run)
        return self._result()

    def _interrupt(self) -> None:
        self._stop[0] = True

    def _search(self) -> None:
        """One chunk of ways to use the array after the other; more than one is rare."""
        tables = self._tables
        self._work = work_of(tables, 1 if self.objective is MappingObjective.ENERGY else 1 + TIME_CRITERIA)
        self._criteria = self._list_criteria()
        following = tables.sides.first[:-1].copy()
        while following[0] >= 0 and not self._stop[0]:
            self._search_ways(*self._ways(following), is_last=bool(following[0] < 0))

    def _ways(self, following: Integers) -> tuple[Integers, Reals, Reals]:
        """Ways to use the array, their floors and what of these are cycles, ascending."""
        tables = self._tables
        chosen = np.zeros((WAYS_AT_ONCE, following.size), np.int64)
        energy, cycles = np.zeros(WAYS_AT_ONCE), np.zeros(WAYS_AT_ONCE)
        is_timed = self.objective is not MappingObjective.ENERGY
        count = kernel.floors(
            tables.space, tables.machine, tables.shape, tables.sides, self._work, self._sums_are_linear(), is_timed,
            following, chosen, energy, cycles,
        )  # fmt: skip
        floor = {
            MappingObjective.ENERGY: energy[:count],
            MappingObjective.LATENCY: cycles[:count],
            MappingObjective.EDP: energy[:count] * cycles[:count],
        }[self.objective]
        order = np.argsort(floor, kind="stable")
        return chosen[order], floor[order], cycles[order]

    def _search_ways(self, chosen: Integers, floor: Reals, cycles: Reals, *, is_last: bool) -> None:
        if self.objective is not MappingObjective.ENERGY:
            self._dive(chosen, floor, cycles)
        tables, at = self._tables, 0
        while at < floor.size:
            if self._is_stopped():
                self.proven = floor[at] * self._scale if is_last else 0.0
                return
            at = kernel.next_below(
                tables.space, tables.machine, tables.shape, tables.sides, self._work, self._patterns,
                chosen, floor, cycles, at, self._limit() / self._scale, self._criteria, self._stop,
            )  # fmt: skip
            if at < floor.size and not self._is_stopped():
                self._search_chains(chosen[at], cycles[at])
                at += not self._is_stopped()

    def _dive(self, chosen: Integers, floor: Reals, cycles: Reals) -> None:
        """A few chains of each of the first ways, so that the proof begins with a good mapping."""
        until = self.run.seconds + DIVING_SHARE * min(self.run.seconds_left, DIVING_SECONDS)
        for at in range(floor.size):
            if floor[at] * self._scale >= self._limit() or self.run.seconds > until:
                return
            self._search_chains(chosen[at], cycles[at], CHAINS_OF_A_DIVE)

    def _search_chains(self, way: Integers, cycles: float, most_visits: float = inf) -> None:
        """Every chain of tiles for one way that no criterion rules out."""
        tables, work = self._tables, self._work
        for complete_from in range(1, self._patterns + 1):
            work.way[:] = way
            kernel.prepare(tables.space, tables.machine, tables.shape, tables.sides, work, complete_from)
            used = self._strongest(complete_from)
            for place, (kind, port, preload) in enumerate(used):
                kernel.least(
                    tables.space, tables.machine, tables.shape, work, complete_from, place, kind, port, preload
                )
            bound = _Bound(self.objective, len(used), cycles)
            chains = Chains(tables, work, bound.of, self._limit, self._visit, most_visits)
            chains.search()
            self.nodes += chains.nodes

    def _strongest(self, complete_from: int) -> list[tuple[int, int, int]]:
        """Criteria with the highest least values, one for each kind of stall, an energy first."""
        rows = [(int(kind), int(port), int(preload)) for kind, port, preload in self._criteria]
        if len(rows) == 1:
            return rows
        tables, work = self._tables, self._work
        value = {
            row: kernel.least(tables.space, tables.machine, tables.shape, work, complete_from, 0, *row) for row in rows
        }
        energy = [row for row in rows if row[0] == kernel.ENERGY]
        timed = sorted((row for row in rows if row[0] != kernel.ENERGY), key=lambda row: -value[row])
        of_stall = {row[:2]: row for row in reversed(timed)}
        return energy + sorted(of_stall.values(), key=lambda row: -value[row])[:TIME_CRITERIA]

    def _visit(self, cuts: Cuts) -> None:
        orders = self.objective is not MappingObjective.ENERGY
        self._consider(mappings_of(self._tables, self._work, self.accelerator, cuts, orders=orders))

    def _consider(self, mappings: list[Mapping]) -> None:
        costs = self._costs.of(mappings)
        for mapping, energy, cycles in zip(mappings, costs.energy_pj, costs.cycles, strict=True):
            value = self.objective.of(float(energy), float(cycles)) if isfinite(energy) else inf
            if value < self.best:
                self.best, self.answer = value, mapping

    def _limit(self) -> float:
        """What is not below it is no better than the best mapping."""
        if self._is_stopped():
            return -inf
        return self.best - 0.5 if self.objective is MappingObjective.LATENCY else self.best / SLACK

    def _is_stopped(self) -> bool:
        return bool(self._stop[0])

    @property
    def _scale(self) -> float:
        return self.objective.of(1.0, 1.0)

    @property
    def _patterns(self) -> int:
        return 1 + int(self._tables.space.holds[OPERANDS.index(OUTPUT)].sum())

    def _sums_are_linear(self) -> bool:
        """Whether no access of sums is rounded up, and sums are added up at one boundary between memories only."""
        machine = self._tables.machine
        held = np.flatnonzero(self._tables.space.holds[OPERANDS.index(OUTPUT)]).tolist()
        bits = (self.layer.partial_bits, self.layer.output_bits)
        is_rounded = any(one % machine.shortest[level] for one in bits for level in (*held, machine.shortest.size - 1))
        return not is_rounded and all(machine.serves[level].all() for level in held[1:])

    def _list_criteria(self) -> Integers:
        energy = [Criterion(kernel.ENERGY)]
        if self.objective is MappingObjective.ENERGY:
            return _rows(energy)
        ports = [port for port in range(self._tables.machine.bits_per_cycle.size) if port in self._tables.machine.port]
        stalls = [(kernel.NO_STALL, -1), *product((kernel.WAITING, kernel.BUSY), ports)]
        preloads = [OPERANDS.index(INPUT), OPERANDS.index(WEIGHT), *(kernel.FIRST_PORT + port for port in ports)]
        timed = [Criterion(kind, port, preload) for (kind, port), preload in product(stalls, self._shared(preloads))]
        return _rows(timed if self.objective is MappingObjective.LATENCY else energy + timed)

    def _shared(self, preloads: list[int]) -> list[int]:
        """Without ports at which one operand alone is preloaded: that operand's own preloading is no shorter."""
        machine, holds = self._tables.machine, self._tables.space.holds
        dram = machine.capacity_bits.size
        users: dict[int, set[int]] = {}
        for operand in (OPERANDS.index(INPUT), OPERANDS.index(WEIGHT)):
            levels = np.flatnonzero(holds[operand]).tolist()
            for level in levels:
                users.setdefault(int(machine.port[level, kernel.WRITE_FROM_ABOVE]), set()).add(operand)
            for level in (*levels[1:], *([dram] if levels else [])):
                users.setdefault(int(machine.port[level, kernel.READ_FOR_BELOW]), set()).add(operand)
        first = kernel.FIRST_PORT
        return [one for one in preloads if one < first or len(users.get(one - first, ())) > 1]

    def _result(self) -> Result[Mapping]:
        stop = self.run.stop if self._is_stopped() else None
        if self.answer is None:
            status = Status.UNKNOWN if stop else Status.INFEASIBLE
            return Result(status, None, None, int(self.proven), self.run.seconds, METHOD, stop or Stop.COMPLETED)
        value = round(self.best)
        bound = min(int(self.proven), value) if stop else value
        status = Status.OPTIMAL if bound == value else Status.FEASIBLE
        return Result(status, self.answer, value, bound, self.run.seconds, METHOD, stop or Stop.COMPLETED)


@dataclass(frozen=True, slots=True)
class _Bound:
    """One number of a chain's criteria: energy, the greatest of cycles, or their product."""

    objective: MappingObjective
    criteria: int
    least_cycles: float

    def of(self, values: Reals) -> Reals:
        if self.objective is MappingObjective.ENERGY:
            return np.asarray(values[0] * MappingObjective.ENERGY.of(1.0, 1.0))
        if self.objective is MappingObjective.LATENCY:
            return np.asarray(np.maximum(values[: self.criteria].max(axis=0), self.least_cycles))
        cycles = np.maximum(values[1 : self.criteria].max(axis=0), self.least_cycles)
        return np.asarray(values[0] * cycles * MappingObjective.EDP.of(1.0, 1.0))


def _rows(criteria: list[Criterion]) -> Integers:
    return np.array([(one.kind, one.port, one.preload) for one in criteria], np.int64)


def solve_exactly(
    layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run, start: Mapping | None = None
) -> Result[Mapping]:
    """The best mapping of MAPSPACE, `start` being one to improve on.

    INFEASIBLE says that no mapping there fits. Raises AcceleratorError where the accelerator says too little,
    InputError for a layer with too many tiles.
    """
    return ExactMapper(layer, accelerator, objective, run).solve(start)
