"""The joint schedule search: several starts, then local search over order, residencies, groups, tiles and mappings.

The starts are every operator alone, the residencies of a plan, and the fused groups of the group search. Rounds of
moves then improve the best schedule until the time is over, its value equals the bound, or rounds stop improving it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from random import Random
from typing import Final

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import OPTIMAL, ScheduleOptions
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.ir.graph import Graph
from onchip.mapping.methods.cache import MappingCache
from onchip.model.program.compute_cost import MemoryRates
from onchip.scheduling.candidates.given import ensure_given_exist
from onchip.scheduling.candidates.grouping import GivenGroups, Grouper, alone_in_dram, together
from onchip.scheduling.fronts.stack_front import StackPrices
from onchip.scheduling.mappings.mapped import KnownMappings, OptionPrices
from onchip.scheduling.mappings.nest_mapper import BestMapper, dram_first
from onchip.scheduling.mappings.weighing import LongerLook, Weigher
from onchip.scheduling.moves.cutting import Cutter, TiledRun
from onchip.scheduling.moves.residency_path import ResidencyPath
from onchip.scheduling.moves.restacking import Merger, Reorderer, Restacker, places_of_lone
from onchip.scheduling.params import ScheduleParams
from onchip.scheduling.program.attempt import AttemptMaker, Listener, ScheduleAttempt
from onchip.scheduling.program.composition import FoundSchedule, NoGapError, NoMappingError, ScheduleQuestion
from onchip.scheduling.program.from_schedule import decisions_of_schedule
from onchip.scheduling.program.places import FirstPlaces, Places, planned_start
from onchip.scheduling.program.usable import ensure_usable
from onchip.search.budget.limits import Run
from onchip.transform.groups.tiled import tile_graph_of_schedule

METHOD: Final = "composed"
OTHERS: Final = {
    ScheduleObjective.ENERGY: (ScheduleObjective.TRAFFIC,),
    ScheduleObjective.TRAFFIC: (ScheduleObjective.ENERGY,),
    ScheduleObjective.LATENCY: (ScheduleObjective.ENERGY,),
    ScheduleObjective.EDP: (ScheduleObjective.ENERGY, ScheduleObjective.LATENCY),
}
"""The objectives whose answers are starts for an objective."""


@dataclass(slots=True)
class ScheduleSearch:
    """Answers one question within one run.

    `attempts` are the schedules that moves improve, each in its own stacks.
    """

    question: ScheduleQuestion
    options: ScheduleOptions
    run: Run
    listener: Listener | None = None
    params: ScheduleParams = field(default_factory=ScheduleParams)
    asks_others: bool = True
    """True if the answers for other objectives are starts. A search for such a start maps loop nests by energy."""
    attempts: list[ScheduleAttempt] = field(default_factory=list, init=False)
    mappings: KnownMappings = field(init=False)
    _whole: Run = field(init=False)
    """The run as given; `run` ends earlier by the time that the best schedule takes to be priced and verified."""
    _mapper: BestMapper = field(init=False)
    _maker: AttemptMaker = field(init=False)
    _alone: ScheduleAttempt | None = field(default=None, init=False)
    _why_not: str | None = field(default=None, init=False)
    _left_alone: tuple[tuple[str, str], ...] = field(default=(), init=False)
    _given: GivenGroups | None = field(default=None, init=False)
    _chance: Random = field(init=False)
    _merger: Merger = field(init=False)
    _in_vain: int = field(default=0, init=False)
    """Rounds in a row without a better schedule."""

    def __post_init__(self) -> None:
        question, run = self.question, self.run
        ensure_given_exist(question.network, question.precision, question.accelerator, self.options.of_fusion)
        cache = MappingCache.opened() if question.uses_cache else None
        is_traffic = self.asks_others and question.objective is ScheduleObjective.TRAFFIC
        prices = dram_first(question.accelerator) if is_traffic else None
        self._mapper = BestMapper(question.accelerator, question.objective.of_layers, run, cache, False, prices)
        self.mappings = KnownMappings(self._mapper)
        self._whole = run
        self._maker = AttemptMaker(question, self.mappings, self._mapper, run, self.listener, self.params, whole=run)
        self._chance = Random(run.limits.seed)
        self._merger = Merger(self._maker, self.params.most_tiles_to_merge, self._is_limited)

    def solved(self) -> SearchResult[FoundSchedule]:
        """Return the best schedule found; UNKNOWN if not even one operator after the other has mappings in time."""
        why_alone = self._start()
        if self.best is None:
            return self._result(None, self._why_not)
        if self.options.leaves_stacks_open and not self._is_over:
            self._combine_groups(self.best)
            if self.asks_others and not self._is_over:
                self._ask_others()
        if self._is_weighing:
            self._mapper.shows_others = True
            self.mappings.weigh(OptionPrices(MemoryRates(self.question.accelerator), self.question.objective))
        self._improve_in_rounds()
        found = replace(self.best.found(), why_alone=why_alone, left_alone=self._left_alone)
        return self._result(found)

    @property
    def best(self) -> ScheduleAttempt | None:
        """Return the best schedule so far; None if there is none yet."""
        return min(self.attempts, key=lambda one: one.improver.best.key, default=None)

    def _share(self, share: float) -> Run:
        """Return the run with a share of the time that is left."""
        return self.run.within(share * max(0.0, self.run.seconds_left)) if self._is_limited else self.run

    @property
    def _is_limited(self) -> bool:
        return self.run.deadline.is_set

    @property
    def _is_weighing(self) -> bool:
        """True if the best mapping of each loop nest alone need not be best for the whole schedule."""
        return self.options.weighs_mappings and self.question.objective is not ScheduleObjective.ENERGY

    # Starts

    def _start(self) -> str | None:
        """Find the first schedules; return why there are no groups as asked for, if there are none."""
        options = self.options
        self._start_from_earlier()
        if options.groups == OPTIMAL or options.runs_layers_whole:
            self._start_layer_by_layer()
            self._start_together()
            self._start_from_plan()
            if self._alone is not None:
                self._descend(self._alone)
        if options.groups == OPTIMAL:
            self._start_from_blocks()
        elif not options.runs_layers_whole:
            self._start_from_groups()
        lacks_groups = not self.attempts and not options.runs_layers_whole
        is_late = self.run.stop is not None
        if lacks_groups:
            self._start_layer_by_layer()
            if self._alone is not None:
                self._descend(self._alone)
        if options.groups == OPTIMAL or not lacks_groups:
            return None
        return f"no stacks as asked for {'in time' if is_late else 'fit, or can run in tiles'}"

    def _start_layer_by_layer(self) -> None:
        """Run every operator alone with streamed operands; those that do not fit so have some operands on chip."""
        network = self.question.network
        others = FirstPlaces(network, self.question.accelerator.addressed)
        places: Places | None = Places()
        needs: dict[str, str] = {}
        while places is not None:
            try:
                alone = tuple(ScheduledStack((name,)) for name in short_branches_first(network))
                self._alone = self._add(alone, places)
                break
            except ScheduleError:
                if not self.attempts:
                    raise
                return  # no time is left to compose it, and an earlier schedule is an answer
            except NoMappingError as error:
                self._why_not = needs.setdefault(error.operator, str(error))
                may_go_on = self.options.maps_stay and self.run.stop is None
                places = others.after(error.operator) if may_go_on else None
        if self._alone is not None and self.question.objective.is_timed:
            self._look_longer(self._alone, is_wide=True)

    def _start_from_earlier(self) -> None:
        """Take the stacks, the residencies, and the better mappings of the schedule that the options give."""
        earlier, question = self.options.start, self.question
        if earlier is None or not self.options.leaves_stacks_open or not self.options.maps_stay:
            return
        try:
            tiles = tile_graph_of_schedule(question.network, earlier, question.precision)
        except ScheduleError:
            return
        decisions = decisions_of_schedule(earlier, tiles, question.accelerator)
        try:
            attempt = self._add(decisions.stacks, decisions.places)
        except (NoMappingError, ScheduleError):
            return
        for nest, room, known in attempt.improver.best.composition.nests:
            mapping = decisions.mappings.get((nest.layer, nest.homes), known.mapping)
            found = None if mapping == known.mapping else self._mapper.priced(nest, room.room, mapping)
            if found is not None and self._mapper.value_of(found) < self._mapper.value_of(known):
                self.mappings.replace(nest, room.room, found)
        attempt.compose_again()
        self._descend(attempt)

    def _start_from_plan(self) -> None:
        """Take the order and the residencies of a plan with minimum traffic, if whole operators fit."""
        if not self.options.maps_stay or self._is_over:
            return
        question = self.question
        run = self._share(self.params.share_of_plan)
        start = planned_start(question.network, question.accelerator, run, question.views)
        if start is None:
            return
        stacks = tuple(ScheduledStack((name,)) for name in start.order)
        try:
            attempt = self._add(stacks, start.places)
        except (NoMappingError, ScheduleError):
            return
        if self._alone is None or attempt.improver.best.key < self._alone.improver.best.key:
            self._alone = attempt

    def _start_together(self) -> None:
        """Take the groups that the question names, in strips of rows; all others run alone."""
        alone, question = self._alone, self.question
        if alone is None or self._is_over or not question.together or not self.options.leaves_stacks_open:
            return
        with self._mapper.quick(is_quick=self._is_limited, is_hurried=True):
            grouper = Grouper(self._maker, alone, self.options.of_fusion)
            groups = [grouper.in_strips(operators, self.run) for operators in question.together]
        found = {name: one for one in groups if one is not None for name in one.stack.operators}
        order = (name for stack in alone.stacks for name in stack.operators)
        options = (found.get(name, alone_in_dram(name)) for name in order)
        stacks = {one.stack.operators[0]: one for one in options}
        attempt = self._repaired(*together(tuple(stacks.values()))) if found else None
        if attempt is not None:
            self._descend(attempt)

    def _start_from_blocks(self) -> None:
        """Take fused groups that are chosen by the schedule's own cost, with the maps around them in DRAM.

        Later groups are combined with those before by the moves.
        """
        alone = self._alone
        if alone is None or self._is_over or not self.options.maps_stay:
            return
        run = self._share(self.params.share_of_blocks)
        attempt: ScheduleAttempt | None = None
        grouper = Grouper(self._maker, alone, self.options.of_fusion)
        self._search_within(run)
        with self._mapper.quick(is_quick=self._is_limited, is_hurried=True):
            for stacks, places in grouper.chosen(run):
                self._search_within(self.run)
                attempt = self._repaired(stacks, places) or attempt
                self._search_within(run)
        self._search_within(self.run)
        if attempt is not None:
            self._descend(attempt)

    def _start_from_groups(self) -> None:
        """Take the groups, tiles or modes that the options give."""
        if self._is_over:
            return
        run = self._share(self.params.share_of_groups)
        self._search_within(run)
        with self._mapper.quick(is_quick=self._is_limited, is_hurried=True):
            self._given = Grouper(self._maker, self._alone, self.options.of_fusion).given(run)
        self._search_within(self.run)
        given = self._given
        if given is None or self.run.stop is not None:
            return
        attempt = self._add_if_possible(given.stacks, given.places)
        if attempt is None:
            return
        self._left_alone = tuple(given.left_alone)
        if self._alone is not None and self.options.maps_stay:
            with self._mapper.quick(is_quick=self._is_limited):
                lone = places_of_lone(attempt.stacks, self._alone)
                attempt.improver.consider(attempt.places.with_all(lone), self.run)

    def _ask_others(self) -> None:
        """Search for the other objectives; their answers, with better mappings for this objective, join the others."""
        others = OTHERS[self.question.objective]
        for at, objective in enumerate(others):
            question = replace(self.question, objective=objective, lower_bound=0)
            run = replace(self._share(self.params.share_of_others / (len(others) - at)), listener=lambda _: None)
            search = ScheduleSearch(question, self.options, run, None, self.params, asks_others=False)
            search.solved()
            if search.best is not None:
                self._take_mappings_of(search.best)
                self._add_if_possible(tuple(search.best.stacks), search.best.places)

    def _take_mappings_of(self, other: ScheduleAttempt) -> None:
        """Adopt the mappings of an answer for another objective that are better than those found at once."""
        with self._mapper.quick(is_quick=self._is_limited):
            for nest, room, mapped in other.improver.best.composition.nests:
                known = self.mappings.best(nest, room.room)
                if known is None or self._mapper.value_of(mapped) < self._mapper.value_of(known):
                    found = replace(mapped, is_quick=True, is_proven=False, is_wide=False)
                    self.mappings.replace(nest, room.room, found)

    def _repaired(self, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt | None:
        """Keep the schedule of these groups, and return it; None if there is none.

        Where a loop nest fits in no free bytes, maps of its operator move to larger memories; where a tensor finds no
        gap, all maps of its group. If there are none, the operators of its group run alone, and so do those of the
        group of most tiles if there is no time for all tiles. Maps of an operator alone pass DRAM.
        """
        network = self.question.network
        for _ in range(self.params.repairs):
            if self.run.stop is not None:
                break
            try:
                return self._add(stacks, places)
            except NoMappingError as error:
                if isinstance(error, NoGapError):
                    found = self._with_room(stacks, places, error.operators_of(network)[0])
                    if found is not None:
                        places = found
                        continue
                before = stacks, places
                for name in error.operators_of(network):
                    at = next(number for number, stack in enumerate(stacks) if name in stack.operators)
                    operator = network.operator[name]
                    farther = places.farther(at, operator, self.question.accelerator)
                    tensors = (*operator.outputs, *operator.inputs)
                    near = [one for one in tensors if (at, one) in places.written or (at, one) in places.read]
                    if farther is not None:
                        places = farther
                    elif len(stacks[at].operators) > 1 and self._alone is not None:
                        stacks, places = _with_operators_alone(stacks, places, at, self._alone)
                    elif near:
                        places = places.with_map(near[0], None, (), None)
                if (stacks, places) == before:
                    return None
            except ScheduleError:
                at = max(range(len(stacks)), key=lambda number: self._maker.tile_operators_of(stacks[number]))
                if stacks[at].tiling is None or self._alone is None:
                    return None
                stacks, places = _with_operators_alone(stacks, places, at, self._alone)
                if all(one.tiling is None for one in stacks):
                    return None
        return None

    def _with_room(self, stacks: Sequence[ScheduledStack], places: Places, operator: str) -> Places | None:
        """Return the places with all maps of an operator's group one memory farther from the MACs; None if none can."""
        at = next(number for number, stack in enumerate(stacks) if operator in stack.operators)
        found: Places | None = None
        for name in stacks[at].operators:
            found = (found or places).farther(
                at, self.question.network.operator[name], self.question.accelerator
            ) or found
        return found

    def _add_if_possible(self, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt | None:
        try:
            attempt = self._add(stacks, places)
        except (NoMappingError, ScheduleError):
            return None
        self._descend(attempt)
        return attempt

    def _add(self, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt:
        """Compose a schedule, in limited time with mappings that are found at once, and keep it."""
        with self._mapper.quick(is_quick=self._is_limited, is_sure=True):
            attempt = self._maker.made(stacks, places)
        self._keep(attempt)
        return attempt

    def _keep(self, attempt: ScheduleAttempt) -> None:
        if not any(one is attempt for one in self.attempts):
            self.attempts.append(attempt)
            self._keep_time_to_finish()
            attempt.improver.composer.run = self.run
            self.run.report(attempt.value, self.question.lower_bound, f"{len(attempt.stacks)} groups")

    def _keep_time_to_finish(self) -> None:
        """End the run so early that the best schedule can be priced and verified."""
        if self._is_limited and self.best is not None:
            seconds = self._maker.seconds_to_finish(len(self.best.tiles.graph.operators))
            self.run = self._whole.within(self._whole.seconds_left - seconds)
            self._search_within(self.run)

    def _descend(self, attempt: ScheduleAttempt) -> None:
        """Improve the residencies of a schedule with mappings that are found at once."""
        if self.options.maps_stay:
            with self._mapper.quick(is_quick=self._is_limited):
                share = self._share(self.params.share_of_residencies)
                self._place(attempt, share, self.params.labels, is_narrow=True)
                attempt.improver.improve(share)

    def _place(self, attempt: ScheduleAttempt, run: Run, labels: int, *, is_narrow: bool = False) -> None:
        """Take the residencies of all tensors that label setting finds, if they are better."""
        if run.seconds_left < attempt.seconds:
            return
        composition, composer = attempt.improver.best.composition, attempt.improver.composer
        prices = StackPrices(self.question.objective, composition.energy_fj, composition.cycles)
        places = ResidencyPath(composer, prices, labels, is_narrow).found(attempt.places, run)
        if places is not None and attempt.improver.consider(places, run):
            run.report(attempt.value, self.question.lower_bound, "residencies of all tensors")

    # Rounds of moves

    def _improve_in_rounds(self) -> None:
        most = self.params.rounds_in_vain if self._is_limited else self.params.rounds_without_limit
        while self._in_vain < most and not self._is_over:
            in_order = sorted(self.attempts, key=lambda one: one.improver.best.key)
            before = in_order[0].improver.best.key
            self._improve(in_order[min(self._in_vain, len(in_order) - 1)])
            is_better = min(one.improver.best.key for one in self.attempts) < before
            self._in_vain = 0 if is_better else self._in_vain + 1

    @property
    def _is_over(self) -> bool:
        """True if the run has to stop, or the best schedule has the value of the lower bound."""
        best = self.best
        return self.run.stop is not None or (best is not None and best.value <= self.question.lower_bound)

    def _improve(self, attempt: ScheduleAttempt) -> None:
        """Apply each kind of move to a schedule, in a share of the time each."""
        for moved in self._moves(attempt):
            if moved is not attempt:
                self._keep(moved)
                attempt = moved
            if self._is_over:
                return

    def _moves(self, attempt: ScheduleAttempt) -> Iterator[ScheduleAttempt]:
        """Yield the schedule after each kind of move: groups, mappings, order, residencies, and perturbations."""
        share, is_open = self.params.share_of_move, self.options.leaves_stacks_open
        is_small = len(attempt.stacks) <= self.params.most_stacks_to_reorder
        if is_open:
            attempt = self._combine_groups(attempt)
            yield attempt
        self._look_longer(attempt)
        self._look_longer(attempt, is_wide=True)
        yield attempt
        if is_open:
            yield self._regrouped(attempt)
            attempt = self._best_of(attempt)
            if is_small:
                with self._mapper.quick(is_quick=self._is_limited):
                    attempt = self._merger.improved(attempt, self._share(share))
                yield attempt
                attempt = self._best_of(attempt)
        if is_small:
            with self._mapper.quick(is_quick=self._is_limited):
                attempt = Reorderer(self._maker).improved(attempt, self._share(share))
            yield attempt
        if self._is_weighing:
            with self._mapper.quick():
                Weigher(self.mappings, self._mapper).weigh(attempt, self._share(share))
        yield attempt
        if self.options.maps_stay:
            attempt.improver.begin_again()
            with self._mapper.quick(is_quick=self._is_limited):
                self._place(attempt, self._share(share), self.params.labels << self._in_vain)
            attempt.improver.improve(self._share(share))
            with self._mapper.quick():
                attempt.improver.shake(self._share(share))
            yield attempt
        if is_small:
            shuffled = self._shuffled(attempt)
            if shuffled is not None:
                yield shuffled
        self._look_longer(attempt)
        yield attempt

    def _best_of(self, attempt: ScheduleAttempt) -> ScheduleAttempt:
        best = self.best
        return attempt if best is None or attempt.improver.best.key <= best.improver.best.key else best

    def _look_longer(self, attempt: ScheduleAttempt, *, is_wide: bool = False) -> None:
        """Search again for mappings that are not proven, or for uneven ones."""
        if is_wide and not self._is_limited:  # a proof over uneven mappings may take hours
            return
        look = LongerLook(self.mappings, self._mapper, self.question.objective.is_timed, is_wide)
        look.improve(attempt, self._share(self.params.share_of_move))

    def _regrouped(self, attempt: ScheduleAttempt) -> ScheduleAttempt:
        """Return the schedule with other tiles or single operators in place of its groups, if that is better."""
        with self._mapper.quick(is_quick=self._is_limited):
            return Restacker(self._maker, self._alone).improved(attempt, self._share(self.params.share_of_move))

    def _combine_groups(self, attempt: ScheduleAttempt) -> ScheduleAttempt:
        """Return the schedule with the best groups and tiles of all schedules, after a descent."""
        found = self._cut(attempt)
        if found is not attempt:
            self._keep(found)
            self._descend(found)
        return found

    def _cut(self, attempt: ScheduleAttempt) -> ScheduleAttempt:
        """Return the schedule with other groups and tiles, chosen together from the fronts of its groups."""
        run = self._share(self.params.share_of_move)
        self._search_within(run)
        with self._mapper.quick(is_quick=self._is_limited, is_hurried=True):
            found = Cutter(self._maker).improved(attempt, run, self.attempts, self._tiled_runs())
        self._search_within(self.run)
        return found

    def _shuffled(self, attempt: ScheduleAttempt) -> ScheduleAttempt | None:
        """Return the schedule in another order near its own, after a descent, if it is better."""
        with self._mapper.quick(is_quick=self._is_limited):
            found = Reorderer(self._maker).shuffled(attempt, self._chance)
        if found is None:
            return None
        self._descend(found)
        return found if found.improver.best.key < attempt.improver.best.key else None

    def _tiled_runs(self) -> list[TiledRun]:
        """Return the groups of several operators of all schedules that were found, and of the group search."""
        found = [(one.stacks, one.places) for one in self.attempts]
        found += [] if self._given is None else [(self._given.stacks, self._given.places)]
        return [
            TiledRun(stack, places.renumbered({number: 0}))
            for stacks, places in found
            for number, stack in enumerate(stacks)
            if len(stack.operators) > 1
        ]

    def _search_within(self, run: Run) -> None:
        """Let everything that searches use this run from now on."""
        self._mapper.run = self._maker.run = run

    def _result(self, found: FoundSchedule | None, why_not: str | None = None) -> SearchResult[FoundSchedule]:
        stop = self.run.stop or Stop.COMPLETED
        bound = self.question.lower_bound
        if found is None:
            return SearchResult(Status.UNKNOWN, None, None, bound, self.run.seconds, METHOD, stop, why_not=why_not)
        value = self.question.objective.value_of(found.figures)
        status = Status.OPTIMAL if value == bound else Status.FEASIBLE
        return SearchResult(status, found, value, bound, self.run.seconds, METHOD, stop)


def short_branches_first(network: Graph) -> tuple[str, ...]:
    """Return the operators in an order in which a join follows the longest of its branches, the others before it.

    The join and the end of that branch may then be one group. A branch has the operators that no other input of the
    join needs.
    """
    number = {one.name: at for at, one in enumerate(network.operators)}
    inputs = [
        list(dict.fromkeys(number[network.producer[name].name] for name in one.reads if name in network.producer))
        for one in network.operators
    ]
    before = list[int]()
    """Set of operators that an operator needs, and itself, as a bit mask."""
    for at, own in enumerate(inputs):
        before.append(reduce(or_, (before[each] for each in own), 1 << at))
        needed_by_others = {each: reduce(or_, (before[one] for one in own if one != each), 0) for each in own}
        own.sort(key=lambda each: (before[each] & ~needed_by_others[each]).bit_count())
    waiting = [at for at, one in enumerate(network.operators) if not any(network.readers[name] for name in one.outputs)]
    waiting.reverse()
    order = dict[int, None]()
    while waiting:
        missing = [each for each in inputs[waiting[-1]] if each not in order]
        if missing:
            waiting += reversed(missing)
        else:
            order[waiting.pop()] = None
    return tuple(network.operators[at].name for at in order)


def _with_operators_alone(
    stacks: Sequence[ScheduledStack], places: Places, at: int, alone: ScheduleAttempt
) -> tuple[Sequence[ScheduledStack], Places]:
    """Return the stacks with the operators of one of them alone, where the schedule `alone` has their tensors."""
    count = len(stacks[at].operators)
    found = (*stacks[:at], *(ScheduledStack((name,)) for name in stacks[at].operators), *stacks[at + 1 :])
    kept = places.renumbered({old: old if old < at else old + count - 1 for old in range(len(stacks)) if old != at})
    number = {name: new for new, stack in enumerate(found) for name in stack.operators}
    inside = set(stacks[at].operators)
    own = {old: number[one.operators[0]] for old, one in enumerate(alone.stacks) if inside & set(one.operators)}
    return found, kept.with_all(alone.places.renumbered(own))


def solve_schedule(
    question: ScheduleQuestion, options: ScheduleOptions, run: Run, listener: Listener | None = None
) -> SearchResult[FoundSchedule]:
    """Search for a schedule with minimum objective value; a `listener` hears of every schedule that has offsets.

    The search compares energies for every
    objective, so the accelerator has to state them (`with_assumed_energies`). Raises
    InputError for an accelerator that cannot be used, or options that are not of the network.
    """
    ensure_usable(question.accelerator, ScheduleObjective.ENERGY)
    return ScheduleSearch(question, options, run, listener).solved()
