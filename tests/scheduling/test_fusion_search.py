"""The search for fused groups and its space, against trying everything."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.options.fusion_objective import Criteria, sum_of, value_of
from onchip.answer.options.fusion_options import Combination, FusionOptions, Placements
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.result import Status, Stop
from onchip.answer.stacks import LayerInNetwork, OverlapMode, Tiling
from onchip.answer.strategy import FusionStrategy
from onchip.arch.accelerator import Accelerator
from onchip.errors import InternalError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.candidates.spaces import StackSpace, shared_spaces, space_of, waiting_longest
from onchip.scheduling.choice.guided import Estimates, GuidedSearch
from onchip.scheduling.choice.search import FoundWay, LazySearch, best_of
from onchip.scheduling.choice.solve import Solver, choices_of, strategy_of
from onchip.scheduling.choice.ways import Arc, PathToPlace, pareto
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, legal_spans, spans_of, stack_of, whole
from onchip.verify.rules import Rule
from onchip.verify.strategy import verify_strategy
from support.choice_problems import Problem, Table, problems, stopped_after
from support.fusable_networks import RESIDUAL, chain, network_of, networks
from support.fusion_spaces import CHIP, MEMORIES, RandomCosts, ways_through


@pytest.mark.slow
@given(problems(), st.integers(1, 3))
def test_the_way_found_costs_what_the_best_of_all_does(problem: Problem, ahead: int) -> None:
    found = problem.solved(ahead=ahead)
    best = problem.best_value()
    if best is None:
        assert (found.status, found.way) == (Status.INFEASIBLE, None)
    else:
        assert found.way is not None
        assert (found.status, found.way.value, found.lower_bound) == (Status.OPTIMAL, best, best)
        costs = [problem.table.true[choice] for choice in found.way.choices]
        assert found.way.cost == sum_of([problem.begun, *(cost for cost in costs if cost is not None)])


@pytest.mark.slow
@given(problems())
def test_arcs_that_there_was_no_time_to_look_at_are_looked_at_where_the_way_leads(problem: Problem) -> None:
    never = Run()
    never.interrupt.set()
    ledger = Ledger(problem.table)
    search = LazySearch(problem.arcs, problem.last, problem.begun, ledger, listing=never)
    begun = [] if search.way is None else [search.way.value]
    found, whole = best_of([search], Run(), ""), problem.solved()
    assert (found.status, found.lower_bound) == (whole.status, whole.lower_bound)
    assert found.way is None or all(value <= found.way.value for value in begun)


@pytest.mark.slow
@given(problems())
def test_nothing_is_costed_twice(problem: Problem) -> None:
    problem.solved(ahead=2)
    assert len(problem.table.asked) == len(set(problem.table.asked))


def test_what_is_known_to_be_impossible_is_not_costed() -> None:
    table = Table({0: None, 1: None, 2: (3,)}, {0: 0, 1: 0, 2: 2})
    ledger = Ledger(table)

    assert ledger.bring_closer((0, 1, 2), Run())
    ledger.learn((0, 1, 2))

    assert table.asked == [1, 2]
    assert ledger.known == {0: None, 1: None, 2: (3,)}
    assert not ledger.bring_closer((0, 1, 2), Run())


@pytest.mark.slow
@given(problems(), st.integers(0, 4))
def test_stopped_early_it_has_a_bound_and_perhaps_a_way(problem: Problem, rounds: int) -> None:
    found = problem.solved(stopped_after(rounds))
    best = problem.best_value()
    if best is not None:
        assert found.lower_bound <= best
        assert found.way is None or found.way.value >= best
        assert (found.status is Status.OPTIMAL) == (found.stopped_by is Stop.COMPLETED)
    else:
        assert found.status in (Status.INFEASIBLE, Status.UNKNOWN)


@pytest.mark.slow
@given(st.lists(problems(), min_size=1, max_size=3).filter(lambda each: len({one.begun for one in each}) == 1))
def test_of_several_searches_the_best(several: list[Problem]) -> None:
    """Choices get numbers of their own, so that all share one ledger."""
    true: dict[int, Criteria | None] = {}
    slack: dict[int, int] = {}
    ledger = Ledger[int](Table(true, slack, len(several[0].begun)))
    searches = []
    for number, problem in enumerate(several):
        true.update({1000 * number + choice: cost for choice, cost in problem.table.true.items()})
        slack.update({1000 * number + choice: each for choice, each in problem.table.slack.items()})
        arcs = [Arc(a.source, a.target, tuple(1000 * number + choice for choice in a.choices)) for a in problem.arcs]
        searches.append(LazySearch(arcs, problem.last, problem.begun, ledger))
    found = best_of(searches, Run(), "")
    values = [value for problem in several if (value := problem.best_value()) is not None]
    assert (found.way.value if found.way else None) == min(values, default=None)


def test_what_is_spent_beforehand_decides_which_product_is_least() -> None:
    """(1, 9) is the lesser product; after (9, 0) were spent, (4, 4) is the better step."""
    table = Table({0: (1, 9), 1: (4, 4)}, {0: 0, 1: 0}, 2)
    ways = [Problem((Arc(0, 1, (0, 1)),), 1, table, begun).solved().way for begun in ((0, 0), (9, 0))]
    assert [way and (way.choices, way.value) for way in ways] == [((0,), 9), ((1,), 52)]


def test_without_steps_the_way_costs_what_it_begins_with() -> None:
    found = Problem((), 0, Table({}, {}), (7,)).solved()
    assert found.way is not None
    assert (found.status, found.way.choices, found.way.value, found.lower_bound) == (Status.OPTIMAL, (), 7, 7)


def test_a_choice_whose_bound_is_too_high_is_never_costed() -> None:
    table = Table({0: (5,), 1: (9,), 2: (7,)}, {0: 1, 1: 1, 2: 2})
    found = Problem((Arc(0, 1, (0, 1, 2)),), 1, table, (0,)).solved()
    assert found.way is not None
    assert found.way.choices == (0,)
    assert table.asked == [0]


def test_a_choice_whose_closer_bound_is_too_high_is_never_costed() -> None:
    table = Table({0: (90,), 1: (50,)}, {0: 60, 1: 10})
    problem = Problem((Arc(0, 1, (0, 1)),), 1, table, (0,))

    assert problem.solved().lower_bound == 50
    assert table.asked == [1]


def test_the_least_sum_of_products_is_not_made_of_the_least_products() -> None:
    """Energies and latencies: (1, 9) and (9, 1) are the least products, (4, 4) twice is the least of sums."""
    costs: dict[int, Criteria | None] = {0: (1, 9), 1: (4, 4), 2: (9, 1), 3: (4, 4)}
    problem = Problem((Arc(0, 1, (0, 1)), Arc(1, 2, (2, 3))), 2, Table(costs, dict.fromkeys(costs, 0), 2), (0, 0))
    found = problem.solved()
    assert found.way is not None
    assert (found.way.choices, found.way.value) == ((1, 3), 64)


def test_a_cost_below_its_bound_is_a_defect() -> None:
    class Wrong(Table):
        def bound(self, choice: int) -> Criteria:
            return (8,)

    with pytest.raises(InternalError, match="it costs"):
        Problem((Arc(0, 1, (0,)),), 1, Wrong({0: (7,)}, {0: 0}), (0,)).solved()


def test_no_time_is_no_answer() -> None:
    problem = Problem((Arc(0, 1, (0,)),), 1, Table({0: (7,)}, {0: 3}), (0,))
    found = problem.solved(Run(Limits(time_limit_seconds=0.0)))
    assert (found.status, found.lower_bound, found.stopped_by) == (Status.UNKNOWN, 4, Stop.TIME_LIMIT)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_a_front_keeps_what_no_other_is_as_good_as(costs: list[Criteria]) -> None:
    ways: list[PathToPlace[int]] = [PathToPlace(cost) for cost in costs]
    kept = [way.cost for way in pareto(ways)]
    for cost in costs:
        assert any(all(map(int.__le__, one, cost)) for one in kept)
    for one in kept:
        assert sum(all(map(int.__le__, other, one)) for other in kept) == 1


def kind_of(choice: int) -> Hashable:
    return choice % 2


def improved(
    problem: Problem, run: Run | None = None, best: PathToPlace[int] | None = None, ahead: int = 1
) -> tuple[PathToPlace[int] | None, Ledger[int]]:
    ledger = Ledger[int](problem.table)
    search = GuidedSearch(problem.arcs, problem.last, problem.begun, Estimates(ledger, kind_of), ahead, best)
    return search.improve(run or Run(), ""), ledger


@pytest.mark.slow
@given(problems(), st.integers(1, 3))
def test_the_way_that_estimates_lead_to_is_one_and_all_of_it_is_costed(problem: Problem, ahead: int) -> None:
    way, _ = improved(problem, ahead=ahead)
    best = problem.best_value()
    if way is None:
        assert best is None
        return
    assert way.choices in set(problem.every_way())
    costs = [problem.table.true[choice] for choice in way.choices]
    assert way.cost == sum_of([problem.begun, *(cost for cost in costs if cost is not None)])
    assert None not in costs
    assert best is not None
    assert way.value >= best


@pytest.mark.slow
@given(problems())
def test_from_there_on_the_best_is_proven_and_nothing_costed_twice(problem: Problem) -> None:
    start, ledger = improved(problem)
    search = LazySearch(problem.arcs, problem.last, problem.begun, ledger)
    found = best_of([search], Run(), "", start)
    assert (found.way.value if found.way else None) == problem.best_value()
    assert found.status in (Status.OPTIMAL, Status.INFEASIBLE)
    assert len(problem.table.asked) == len(set(problem.table.asked))


@pytest.mark.slow
@given(problems(), st.integers(0, 4))
def test_stopped_early_it_has_nothing_or_a_way(problem: Problem, rounds: int) -> None:
    way, _ = improved(problem, stopped_after(rounds))
    assert way is None or way.choices in set(problem.every_way())


def test_a_way_that_is_given_is_never_made_worse() -> None:
    problem = Problem((Arc(0, 1, (0, 1)),), 1, Table({0: (5,), 1: (9,)}, {0: 0, 1: 8}), (0,))
    given_way: PathToPlace[int] = PathToPlace((5,), 0, PathToPlace((0,)))
    for run in (Run(), Run(Limits(time_limit_seconds=0.0))):
        way, _ = improved(problem, run, given_way)
        assert way is not None
        assert way.value == 5


def test_bounds_that_are_far_too_low_do_not_lead_astray_once_their_kind_is_known() -> None:
    """Choices of even number cost ten times their bounds, those of odd number what their bounds say."""
    true: dict[int, tuple[int, ...] | None] = {0: (100,), 1: (60,), 2: (110,), 3: (50,), 4: (120,), 6: (130,)}
    table = Table(true, {0: 90, 1: 0, 2: 99, 3: 0, 4: 108, 6: 117})
    way, _ = improved(Problem((Arc(0, 1, (0, 2, 4, 6, 1)), Arc(1, 2, (3,))), 2, table, (0,)))
    assert way is not None
    assert way.choices == (1, 3)
    assert sorted(table.asked) == [0, 1, 3]


def test_estimates_lie_between_bounds_and_what_the_kind_costs() -> None:
    table = Table({0: (20,), 2: (30,), 4: (44,)}, {0: 10, 2: 15, 4: 22})
    ledger = Ledger[int](table)
    estimates = Estimates(ledger, kind_of)
    ledger.learn([0, 2])
    estimates.learn()
    assert (estimates.of(0), estimates.of(2)) == ((20,), (30,))
    assert estimates.of(4) == (43,)
    estimates.share = 0.0
    assert estimates.of(4) == (22,)


def tilings_on(network: FusableNetwork, span: LayerSpan) -> Sequence[Tiling]:
    output = stack_of(network, span).output
    return (whole(output), Tiling(1, 2, OverlapMode.FULLY_CACHED)) if span.length > 1 else (whole(output),)


def space_on_chip(network: FusableNetwork, *, may_stay: bool = True) -> StackSpace:
    return StackSpace(network, CHIP, legal_spans(network), partial(tilings_on, network), may_stay)


def layers_in(network: FusableNetwork) -> list[LayerInNetwork]:
    return [
        LayerInNetwork(
            one.name, tuple(r.source for r in one.reads), one.output.name, one.output.columns, one.output.rows,
            one.output.size_bits, one.output.name in network.outputs,
        )
        for one in network.layers
    ]  # fmt: skip


def every_strategy(space: StackSpace, memories: Sequence[str]) -> Iterator[FusionStrategy]:
    """All partitions into legal stacks, in all tilings, with outputs anywhere: legal ones, as the verifier says."""
    network = space.network

    def partitions(start: int) -> Iterator[tuple[LayerSpan, ...]]:
        if start == len(network.layers):
            yield ()
        for span in legal_spans(network):
            if span.start == start:
                yield from ((span, *rest) for rest in partitions(span.stop))

    layers = layers_in(network)
    for spans in partitions(0):
        for tilings in product(*(tilings_on(network, span) for span in spans)):
            for homes in product(memories, repeat=len(spans)):
                choices = [
                    StackChoice(span, tiling, (), home)
                    for span, tiling, home in zip(spans, tilings, homes, strict=True)
                ]
                strategy = strategy_of(network, choices)
                if not verify_strategy(layers, CHIP, strategy):
                    yield strategy


@pytest.mark.parametrize(
    "network",
    [
        chain(3),
        network_of(RESIDUAL),
        chain(3, size=3),
        network_of(RESIDUAL, leaving=("a", "d")),
        network_of(RESIDUAL, leaving=("c",)),
    ],
)
@pytest.mark.parametrize("may_stay", [True, False])
def test_the_ways_are_all_legal_strategies(network: FusableNetwork, may_stay: bool) -> None:
    """Maps of 32 (or 18) bytes: `near` holds one, `buffer` two (or three); registers and weights hold none."""
    space = space_on_chip(network, may_stay=may_stay)
    found = [strategy_of(network, way) for way in ways_through(*space.arcs())]
    memories = ["near", "buffer", "dram"] if may_stay else ["dram"]
    assert len(found) == len(set(found))
    assert set(found) == set(every_strategy(space, memories))


@pytest.mark.slow
@given(networks(), st.data())
def test_the_verifier_refuses_just_the_strategies_with_a_run_that_is_no_stack(
    network: FusableNetwork, data: st.DataObject
) -> None:
    """Cut anywhere; all maps in DRAM."""
    count = len(network.layers)
    cuts = data.draw(st.sets(st.integers(1, count - 1)) if count > 1 else st.just(set[int]()))
    spans = [LayerSpan(*ends) for ends in pairwise([0, *sorted(cuts), count])]
    choices = [StackChoice(span, Tiling(1, 1, OverlapMode.RECOMPUTE)) for span in spans]
    found = verify_strategy(layers_in(network), CHIP, strategy_of(network, choices))
    assert (not found) == (set(spans) <= set(legal_spans(network)))
    assert {one.rule for one in found} <= {Rule.OVER_A_BRANCH, Rule.OUTPUT_LOST}


@pytest.mark.slow
@given(networks(4), st.data())
def test_the_verifier_refuses_an_output_of_the_network_on_the_chip(
    network: FusableNetwork, data: st.DataObject
) -> None:
    """Layers alone, of whose maps `buffer` holds two; a map that is read, and no output, may lie there."""
    at = data.draw(st.integers(0, len(network.layers) - 1))
    tiling = Tiling(1, 1, OverlapMode.RECOMPUTE)
    choices = [StackChoice(LayerSpan(one, one + 1), tiling) for one in range(len(network.layers))]
    choices[at] = replace(choices[at], output_home="buffer")
    found = verify_strategy(layers_in(network), CHIP, strategy_of(network, choices))
    name = network.layers[at].output.name
    stays = name not in network.outputs and any(read.source == name for one in network.layers for read in one.reads)
    expected = [] if stays else [(Rule.OUTPUT_NOT_IN_DRAM, network.layers[at].name)]
    assert [(one.rule, one.subject) for one in found] == expected


def test_a_choice_knows_what_lies_on_the_chip_while_it_runs() -> None:
    network = network_of(RESIDUAL)
    for way in ways_through(*space_on_chip(network).arcs()):
        strategy = strategy_of(network, way)
        spans = spans_of(network, [stack.layers for stack in strategy.stacks])
        assert tuple(choices_of(network, strategy, spans)) == way


@settings(max_examples=40, deadline=None)
@given(networks(4), st.integers(0, 99), st.integers(1, 2))
def test_the_dynamic_program_finds_what_trying_everything_finds(
    network: FusableNetwork, seed: int, criteria: int
) -> None:
    space, costs = space_on_chip(network), RandomCosts(seed, criteria)
    arcs, last = space.arcs()
    zero = (0,) * criteria
    found = best_of([LazySearch(arcs, last, zero, Ledger(costs))], Run(), "")
    values = [value_of(sum_of(costs.costs(way))) for way in ways_through(arcs, last)]
    assert (found.way.value if found.way else None) == min(values, default=None)


def ways_at_cuts(network: FusableNetwork, ways: Mapping[str, int], left_out: frozenset[str]) -> list[int]:
    """How many ways there are to place the maps alive at each cut, those left out apart."""
    until = network.last_readers
    return [
        prod(
            ways[one.output.name]
            for one in network.layers[:cut]
            if until.get(one.output.name, -1) >= cut and one.output.name not in left_out
        )
        for cut in range(len(network.layers) + 1)
    ]


@pytest.mark.slow
@given(networks(8), st.data())
def test_maps_that_wait_longest_are_left_out_until_few_ways_to_place_the_others_remain(
    network: FusableNetwork, data: st.DataObject
) -> None:
    names = [one.output.name for one in network.layers]
    ways = {name: data.draw(st.integers(1, 3)) for name in names}
    most = data.draw(st.integers(3, 9))
    left_out = waiting_longest(network, ways, most)
    assert max(ways_at_cuts(network, ways, left_out)) <= most
    assert all(ways[name] > 1 for name in left_out)
    for name in left_out:  # with any of them, and what waits no longer, there are too many
        wait = {one: network.last_readers.get(one, 0) - at for at, one in enumerate(names)}
        longer = frozenset(one for one in left_out if (wait[one], names.index(one)) > (wait[name], names.index(name)))
        rest = frozenset(one for one in names if (wait[one], names.index(one)) > (wait[name], names.index(name)))
        assert max(ways_at_cuts(network, ways, (left_out | longer | rest) - {name})) > most


def test_of_a_network_with_many_heads_few_homes_are_listed() -> None:
    """Twenty maps wait at a time, for which two memories would do: there are 3 ** 20 ways to place them."""
    heads = {f"h{at}": ("a",) for at in range(20)}
    network = network_of({"a": ("x",), **heads, **{f"t{at}": (f"h{at}",) for at in range(20)}}, size=1)
    space = space_on_chip(network)
    arcs, _ = space.arcs()
    assert len(arcs) < 100_000
    assert 0 < len(space.in_dram) < 20
    assert not space_on_chip(network_of(RESIDUAL)).in_dram


def test_of_a_map_in_memory_there_is_only_one_at_a_time_where_two_do_not_fit() -> None:
    """While `c` runs both `a` and `b` wait for later layers."""
    network = network_of({"a": ("x",), "b": ("x",), "c": ("x",), "d": ("a", "b"), "e": ("c", "d")})
    lying = [
        [memory for _, memory in choice.homes] for way in ways_through(*space_on_chip(network).arcs()) for choice in way
    ]
    assert max(homes.count("buffer") for homes in lying) == 2
    assert max(homes.count("near") for homes in lying) == 1


def test_a_machine_without_a_memory_for_maps_keeps_them_in_dram() -> None:
    def alone(machine: Accelerator) -> list[Arc[StackChoice]]:
        return replace(space_on_chip(chain(2)), accelerator=machine).arcs()[0]

    weights = accelerator_from_yaml(MEMORIES.replace("name: near,", "name: near, holds: [input],").replace(
        "capacity: 64B}", "capacity: 64B, holds: [output]}"), "w.yaml")  # fmt: skip
    assert len(alone(CHIP)) > len(alone(weights)) == 3


def maps_shrink(sizes: Sequence[tuple[int, int]]) -> FusableNetwork:
    """A chain whose maps have these rows and columns."""
    network = chain(len(sizes))
    layers = tuple(
        replace(layer, output=replace(layer.output, rows=rows, columns=columns))
        for layer, (rows, columns) in zip(network.layers, sizes, strict=True)
    )
    return replace(network, layers=layers)


def share_a_tiling(network: FusableNetwork, way: Sequence[StackChoice], options: FusionOptions) -> bool:
    """The definition: some tiling, each stack's own map apart, is that of every stack of several layers."""
    largest = range(1, 1 + max(max(one.output.rows, one.output.columns) for one in network.layers))
    sizes = [options.tile] if options.tile else list(product(largest, largest))

    def runs_in(choice: StackChoice, shared: Tiling) -> bool:
        output = stack_of(network, choice.span).output
        is_one_tile = choice.span.length == 1 and choice.tiling == whole(output)
        return is_one_tile or choice.tiling == shared.within(output.columns, output.rows)

    return any(all(runs_in(choice, Tiling(*size, mode)) for choice in way) for size in sizes for mode in options.modes)


