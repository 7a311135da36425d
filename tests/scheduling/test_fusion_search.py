"""The search for fusion strategies against all strategies, and its answers when time is short."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.fusion_objective import FusionObjective, sum_of, value_of
from onchip.answer.options.verb_options import LAYERS, Combination, FusionOptions, Placements, TileSizes
from onchip.answer.result import Status, Stop
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.formats.own.graph_json import graph_from_json
from onchip.ops.fusable import FusableNetwork
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.candidates.tile_sizes import TilingList
from onchip.scheduling.fronts.costs import Costing, StackCosts
from onchip.scheduling.search.fusion import best_strategy, solve_fusion, strategy_of
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, spans_of
from onchip.transform.groups.tile_graph import layers_in_network
from onchip.verify.rules import Rule
from onchip.verify.strategy import verify_strategy
from support.fusable_networks import chain, networks
from support.fused_files import CHIP, three_convolutions
from support.fusion_strategies import choices_of
from support.stacks import legal_spans

HALVES = FusionOptions(tile_sizes=TileSizes.HALVES)


@pytest.fixture(scope="module")
def machine() -> Accelerator:
    return accelerator_from_yaml(CHIP, "chip.yaml")


@pytest.fixture(scope="module")
def network() -> FusableNetwork:
    return fusable_of(graph_from_json(three_convolutions(), "three.json"), Precision(8, 16))


def costing_of(
    network: FusableNetwork, machine: Accelerator, mapper: str = "loma", objective: str = "energy"
) -> Costing:
    return Costing(network, machine, FusionObjective(objective), mapper, use_cache=False)


@pytest.mark.parametrize("groups", ["one", "greedy", "layers", "0,1-2"])
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_given_groups_run_in_the_best_of_all_tilings(
    network: FusableNetwork, machine: Accelerator, groups: str, objective: str
) -> None:
    costing = costing_of(network, machine, objective=objective)
    options = replace(HALVES, groups=groups, placements=Placements.DRAM)
    found = solve_fusion(costing, options, Run())
    assert found.result.answer is not None

    costs, tried = costing.costs(Run()), list[list[StackChoice]]()
    for span in spans_of(network, [stack.layers for stack in found.result.answer.stacks]):
        output = network.layers[span.stop - 1].output
        whole = Tiling(output.columns, output.rows, OverlapMode.RECOMPUTE)
        tilings = [whole] if span.length == 1 else list(TilingList.of(output, options).every())
        tried.append([StackChoice(span, tiling) for tiling in tilings])
    values = []
    for choices in product(*tried):
        criteria = [costs.criteria(one) for one in choices]
        known = [one for one in criteria if one is not None]
        if len(known) == len(criteria):
            values.append(value_of(sum_of([costs.moved, *known])))
    assert found.result.objective_value is not None
    if objective == "edp":  # the best product of each group need not be the best product of sums
        assert found.result.objective_value >= min(values)
        assert found.result.status is (Status.OPTIMAL if all(len(own) == 1 for own in tried) else Status.FEASIBLE)
    else:
        assert (found.result.status, found.result.objective_value) == (Status.OPTIMAL, min(values))


@pytest.mark.parametrize(
    ("placements", "status"), [(Placements.DRAM, Status.OPTIMAL), (Placements.SEARCH, Status.FEASIBLE)]
)
def test_given_groups_are_not_proven_where_maps_between_them_may_stay_on_chip(
    network: FusableNetwork, machine: Accelerator, placements: Placements, status: Status
) -> None:
    """The homes of these maps are chosen one at a time."""
    options = replace(HALVES, groups="layers", placements=placements)
    assert solve_fusion(costing_of(network, machine), options, Run()).result.status is status


def test_with_a_single_tiling_all_groups_share_it_cut_to_their_maps(
    network: FusableNetwork, machine: Accelerator
) -> None:
    options = replace(HALVES, groups="0,1-2", placements=Placements.DRAM)
    best = solve_fusion(costing_of(network, machine), options, Run()).result
    single = solve_fusion(costing_of(network, machine), replace(options, combination=Combination.SINGLE), Run()).result
    assert single.answer is not None
    assert best.objective_value is not None
    assert single.objective_value is not None
    assert single.objective_value >= best.objective_value
    first, second = single.answer.stacks
    output = network.layers[0].output
    whole = Tiling(output.columns, output.rows, OverlapMode.RECOMPUTE)
    assert first.tiling in (whole, second.tiling.within(output.columns, output.rows))


@pytest.mark.parametrize("seed", range(12))
def test_grown_groups_are_legal_and_no_worse_than_layers_alone(seed: int, machine: Accelerator) -> None:
    random = Random(seed)
    network = chain(random.randint(2, 6), random.choice((4, 8, 12)), random.choice((8, 2000)))
    grown = solve_fusion(costing_of(network, machine, "dive"), HALVES, Run()).result
    alone = solve_fusion(costing_of(network, machine, "dive"), replace(HALVES, groups=LAYERS), Run()).result
    assert grown.answer is not None
    assert not verify_strategy(layers_in_network(network), machine, grown.answer)
    assert grown.objective_value is not None
    assert alone.objective_value is not None
    assert grown.objective_value <= alone.objective_value


def test_every_layer_is_in_the_strategy(machine: Accelerator) -> None:
    """A strategy that lacks a layer is not an answer."""
    found = solve_fusion(costing_of(chain(3, 8), machine, "dive"), HALVES, Run()).result
    assert found.answer is not None
    assert [name for stack in found.answer.stacks for name in stack.layers] == ["l0", "l1", "l2"]


def test_without_time_the_answer_is_each_layer_alone_by_the_quick_mapper(
    network: FusableNetwork, machine: Accelerator
) -> None:
    found = solve_fusion(costing_of(network, machine, "exact"), FusionOptions(), Run(Limits(0.0)))
    assert found.result.answer is not None
    assert all(len(stack.layers) == 1 for stack in found.result.answer.stacks)
    assert found.mapper == "dive"
    assert (found.result.status, found.result.stopped_by) == (Status.FEASIBLE, Stop.TIME_LIMIT)


def test_an_interruption_at_once_leaves_no_answer(network: FusableNetwork, machine: Accelerator) -> None:
    run = Run()
    run.interrupt.set()
    found = solve_fusion(costing_of(network, machine), FusionOptions(), run).result
    assert (found.status, found.answer, found.stopped_by) == (Status.UNKNOWN, None, Stop.INTERRUPTED)


def test_of_a_space_in_which_nothing_fits_that_is_proven(machine: Accelerator) -> None:
    costs = StackCosts(chain(2), machine, FusionObjective.ENERGY, lambda _: None)
    found = best_strategy(costs, FusionOptions(groups=LAYERS, placements=Placements.DRAM), Run())
    assert found.result.status is Status.INFEASIBLE
    assert found.why_not is not None


@given(networks(5), st.randoms(use_true_random=False))
def test_the_verifier_refuses_just_the_strategies_with_a_run_that_is_no_stack(
    network: FusableNetwork, random: Random
) -> None:
    """Cut anywhere; all maps in DRAM."""
    count, machine = len(network.layers), accelerator_from_yaml(CHIP, "chip.yaml")
    cuts = sorted(random.sample(range(1, count), random.randint(0, count - 1)))
    spans = [LayerSpan(*ends) for ends in pairwise([0, *cuts, count])]
    choices = [StackChoice(span, Tiling(1, 1, OverlapMode.RECOMPUTE)) for span in spans]
    found = verify_strategy(layers_in_network(network), machine, strategy_of(network, choices))
    assert (not found) == (set(spans) <= set(legal_spans(network)))
    assert {one.rule for one in found} <= {Rule.OVER_A_BRANCH, Rule.OUTPUT_LOST}


@given(networks(4))
def test_maps_that_stay_on_chip_are_known_to_every_group_while_they_do(network: FusableNetwork) -> None:
    """The strategy with its homes is legal, and reads back to the same groups."""
    machine = accelerator_from_yaml(CHIP, "chip.yaml")
    found = solve_fusion(costing_of(network, machine, "dive"), HALVES, Run())
    answer = found.result.answer
    assert answer is not None
    assert not verify_strategy(layers_in_network(network), machine, answer)
    spans = spans_of(network, [stack.layers for stack in answer.stacks])
    assert list(choices_of(network, answer, spans)) == [choice for choice, _ in found.stacks]
