from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.options.fusion_objective import sum_of, value_of
from onchip.answer.stacks import LayerInNetwork, OverlapMode, Tiling
from onchip.answer.strategy import FusionStrategy
from onchip.arch.accelerator import Accelerator
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.candidates.spaces import StackSpace, waiting_longest
from onchip.scheduling.choice.search import LazySearch, best_of
from onchip.scheduling.choice.solve import choices_of, strategy_of
from onchip.scheduling.choice.ways import Arc
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, legal_spans, spans_of, stack_of, whole
from onchip.verify.rules import Rule
from onchip.verify.strategy import verify_strategy
from support.fusable_networks import RESIDUAL, chain_network, network_of, networks
from support.fusion_spaces import MEMORIES, SCARCE_CHIP, RandomCosts, ways_through


def tilings_on(network: FusableNetwork, span: LayerSpan) -> Sequence[Tiling]:
    output = stack_of(network, span).output
    return (whole(output), Tiling(1, 2, OverlapMode.FULLY_CACHED)) if span.length > 1 else (whole(output),)


def space_on_chip(network: FusableNetwork, *, may_stay: bool = True) -> StackSpace:
    return StackSpace(network, SCARCE_CHIP, legal_spans(network), partial(tilings_on, network), may_stay)


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
                if not verify_strategy(layers, SCARCE_CHIP, strategy):
                    yield strategy


@pytest.mark.parametrize(
    "network",
    [
        chain_network(3),
        network_of(RESIDUAL),
        chain_network(3, size=3),
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
    found = verify_strategy(layers_in(network), SCARCE_CHIP, strategy_of(network, choices))
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
    found = verify_strategy(layers_in(network), SCARCE_CHIP, strategy_of(network, choices))
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
        return replace(space_on_chip(chain_network(2)), accelerator=machine).arcs()[0]

    weights = accelerator_from_yaml(MEMORIES.replace("name: near,", "name: near, holds: [input],").replace(
        "capacity: 64B}", "capacity: 64B, holds: [output]}"), "w.yaml")  # fmt: skip
    assert len(alone(SCARCE_CHIP)) > len(alone(weights)) == 3
