"""The bound over all mappings, and the mappings that attain it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.floors import floor_of_any, turns_of
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import LOOPS, RELEVANT, Layer
from onchip.mapping.baselines.best import BestRow
from onchip.mapping.baselines.loma import filled_orders, greedy_mapping, last_apart, solve_as_loma
from onchip.mapping.methods.registry import EVEN_MAPPINGS, WITHOUT_BYPASS
from onchip.mapping.prove.bounds import WayBounds
from onchip.mapping.tile_search.exact import METHOD, OBJECTIVES, ExactMapper, mapping_of
from onchip.model.accounting.accounting import INTERPRETER
from onchip.model.layer.cost import access_of, layer_cost
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import LayerCosts, native_layer, native_machine
from onchip.model.unrolling.unrolling import Unrolled, Ways, padded_bound, some_ways
from onchip.native import ExactRefiner
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.portfolio import Incumbent, Portfolio, Stepped, Strategy
from onchip.search.strategy.start import without_bound

FACTORS: Final = 5
WAYS_LOOKED_AT: Final = 400
MIRRORED: Final = {"P": "Q", "Q": "P", "R": "S", "S": "R"}


def ended_short(layer: Layer, mapping: LayerMapping) -> LayerMapping:
    """Cut a mapping of longer loops off at the layer's bounds; outermost loops shrink as far as possible."""
    nest, ragged = list(mapping.nest), []
    for name, bound in layer.bounds.items():
        own = [at for at, loop in enumerate(nest) if loop.dimension == name]
        if prod(nest[at].size for at in own) == bound:
            continue
        for number in range(len(own) - 1, -1, -1):
            inner = prod(nest[at].size for at in own[:number])
            nest[own[number]] = replace(nest[own[number]], size=-(-bound // inner))
            if inner < bound:
                break
        if prod(nest[at].size for at in own) > bound:
            ragged.append(name)
    return replace(mapping, nest=tuple(nest), ragged=tuple(ragged)).without_loops_of_one()


def starts(problem: LayerProblem, objective: MappingObjective, ways: int) -> Iterator[tuple[Layer, LayerMapping]]:
    """Yield the layer, possibly padded, with LOMA's mapping for each of the most promising unrollings."""
    for way in _promising(problem, objective, ways):
        beside = [
            Loop(loop, int(size), name)
            for name, sizes in zip(array_of(problem.accelerator).sizes, way, strict=True)
            for loop, size in zip(LOOPS, sizes, strict=True)
            if size > 1
        ]
        beside.sort(key=lambda loop: last_apart(problem, str(loop.along)))
        turns = {
            loop: padded_bound(-(-bound // int(units)), SMALL_PRIMES[-1])
            for (loop, bound), units in zip(problem.layer.bounds.items(), np.prod(way, axis=0), strict=True)
        }
        unrolled = Unrolled(tuple(beside), turns)
        best = BestRow(problem, objective, INTERPRETER, unrolled)
        for chosen in filled_orders(problem, unrolled, FACTORS, INTERPRETER, has_stored_room=True):
            best.offer(chosen)
        if best.mapping is not None:
            yield problem.layer.padded_to(unrolled.bounds), best.mapping


def _promising(problem: LayerProblem, objective: MappingObjective, most: int) -> Ways:
    """Return the unrollings with the fewest iterations, or the cheapest accesses of the MACs; ties keep their order.

    For a layer symmetric in height and width, mirror images count as one unrolling.
    """
    found = some_ways(problem, WAYS_LOOKED_AT)
    turns, fed_pj = turns_of(problem.layer, found), _fed_pj(problem, found)
    match objective:
        case MappingObjective.ENERGY:
            order = np.lexsort((turns, fed_pj))
        case MappingObjective.LATENCY:
            order = np.lexsort((fed_pj, turns))
        case MappingObjective.EDP:
            order = np.lexsort((turns, fed_pj * turns))
    found = found[order]
    return (_without_mirror_images(found) if _is_same_on_its_side(problem.layer) else found)[:most]


def _is_same_on_its_side(layer: Layer) -> bool:
    """Return True if height and width are interchangeable."""
    top, left, bottom, right = layer.padding
    pairs = (layer.p, layer.q), (layer.r, layer.s), layer.stride, layer.dilation, (top, left), (bottom, right)
    return all(one == other for one, other in pairs)


def _without_mirror_images(ways: Ways) -> Ways:
    """Remove unrollings that equal an earlier one after swapping P with Q and R with S."""
    mirror = [LOOPS.index(MIRRORED.get(loop, loop)) for loop in LOOPS]
    seen: set[bytes] = set()
    kept = []
    for at, way in enumerate(ways):
        if way[:, mirror].tobytes() not in seen:
            kept.append(at)
        seen.add(way.tobytes())
    return ways[kept]


def _fed_pj(problem: LayerProblem, ways: Ways) -> NDArray[np.float64]:
    """Return by unrolling the approximate energy in pJ of a multiply-accumulate with its nearest memories' accesses."""
    names = list(array_of(problem.accelerator).sizes)
    found = np.full(len(ways), problem.accelerator.array.mac_energy_pj or 0.0 if problem.accelerator.array else 0.0)
    for operand in (Operand(one) for one in problem.layer.operands):
        keepers = problem.keepers(operand)
        serves = keepers[0].serves if keepers else None
        access = access_of(problem.accelerator, keepers[0].memory.name if keepers else DRAM)
        same = [at for at, loop in enumerate(LOOPS) if loop not in RELEVANT[operand]]
        along = [at for at, name in enumerate(names) if serves is None or name in serves]
        shared = np.prod(ways[:, along][:, :, same], axis=(1, 2), dtype=np.float64)
        bits = problem.layer.partial_bits if operand is Operand.OUTPUT else problem.layer.bits(operand)
        pj = access.read_energy_pj + (access.write_energy_pj if operand is Operand.OUTPUT else 0.0)
        found = found + pj * bits / access.access_bits / shared
    return found


SEED: Final = 1

SMALL_PRIMES: Final = (2, 3, 5)
"""Prime factors of lengthened loops, so that they split in many ways."""
MOST_LENGTHENED: Final = 6
"""A loop is lengthened by at most this fraction of its bound: 1 / MOST_LENGTHENED."""


@dataclass(frozen=True, slots=True)
class WideParams:
    """Constants of the search beyond even mappings."""

    ways: int = 24
    """Number of spatial unrollings with loops that end short; each is a start for local search."""
    mappings_of_a_way: int = 12_000
    """Mappings costed from such a start: some hundredths of a second."""
    mappings_of_the_best: int = 60_000
    """Mappings costed from the best known mapping: some tenths of a second."""
    mappings_at_once: int = 20_000
    """Mappings costed between two checks of the clock."""
    first_tiles: int = 1_000
    """Tiles that the even search expands in its first turn: some tenths of a second."""


CLOSE: Final = 1e-9
"""Relative tolerance for equal values."""


@dataclass(slots=True)
class _Way:
    """A start with loops that may end short: the longer layer, and its best mapping so far."""

    executed: Layer
    mapping: LayerMapping


@dataclass(slots=True)
class WideMapper:
    """A portfolio that searches beyond even mappings, proves the best even one, and bounds all mappings."""

    problem: LayerProblem
    objective: MappingObjective
    run: Run
    value: float = inf
    answer: LayerMapping | None = None
    params: WideParams = field(default_factory=WideParams)
    even: SearchResult[LayerMapping] | None = None
    """The result of the search for the best even mapping, once it has ended."""
    _first: LayerMapping | None = None
    _ways: list[_Way] = field(default_factory=list)
    _bounds: WayBounds = field(init=False)
    _starts: Iterator[tuple[Layer, LayerMapping]] = field(init=False)
    _incumbent: Incumbent[LayerMapping] = field(init=False)

    def __post_init__(self) -> None:
        self.problem = self.problem.without_memories_of_no_use()
        self._starts = starts(self.problem, self.objective, self.params.ways)
        self._bounds = WayBounds(self.problem, self.objective)
        self._incumbent = Incumbent(self.run)

    def solve(self) -> SearchResult[LayerMapping]:
        """Return the best mapping found; its status and bound hold for all mappings WITHOUT_BYPASS."""
        self._incumbent.raise_bound(floor_of_any(self.problem, self.objective))
        even = _EvenMappings(self)
        steps = Stepped("steps", self._incumbent, self.run, self._take_steps)
        strategies = [
            steps,
            even,
            Stepped("longer loops", self._incumbent, self.run, self._look_at_longer, is_ready=lambda: even.has_ended),
            _BoundOfAll(self, self._bounds, lambda: steps.ended_by is not None),
        ]
        self._begin(self.run.within(self.run.seconds_left / len(strategies)) if self.run.deadline.is_set else self.run)
        try:
            stop = Portfolio(self._incumbent, strategies, Budget(self.run)).solve()
        finally:
            even.end()
        return self._result(stop)

    def _result(self, stop: Stop) -> SearchResult[LayerMapping]:
        """Return the final result; the bound is updated once more, since the last mapping may equal it."""
        if self.answer is None:
            bound, stop = floor_of_any(self.problem, self.objective), self.run.stop or Stop.COMPLETED
            return SearchResult(Status.UNKNOWN, None, None, bound, self.run.seconds, METHOD, stop, WITHOUT_BYPASS.name)
        value, seconds, space, even = round(self.value), self.run.seconds, WITHOUT_BYPASS.name, self.even
        bound = max(min(self._incumbent.lower_bound, value), self._bounds.bound(value, self.run.within(0.0)))
        found = SearchResult(Status.FEASIBLE, self.answer, value, bound, seconds, METHOD, stop, space)
        if bound >= value:  # the even optimum is no better, and may be more by rounding
            return replace(found, status=Status.OPTIMAL, stopped_by=Stop.COMPLETED)
        if even is None or even.answer is None or even.objective_value is None:
            return found
        is_beaten = even.objective_value > round(self.value * (1 + CLOSE)) or even.objective_value <= bound
        return found if is_beaten or even.status is not Status.OPTIMAL else self._best_even(found, even)

    def _best_even(
        self, found: SearchResult[LayerMapping], even: SearchResult[LayerMapping]
    ) -> SearchResult[LayerMapping]:
        """Return the even optimum with the bound on all mappings WITHOUT_BYPASS."""
        among = EVEN_MAPPINGS.name
        return replace(found, answer=even.answer, objective_value=even.objective_value, optimal_among=among)

    def _begin(self, run: Run) -> None:
        """Offer LOMA's mapping, and mappings of longer layers cut off at the layer's bounds.

        Even with little time there is a first mapping and one unrolling that ends short: with a prime bound all even
        mappings may be far worse.
        """
        by_loma = solve_as_loma(self.problem, self.objective, run).answer
        self._first = by_loma or greedy_mapping(self.problem, self.objective)
        if self._first is not None:
            self._offer(self._first)
        self._begin_ways(run)

    def _take_steps(self, turn: Stepped) -> Iterator[None]:
        """Run local search from the first mapping and from unrollings that end short, and cost the results cut off.

        The longer layer's cost does not suffice to choose: among equal ones the worst is a sixth above the best.
        """
        if self._first is not None:
            self._refine(self._first, self.params.mappings_of_the_best, turn.whole_run)
            yield
        self._begin_ways(turn.run)
        for way in self._ways:
            value, way.mapping = refined(
                self.problem, way.executed, self.objective, way.mapping, self.params.mappings_of_a_way, turn.whole_run
            )
            if value * self._least_part(way.executed) < self.value:
                self._offer(ended_short(self.problem.layer, way.mapping))
            yield

    def _begin_ways(self, run: Run) -> None:
        """Offer each start, cut off, when it is generated; that takes milliseconds."""
        for executed, start in self._starts:
            self._offer(ended_short(self.problem.layer, start))
            self._ways.append(_Way(executed, start))
            if run.stop is not None:
                return

    def _look_at_longer(self, turn: Stepped) -> Iterator[None]:
        """Offer the best even mappings of lengthened layers, cut off; repeat from the layer that improved.

        With the best known value as a limit, most searches end at once.
        """
        layer = None if any(self.problem.homes) else self.problem.layer
        while layer is not None:
            before, better = self.value, None
            for executed in longer_layers(layer):
                self._look_at_one(executed, without_bound(turn.run))
                yield
                if self.value < before:
                    before, better = self.value, executed
            layer = better

    def _look_at_one(self, executed: Layer, run: Run) -> None:
        """Offer the best even mapping of a longer layer, cut off."""
        limit = self.value / self._least_part(executed)
        try:
            found = ExactMapper(replace(self.problem, layer=executed), self.objective, run, best=limit).solve().answer
        except InputError:  # too many tiles
            return
        if found is not None:
            self._offer(ended_short(self.problem.layer, found))

    def _least_part(self, executed: Layer) -> float:
        """Return the approximate share of a longer layer's cost that remains when it is cut off."""
        part = self.problem.layer.macs / executed.macs
        return part * part if self.objective is MappingObjective.EDP else part

    def look_at_chains(self, value: int, run: Run) -> None:
        """Offer mappings of the chains that the bound met, and run local search from an improved one.

        If the bound has finished, mappings with loops in two parts are offered, too.
        """
        before, chains = self.answer, self._bounds.chains_below(value)
        looks = [one.mappings() for one in chains]
        if self._bounds.is_done(run):
            looks += [one.mappings_of_parted_loops() for one in chains]
        for mapping in (one for look in looks for one in look):
            if run.stop is not None:
                return
            self._offer(mapping)
        if self.answer is not None and self.answer is not before:
            executed = self.problem.layer.padded_to(self.answer.bounds)
            start, mappings = replace(self.answer, ragged=()), self.params.mappings_of_a_way
            _, mapping = refined(self.problem, executed, self.objective, start, mappings, run)
            self._offer(ended_short(self.problem.layer, mapping))

    def take_even(self, even: SearchResult[LayerMapping]) -> None:
        """Store the result of the even search, and run local search from its mapping."""
        self.even = even
        if even.answer is not None:
            self.step_from(even.answer)

    def step_from(self, mapping: LayerMapping) -> None:
        """Offer a mapping, and run local search from it."""
        self._offer(mapping)
        self._refine(mapping, self.params.mappings_of_the_best, self.run)

    def _refine(self, start: LayerMapping, mappings: int, run: Run) -> None:
        _, mapping = refined(self.problem, self.problem.layer, self.objective, start, mappings, run)
        self._offer(mapping)

    def _offer(self, mapping: LayerMapping) -> None:
        try:
            cost = layer_cost(self.problem, mapping)
        except MappingError:  # the cut-off mapping may not fit
            return
        value = self.objective.of(cost.energy_pj, cost.cycles)
        if value < self.value:
            self.value, self.answer = value, mapping
            self._incumbent.keep(mapping, round(value), "mappings")


class _EvenMappings(Strategy):
    """The search for the best even mapping that is no worse than the incumbent; too many tiles end it.

    The bound on even mappings is not reported, since the final answer may be a mapping that it does not cover.
    """

    name = "even mappings"

    def __init__(self, owner: WideMapper) -> None:
        super().__init__(owner._incumbent, owner.run, owner.params.first_tiles)
        self._owner = owner
        self._mapper: ExactMapper | None = None

    @property
    def has_ended(self) -> bool:
        """True if the best even mapping is known, or there are too many tiles."""
        return self.ended_by is not None

    def advance(self, nodes: float) -> float:
        """Expand about `nodes` tiles; all of them if nodes are counted, for deterministic results."""
        if self._mapper is None:
            self._begin()
        if self._mapper is None:
            return 0.0
        before, known, counts_nodes = self._mapper.nodes, self._mapper.answer, self._owner.run.counts_nodes
        if self._mapper.go_on(self.run, inf if counts_nodes else nodes):
            self.end()
        elif self._mapper.answer is not None and self._mapper.answer != known:
            self._owner.step_from(self._mapper.answer)
        return self._mapper.nodes - before

    def _begin(self) -> None:
        """Start the search; raises InputError for too many tiles if no other mapping is known."""
        owner, value = self._owner, self._owner.value
        limit = value + max(1.0, 2 * CLOSE * value) if value < inf else inf
        try:
            self._mapper = ExactMapper(owner.problem, owner.objective, without_bound(owner.run), best=limit)
        except AcceleratorError:
            raise
        except InputError:
            if owner.answer is None:
                raise
            self.ended_by = Stop.COMPLETED

    def end(self) -> None:
        """End the search; without any mapping it first continues to one."""
        if self._mapper is None and self._owner.answer is None:
            self._begin()
        if self._mapper is not None and not self.has_ended:
            even = self._mapper.end()
            self.ended_by = even.stopped_by
            self._owner.take_even(even)


class _BoundOfAll(Strategy):
    """The bound on all mappings, whose nodes are spatial unrollings; its chains may yield mappings."""

    name = "bound"

    def __init__(self, owner: WideMapper, bounds: WayBounds, has_stepped: Callable[[], bool]) -> None:
        super().__init__(owner._incumbent, owner.run, 1.0)
        self._owner = owner
        self._bounds = bounds
        self._has_stepped = has_stepped

    @property
    def is_ready(self) -> bool:
        """True after local search from all unrollings, or at half of the time: in a second local search gains more."""
        run = self._owner.run
        is_late = run.deadline.is_set and run.seconds_left < run.deadline.seconds
        return self._owner.answer is not None and (is_late or self._has_stepped())

    def advance(self, nodes: float) -> float:
        """Expand about `nodes` nodes, and try the chains below the best mapping."""
        owner, before, value = self._owner, self._bounds.nodes, round(self._owner.value)
        self.incumbent.raise_bound(self._bounds.bound(value, self.run, nodes))
        owner.look_at_chains(value, self.run)
        if self._bounds.is_done(self.run) and round(owner.value) == value:
            self.ended_by = Stop.COMPLETED
        return max(1.0, self._bounds.nodes - before)


def solve_widely(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    """Return the best mapping found; status and bound hold for all mappings WITHOUT_BYPASS.

    `optimal_among` names EVEN_MAPPINGS if the answer is FEASIBLE and the proven best even mapping. INFEASIBLE is never
    claimed. Raises AcceleratorError if the accelerator's description is incomplete, InputError for a layer that is too
    large.
    """
    return WideMapper(problem, objective, run).solve()


def longer_layers(layer: Layer) -> Iterator[Layer]:
    """Yield the layer with one loop lengthened, the smallest extension first.

    An even mapping of a longer loop can be better once it is cut off. No even mapping of 512 iterations has a factor of
    3. Mappings of 540 iterations have, and only 512 of them are executed.
    """
    lengthened = [
        (length / bound, loop, length)
        for loop, bound in layer.bounds.items()
        for length in _products_of_small_primes(bound + bound // MOST_LENGTHENED)
        if length > bound
    ]
    for _, loop, length in sorted(lengthened, key=lambda one: (one[0], LOOPS.index(one[1]))):
        yield layer.padded_to({**layer.bounds, loop: length})


def _products_of_small_primes(most: int) -> list[int]:
    found = [1]
    for prime in SMALL_PRIMES:
        powers = [prime**power for power in range(most.bit_length())]
        found = [one * power for one in found for power in powers if one * power <= most]
    return found


def refined(
    problem: LayerProblem, executed: Layer, objective: MappingObjective, start: LayerMapping, mappings: int, run: Run
) -> tuple[float, LayerMapping]:
    """Return the best value and mapping of a local search that costs about `mappings` mappings of `executed`.

    Returns `start` if nothing is better. Loops are those of `executed`, which may be longer than the layer's. Raises
    MappingError if `start` has other loops.
    """
    array = array_of(problem.accelerator)
    search = ExactRefiner(
        native_layer(executed, problem.accelerator),
        native_machine(problem),
        OBJECTIVES[objective],
        [[loop in loops_along(array, name) for loop in LOOPS] for name in array.sizes],
        SEED,
        *LayerCosts(problem, executed).encode([start]),
    )
    at_once = WideParams().mappings_at_once
    for costed in range(0, mappings, at_once):
        if run.stop is not None:
            break
        search.go_on(min(at_once, mappings - costed))
    return search.value, mapping_of(search.nest, problem) if search.value < inf else start
