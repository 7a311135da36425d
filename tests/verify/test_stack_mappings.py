"""The mapping of a strategy used for each layer, its count, and the results for maps in DRAM and tiles of a batch."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.fused_network import MapInNetwork, NestInNetwork, ReadInNetwork
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.stacks import OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import INTERPRETER
from onchip.model.group.tile_price import tile_prices_by
from onchip.transform.groups.tile_graph import network_to_replay
from onchip.verify.rules import Rule
from onchip.verify.stack.caches import running_stacks
from onchip.verify.stack.chip import TilePrice
from onchip.verify.stack.strips import Axis1D, stack_part, tiled_length
from onchip.verify.stack.verifier import StrategySetting, replay_strategy
from support.fusion_strategies import small_case
from support.stacks import ONE


def test_a_mapping_by_which_many_tiles_run_is_priced_once() -> None:
    case = small_case(ONE)
    asked: list[LayerMapping] = []
    prices = tile_prices_by(INTERPRETER)

    def noting(problem: LayerProblem, mapping: LayerMapping) -> TilePrice:
        asked.append(mapping)
        return prices(problem, mapping)

    setting = StrategySetting(network_to_replay(case.network), case.chip, "energy", as_defines=False)
    assert replay_strategy(setting, case.strategy, noting).violations == ()
    assert len(asked) == len(case.strategy.mappings)


def test_a_mapping_that_another_one_stands_before_is_named_with_that_one() -> None:
    case = small_case(ONE)
    first, *others = case.strategy.mappings
    found = case.with_mappings(first, *others, first).replayed().violations
    assert [(one.rule, one.subject, one.detail) for one in found] == [
        (
            Rule.MAPPING_UNUSED,
            f"mapping {len(others) + 1}",
            f"mapping 0 is of the same loop nest of {first.names[0]!r}, homes and room",
        )
    ]


def test_maps_in_dram_take_nothing_of_any_memory() -> None:
    """A map of 2 channels of 6 x 6 elements of 8 bits takes room only in its home, and none in DRAM."""
    case = small_case(ONE, ONE)
    first, second = (layer.name for layer in case.network.layers)
    tiling = Tiling(3, 3, OverlapMode.RECOMPUTE)
    for home, taken in (("dram", {}), ("shared", {"shared": 2 * 6 * 6 * 8})):
        stacks = StackStrategy((first,), tiling, home), StackStrategy((second,), tiling)
        found = running_stacks(network_to_replay(case.network), FusionStrategy(stacks))
        assert [one.taken_bits for one in found] == [taken, taken]


def test_groups_are_those_of_the_tile() -> None:
    """A tile of 2 x 2 in 2 channels of 4 x 4 pixels has 8 elements, and 4 of a broadcast map of one channel."""
    source, target = MapInNetwork("x", 2, 4, 4, 8), MapInNetwork("y", 2, 4, 4, 8)
    for nest, in_tile in ((Layer(n=2, g=16), Layer(n=2, g=4)), (Layer(g=32), Layer(g=8))):
        layer = NestInNetwork("a", replace(nest, has_weight=False), (ReadInNetwork("x", ONE, ONE),), target, 0)
        down, across = (
            tiled_length(Axis1D((layer,), (source,), is_rows), 2, is_cached=False).strips[0]
            for is_rows in (True, False)
        )
        (part,) = stack_part((layer,), (source,), down, across).layers
        assert part.nest == replace(in_tile, has_weight=False)