@pytest.mark.parametrize("tile", [None, (2, 4), (3, 3), (1, 2)])
@pytest.mark.parametrize("mode", [None, OverlapMode.FULLY_CACHED])
@pytest.mark.parametrize("sizes", [TileSizes.HALVES, TileSizes.SWEEP])
@pytest.mark.parametrize("shape", [((4, 4), (3, 4), (2, 1)), ((5, 3), (5, 3), (3, 5)), ((2, 2), (4, 5), (4, 5))])
def test_single_is_what_of_best_runs_in_one_tiling_cut_to_each_map(
    tile: tuple[int, int] | None, mode: OverlapMode | None, sizes: TileSizes, shape: Sequence[tuple[int, int]]
) -> None:
    """So it never leaves the space of `best`; tilings cut to a small map were once imposed on larger ones."""
    network = maps_shrink(shape)
    options = FusionOptions(tile=tile, mode=mode, tile_sizes=sizes, placements=Placements.DRAM)
    space = space_of(network, CHIP, legal_spans(network), options)

    def ways(one: StackSpace) -> set[tuple[StackChoice, ...]]:
        arcs, last = one.arcs()
        own = [Arc(a.source, a.target, tuple(each for c in a.choices for each in c.singly())) for a in arcs]
        return set(ways_through(own, last))

    shared = set().union(*map(ways, shared_spaces(space, options)))
    assert shared == {way for way in ways(space) if share_a_tiling(network, way, options)}
    assert shared


@pytest.mark.parametrize("seconds", [0.0, None])
def test_a_single_tiling_that_is_not_listed_in_time_has_the_bound_of_all(seconds: float | None) -> None:
    """With no time only the first part is listed, so no proof may be of that one alone."""
    network, options = maps_shrink(((4, 4), (3, 4), (2, 2))), FusionOptions(combination=Combination.SINGLE)
    costs, whole_run = RandomCosts(7, 1), Run()

    def solved(run: Run) -> FoundWay[StackChoice]:
        solver = Solver(Ledger(costs), (0,), 1, run)
        space = space_of(network, CHIP, legal_spans(network), options)
        return solver.best_shared(lambda: shared_spaces(space, options))[0]

    least = solved(whole_run)
    found = solved(Run(Limits(time_limit_seconds=seconds)))
    assert least.way is not None
    assert found.lower_bound <= least.way.value
    assert (found.status is Status.OPTIMAL) == (seconds is None)
