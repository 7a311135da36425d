"""`--method exact`: the mapping that costs least of all in a mapspace, proven. docs/mapping.md says why.

MAPSPACE states what the proof is about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import inf, isfinite
from typing import Final

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Result, Status, Stop
from onchip.cost.layer.batch import LayerCosts
from onchip.cost.layer.tables import OPERANDS, Flags, Integers, Reals
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT
from onchip.solve.mapping.exact import compiled as code
from onchip.solve.mapping.exact import kernel
from onchip.solve.mapping.exact.chains import mapping_of
from onchip.solve.mapping.exact.descent import FINISHED, LEAF, OF_ENERGY, OF_LATENCY, OF_PRODUCT
from onchip.solve.mapping.exact.room import DescentState, room_of
from onchip.solve.mapping.exact.tables import Tables, tables_of
from onchip.solve.mapping.exact.work import Work, work_of
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.interruptible import run_watched
from onchip.solve.run.limits import Run

METHOD: Final = "exact"
MAPSPACE: Final = (
    "all splits of the loop bounds into whole factors over time and the dimensions of the array; every memory keeps "
    "each operand that it holds, if it has room for an element; the tiles of a memory's operands span the same loops, "
    "and of each operand also those right above along which it does not change; loops beside each other split what the "
    "input's tile above them spans into neighbouring tiles; between two memories any order of loops (for latency and "
    "energy-delay product: of classes of loops next to each other, a class being the loops along which the same "
    "operand does not change)"
)
WAYS_AT_ONCE: Final = 1 << 20
TIME_CRITERIA: Final = 4
WAYS_OF_A_DIVE: Final = 40
NODES_OF_A_DIVE: Final = 100
ALL_NODES: Final = 1 << 60
SLACK: Final = 1 + 1e-9
"""Sums of the same energies in another order differ by less."""
OBJECTIVES: Final = {
    MappingObjective.ENERGY: OF_ENERGY,
    MappingObjective.LATENCY: OF_LATENCY,
    MappingObjective.EDP: OF_PRODUCT,
}


@dataclass(frozen=True, slots=True)
class Criterion:
    """What is added up over boundaries: energy, or cycles of a port (waiting or busy) and of one preloading."""

    kind: int
    port: int = -1
    preload: int = -1


@dataclass(slots=True)
class ExactMapper:
    """One run on one layer's problem, on the machine without the memories that have no room for anything."""

    problem: LayerProblem
    objective: MappingObjective
    run: Run
    best: float = inf
    answer: LayerMapping | None = None
    proven: float = 0.0
    nodes: int = 0
    leaves: int = 0
    stopped_by: Stop = Stop.COMPLETED
    _stop: Flags = field(default_factory=lambda: np.zeros(1, np.bool_))
    _tables: Tables = field(init=False)
    _costs: LayerCosts = field(init=False)
    _work: Work = field(init=False)
    _room: DescentState = field(init=False)
    _criteria: Integers = field(init=False)
    _used: Integers = field(init=False)
    _value: Reals = field(init=False)
    _count: int = 0

    def __post_init__(self) -> None:
        self.problem = self.problem.without_memories_of_no_use()

    def solve(self, start: LayerMapping | None = None) -> Result[LayerMapping]:
        """`start` is a mapping to improve on."""
        self._tables = tables_of(self.problem)
        self._costs = LayerCosts(self.problem)
        if start is not None:
            self._consider([start])
        run_watched(self._search, self._interrupt, self.run)
        return self._result()

    def _interrupt(self) -> None:
        self._stop[0] = True

    def _search(self) -> None:
        """One chunk of ways to use the array after the other; more than one is rare."""
        tables = self._tables
        criteria = 1 if self.objective is MappingObjective.ENERGY else 1 + TIME_CRITERIA
        self._work = work_of(tables, criteria)
        self._room = room_of(tables, self._work.volume.size, self._work.port, criteria)
        self._criteria = self._list_criteria()
        self._used, self._value = self._criteria[:criteria].copy(), np.zeros(self._criteria.shape[0])
        self._count = self._used.shape[0]
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
        if floor.size:
            self._has_proven(floor[0], is_last=is_last)
        for at in self._dive(chosen, floor):
            self._has_proven(floor[at], is_last=is_last)
            self._search_chains(chosen[at], ALL_NODES, kept=0)
        tables, at = self._tables, min(floor.size, WAYS_OF_A_DIVE)
        while at < floor.size and not self._is_stopped():
            self._has_proven(floor[at], is_last=is_last)
            at = kernel.next_below(
                tables.space, tables.machine, tables.shape, tables.sides, self._work, self._patterns, chosen, floor,
                cycles, at, self._limit() / self._scale, self._used[: self._count], self._stop,
            )  # fmt: skip
            if at < floor.size and not self._is_stopped():
                if not self._search_chains(chosen[at], NODES_OF_A_DIVE, kept=self._count):
                    self._search_chains(chosen[at], ALL_NODES, kept=0)
                at += not self._is_stopped()

    def _dive(self, chosen: Integers, floor: Reals) -> list[int]:
        """Few steps in each of the first ways; returns those that are not done."""
        paused = []
        for at in range(min(floor.size, WAYS_OF_A_DIVE)):
            is_ruled_out = floor[at] * self._scale >= self._limit()
            if not is_ruled_out and not self._search_chains(chosen[at], NODES_OF_A_DIVE, kept=0):
                paused.append(at)
        return paused

    def _has_proven(self, floor: float, *, is_last: bool) -> None:
        if not self._is_stopped():
            self.proven = floor * self._scale if is_last else 0.0

    def _search_chains(self, way: Integers, most_nodes: int, kept: int) -> bool:
        """Chains of tiles for one way that no criterion rules out, with the first `kept` that were used last.

        Returns whether there are no more.
        """
        tables, work, room, is_done = self._tables, self._work, self._room, True
        for complete_from in range(1, self._patterns + 1):
            work.way[:] = way
            count = kernel.prepare(
                tables.space, tables.machine, tables.shape, tables.sides, work, room, complete_from,
                self._criteria, self._used, self._value, kept, self._limit() / self._scale,
            )  # fmt: skip
            if not count:
                continue
            self._count, most = count, int(room.nodes[0]) + most_nodes
            status = LEAF
            while status == LEAF:
                status = kernel.next_chain(
                    tables.space, tables.machine, work, room, self._used[:count], OBJECTIVES[self.objective],
                    self._limit() / self._scale, most, self._stop,
                )  # fmt: skip
                if status == LEAF:
                    self.leaves += 1
                    self._consider([mapping_of(tables, work, room, self.problem)])
            is_done &= status == FINISHED
            self.nodes = int(room.nodes[0])
        return is_done

    def _consider(self, mappings: list[LayerMapping]) -> None:
        costs = self._costs.of(mappings)
        for mapping, energy, cycles in zip(mappings, costs.energy_pj, costs.cycles, strict=True):
            value = self.objective.of(float(energy), float(cycles)) if isfinite(energy) else inf
            if value < self.best:
                self.best, self.answer = value, mapping
                self.run.report(round(value), min(int(self.proven), round(value)), f"{self.nodes} tiles looked into")

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
        bits = (self.problem.layer.partial_bits, self.problem.layer.output_bits)
        is_rounded = any(one % machine.shortest[level] for one in bits for level in (*held, machine.shortest.size - 1))
        return not is_rounded and all(machine.serves[level].all() for level in held[1:])

    def _list_criteria(self) -> Integers:
        energy = [Criterion(code.ENERGY)]
        if self.objective is MappingObjective.ENERGY:
            return _rows(energy)
        ports = [port for port in range(self._tables.machine.bits_per_cycle.size) if port in self._tables.machine.port]
        stalls = [(code.NO_STALL, -1), *product((code.WAITING, code.BUSY), ports)]
        preloads = [OPERANDS.index(INPUT), OPERANDS.index(WEIGHT), *(code.FIRST_PORT + port for port in ports)]
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
                users.setdefault(int(machine.port[level, code.WRITE_FROM_ABOVE]), set()).add(operand)
            for level in (*levels[1:], *([dram] if levels else [])):
                users.setdefault(int(machine.port[level, code.READ_FOR_BELOW]), set()).add(operand)
        first = code.FIRST_PORT
        return [one for one in preloads if one < first or len(users.get(one - first, ())) > 1]

    def _result(self) -> Result[LayerMapping]:
        stop = self.run.stop if self._is_stopped() else None
        if self.answer is None:
            status = Status.UNKNOWN if stop else Status.INFEASIBLE
            return Result(status, None, None, int(self.proven), self.run.seconds, METHOD, stop or Stop.COMPLETED)
        value = round(self.best)
        bound = min(int(self.proven), value) if stop else value
        status = Status.OPTIMAL if bound == value else Status.FEASIBLE
        return Result(status, self.answer, value, bound, self.run.seconds, METHOD, stop or Stop.COMPLETED)


def _rows(criteria: list[Criterion]) -> Integers:
    return np.array([(one.kind, one.port, one.preload) for one in criteria], np.int64)


def solve_exactly(
    problem: LayerProblem, objective: MappingObjective, run: Run, start: LayerMapping | None = None
) -> Result[LayerMapping]:
    """The best mapping of MAPSPACE, `start` being one to improve on.

    INFEASIBLE says that no mapping there fits. Raises AcceleratorError where the accelerator says too little,
    InputError for a layer with too many tiles.
    """
    return ExactMapper(problem, objective, run).solve(start)
