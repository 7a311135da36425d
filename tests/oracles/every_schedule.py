"""The best schedule of a tiny network: every grouping of operators and tiling, then all choices of `schedule`.

Operators run alone, whole or in tiles, and in groups of at most `MOST_IN_A_GROUP` in tiles of their last map, in each
overlap mode, or in slices of its channels. Groups in one tile are omitted: running their operators alone, one after the
other, is at least as free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from math import inf

from onchip.answer.schedule import Schedule, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.transform.groups.tiled import tile_graph_of_schedule
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from oracles.packing import TooLargeError
from oracles.schedule import LeastSchedule, Work
from oracles.schedule_costs import NestFronts, Toy
from oracles.schedule_latency import FastestSchedule
from oracles.schedule_programs import schedule_of

MOST_IN_A_GROUP = 5
MOST_ARRANGEMENTS = 3000
"""Most ways to group and tile the operators; each takes some milliseconds."""
MOST_TILE_OPERATORS = 10


@dataclass(frozen=True)
class Best:
    """The least cost of all schedules, infinite if none fits, and a schedule with that cost."""

    cost: float
    schedule: Schedule | None


@dataclass
class EverySchedule:
    """The schedules of one network; raises TooLargeError after work that would take minutes."""

    network: Graph
    accelerator: Accelerator
    precision: Precision
    fronts: NestFronts = field(default_factory=lambda: NestFronts(uneven=True))
    _toys: list[Toy] = field(default_factory=list)

    def best(self, objective: str, work: Work | None = None) -> Best:
        """Return the best schedule by `energy`, `traffic`, `latency` or `edp`; groups with few tiles come first."""
        work, best = work or Work(), Best(inf, None)
        if objective in ("latency", "edp"):
            for known in (self.best(one, work).schedule for one in ("cycles", "energy")):
                value = inf if known is None else self.value_of(known, objective)
                best = Best(value, known) if value < best.cost else best
        for toy in self.toys():
            is_timed = objective in ("latency", "edp")
            search = (
                FastestSchedule(toy, objective, work=work) if is_timed else LeastSchedule(toy, objective, work=work)
            )
            found = search.least(best.cost)
            if found.cost < best.cost:
                best = Best(found.cost, schedule_of(toy, found))
        return best

    def value_of(self, schedule: Schedule, objective: str) -> int:
        """Return the value that the verifier computes; raises AssertionError for an illegal schedule."""
        tiles = tile_graph_of_schedule(self.network, schedule, self.precision)
        setting = ScheduleSetting(self.network, self.accelerator, tiles.graph, self.precision.sum_bits)
        verdict = verify_schedule(setting, schedule, None, nest_cost)
        figures = verdict.figures
        assert figures is not None, verdict.violations
        energy, latency = figures.energy_fj or 0, figures.latency_cycles
        return {
            "energy": energy, "latency": latency, "edp": energy * latency, "traffic": figures.traffic_bytes,
        }[objective]  # fmt: skip

    def toys(self) -> list[Toy]:
        """Return each distinct tiled network on the machine."""
        if not self._toys:
            seen = set[object]()
            for stacks in self._arrangements():
                try:
                    toy = Toy(self.network, self.accelerator, self.precision, stacks, self.fronts)
                except InputError:
                    continue
                numbers = tuple(one.stack for one in toy.operators)
                alike = frozenset(toy.graph.tensors), frozenset(zip(toy.graph.operators, numbers, strict=True))
                if alike not in seen and len(toy.operators) <= MOST_TILE_OPERATORS:
                    self._toys.append(toy)
                seen.add(alike)
            self._toys.sort(key=lambda toy: len(toy.operators))
        return self._toys

    def _arrangements(self) -> Iterator[tuple[ScheduledStack, ...]]:
        count = 0
        for groups in _partitions([one.name for one in self.network.operators]):
            in_order = self._in_order(groups)
            for stacks in product(*map(self._tiled, in_order or ())) if in_order else ():
                count += 1
                if count > MOST_ARRANGEMENTS:
                    raise TooLargeError
                yield stacks

    def _in_order(self, groups: Sequence[Sequence[str]]) -> list[Sequence[str]] | None:
        """Return the groups in an executable order, or None without one."""
        found, left, has_run = list[Sequence[str]](), list(groups), set[str]()
        while left:
            for group in left:
                reads = [name for one in group for name in self.network.operator[one].inputs]
                before = [made.name for name in reads if (made := self.network.producer.get(name))]
                if all(name in has_run or name in group for name in before):
                    break
            else:
                return None
            left.remove(group)
            found.append(group)
            has_run |= set(group)
        return found

    def _tiled(self, group: Sequence[str]) -> list[ScheduledStack]:
        """Return each tiling of a group, and an operator alone whole; the tile graph rejects impossible ones."""
        found = [ScheduledStack(tuple(group))] if len(group) == 1 else []
        for order in permutations(group):
            shape = self.network.tensor[self.network.operator[order[-1]].outputs[0]].shape or ()
            rows, columns = shape[2:] if len(shape) == 4 else (1, 1)
            if self._are_matrices(group):
                rows, columns = shape[-2], shape[-3] if len(shape) == 4 else 1
            sizes = [one for one in product(range(1, columns + 1), range(1, rows + 1)) if one != (columns, rows)]
            modes = OverlapMode if len(group) > 1 else (OverlapMode.RECOMPUTE,)
            tilings = dict.fromkeys(Tiling(*size, mode).within(columns, rows) for size in sizes for mode in modes)
            channels = range(1, shape[1]) if len(shape) == 4 and not self._are_matrices(group) else ()
            tilings |= dict.fromkeys(Tiling(columns, rows, OverlapMode.RECOMPUTE, one) for one in channels)
            found += [ScheduledStack(order, tiling) for tiling in tilings]
        return found

    def _are_matrices(self, group: Sequence[str]) -> bool:
        """Return True if a group of this oracle's networks, without windows, is tiled by rows and heads."""
        operators = [self.network.operator[name] for name in group]
        names = {name for one in operators for name in (*one.inputs, *one.outputs)}
        ranks = {len(self.network.tensor[name].shape or ()) for name in names}
        kinds = {one.kind for one in operators}
        return ranks <= {2, 3} or (ranks <= {2, 3, 4} and bool(kinds & {"MatMul", "Softmax"}) and "Conv" not in kinds)


def _partitions(names: list[str]) -> Iterator[list[list[str]]]:
    """Yield each partition of the names into groups of at most `MOST_IN_A_GROUP`."""
    if not names:
        yield []
        return
    first, *rest = names
    for groups in _partitions(rest):
        yield [[first], *groups]
        for at, group in enumerate(groups):
            if len(group) < MOST_IN_A_GROUP:
                yield [*groups[:at], [first, *group], *groups[at + 1 :]]
