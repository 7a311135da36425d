from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from math import prod
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.result import Status
from onchip.answer.stacks import LayerInNetwork, OverlapMode, Tiling
from onchip.answer.strategy import FusionStrategy
from onchip.arch.accelerator import Accelerator
from onchip.facts.fusable import FeatureMap, FusableNetwork
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.solve.run.limits import Limits, Run
from onchip.solve.stacks.cost_table import Ledger
from onchip.solve.stacks.objective import Criteria, sum_of, value_of
from onchip.solve.stacks.options import Combination, FusionOptions
from onchip.solve.stacks.search import FoundWay, LazySearch, best_of
from onchip.solve.stacks.solve import Solver, choices_of, strategy_of
from onchip.solve.stacks.space import StackChoice, StackSpace, waiting_longest
from onchip.solve.stacks.spaces import shared_spaces, space_of
from onchip.solve.stacks.stacks import LayerSpan, legal_spans, spans_of, stack_of
from onchip.solve.stacks.tilings import TileSizes, whole
from onchip.solve.stacks.ways import Arc
from onchip.verify.rules import Rule
from onchip.verify.strategy import verify_strategy
from support.fusable_networks import RESIDUAL, chain, network_of, networks
from support.stacks import tilings_of

MEMORIES = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2, OX: 2}}
memories:
  - {name: register, capacity: 1KiB, serves: [K]}
  - {name: weights, capacity: 1KiB, holds: [weight]}
  - {name: near, capacity: 32B, scratchpad: true}
  - {name: buffer, capacity: 64B}
"""
CHIP = accelerator_from_yaml(MEMORIES, "chip.yaml")


def tilings_on(network: FusableNetwork, span: LayerSpan) -> Sequence[Tiling]:
    output = stack_of(network, span).output
    return (whole(output), Tiling(1, 2, OverlapMode.FULLY_CACHED)) if span.length > 1 else (whole(output),)


def space_on_chip(network: FusableNetwork, *, may_stay: bool = True) -> StackSpace:
    return StackSpace(network, CHIP, legal_spans(network), partial(tilings_on, network), may_stay)


def ways_through(arcs: Sequence[Arc[StackChoice]], last: int, place: int = 0) -> Iterator[tuple[StackChoice, ...]]:
    if place == last:
        yield ()
    for arc in arcs:
        if arc.source == place:
            for rest in ways_through(arcs, last, arc.target):
                yield from ((choice, *rest) for choice in arc.choices)


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


@dataclass
class RandomCosts:
    """Any cost for any choice, always the same; bounds are somewhere below."""

    seed: int
    criteria: int

    def _random(self, choice: StackChoice) -> Random:
        return Random(f"{self.seed} {choice}")

    def bound(self, choice: StackChoice) -> Criteria:
        (cost,) = self.costs([choice])
        share = self._random(choice).random()
        return tuple(int(part * share) for part in cost)

    def closer(self, choice: StackChoice) -> Criteria | None:
        (cost,), chance = self.costs([choice]), Random(f"{self.seed} {choice} closer")
        return None if chance.random() < 0.3 else tuple(int(part * chance.random()) for part in cost)

    def least(self, choices: Sequence[StackChoice]) -> Criteria:
        return tuple(0 for _ in self.bound(choices[0]) or ())

    def parts(self, choice: StackChoice) -> Sequence[StackChoice]:
        return choice.parts()

    def by_bound(self, choice: StackChoice) -> Iterator[StackChoice]:
        yield from choice.singly()

    def costs(self, choices: Sequence[StackChoice]) -> list[Criteria]:
        return [tuple(self._random(one).choices(range(50), k=self.criteria)) for one in choices]


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


@pytest.mark.parametrize("sizes", TileSizes)
@pytest.mark.parametrize("pixels", [1, 2, 7, 36, 960])
def test_lists_of_sizes_rise_to_the_whole_axis(sizes: TileSizes, pixels: int) -> None:
    for found in (sizes.along_columns(pixels), sizes.along_rows(pixels)):
        assert list(found) == sorted(set(found))
        assert (found[0], found[-1]) == (1, pixels)


def test_sizes_of_the_paper_are_36_and_110() -> None:
    for sizes, count in ((TileSizes.CASE_STUDY, 36), (TileSizes.SWEEP, 110)):
        assert len(sizes.along_columns(960)) * len(sizes.along_rows(540)) == count
    assert TileSizes.HALVES.along_columns(12) == (1, 2, 3, 6, 12)
    assert TileSizes.POWERS.along_rows(12) == (1, 2, 4, 8, 12)
    assert TileSizes.DIVISORS.along_rows(12) == (1, 2, 3, 4, 6, 12)
    assert TileSizes.ALL.along_rows(4) == (1, 2, 3, 4)


def test_modes_that_do_the_same_are_tried_once() -> None:
    """Without a neighbour to the right there are no cached columns, without one below no cached rows."""
    found = tilings_of(FeatureMap("m", 1, 2, 2), TileSizes.ALL)
    modes = {
        (one.columns, one.rows): [each.mode for each in found if (each.columns, each.rows) == (one.columns, one.rows)]
        for one in found
    }
    recompute, h_cached, fully_cached = OverlapMode
    assert modes == {
        (1, 1): [recompute, h_cached, fully_cached],
        (1, 2): [recompute, h_cached],
        (2, 1): [recompute, fully_cached],
        (2, 2): [recompute],
    }


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
    options = FusionOptions(tile=tile, mode=mode, sizes=sizes, maps_stay=False)
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
        return solver.best_shared(shared_spaces(space, options))

    least = solved(whole_run)
    found = solved(Run(Limits(time_limit_seconds=seconds)))
    assert least.way is not None
    assert found.lower_bound <= least.way.value
    assert (found.status is Status.OPTIMAL) == (seconds is None)
