"""The nearest legal strategy, and the nearest illegal ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from onchip.answer.document import Claim
from onchip.answer.result import Status
from onchip.answer.stacks import FusionStrategy, LayerInNetwork, OverlapMode, StackStrategy, StrategyFigures, Tiling
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.verify.rules import Rule
from onchip.verify.strategy import verify_strategy, verify_strategy_claim

CHIP = accelerator_from_yaml(
    """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2, OX: 2}}
memories:
  - {name: weights, capacity: 64B, holds: [weight]}
  - {name: near, capacity: 64B, serves: [K]}
  - {name: buffer, capacity: 64B, scratchpad: true}
""",
    "chip.yaml",
)
LAYERS = (
    LayerInNetwork("a", ("x",), "A", 8, 6, 256),
    LayerInNetwork("b", ("A",), "B", 8, 6, 256),
    LayerInNetwork("c", ("A", "B"), "C", 8, 6, 256),
    LayerInNetwork("d", ("C",), "D", 4, 3, 128),
)
WHOLE = Tiling(8, 6, OverlapMode.RECOMPUTE)
LEGAL = FusionStrategy(
    (
        StackStrategy(("a",), WHOLE, "buffer"),
        StackStrategy(("b", "c"), Tiling(8, 3, OverlapMode.FULLY_CACHED), "buffer"),
        StackStrategy(("d",), Tiling(4, 3, OverlapMode.RECOMPUTE)),
    )
)
FIGURES = StrategyFigures(1500, 1.5, 7.0, 3, 64)
CLAIM = Claim("exact", Status.OPTIMAL, "energy", 1500, 1500, FIGURES.named)


def rules(strategy: FusionStrategy, layers: Sequence[LayerInNetwork] = LAYERS) -> list[Rule]:
    return [violation.rule for violation in verify_strategy(layers, CHIP, strategy)]


def stacked(*stacks: tuple[str, ...]) -> FusionStrategy:
    """With tiles of one pixel, and all maps between stacks in DRAM."""
    return FusionStrategy(tuple(StackStrategy(one, Tiling(1, 1, OverlapMode.RECOMPUTE)) for one in stacks))


def with_stack(at: int, stack: StackStrategy) -> FusionStrategy:
    stacks = list(LEGAL.stacks)
    stacks[at] = stack
    return FusionStrategy(tuple(stacks))


def test_the_legal_one_is_legal() -> None:
    assert rules(LEGAL) == []
    assert rules(stacked(("a", "b", "c", "d"))) == []
    assert verify_strategy_claim(CLAIM, FIGURES) == ()


@pytest.mark.parametrize(
    ("strategy", "rule", "subject"),
    [
        (stacked(("a", "b", "c", "d", "e")), Rule.UNKNOWN_LAYER, "e"),
        (stacked(("a", "b", "c")), Rule.LAYER_MISSING, "d"),
        (stacked(("b",), ("a", "c", "d")), Rule.OUT_OF_ORDER, "a"),
        (stacked(("a", "b"), ("c", "d")), Rule.OVER_A_BRANCH, "a"),
        (with_stack(1, StackStrategy(("b", "c"), Tiling(9, 3, WHOLE.mode))), Rule.TILE_EXCEEDS_MAP, "stack 1"),
        (with_stack(1, StackStrategy(("b", "c"), Tiling(8, 7, WHOLE.mode))), Rule.TILE_EXCEEDS_MAP, "stack 1"),
        (with_stack(2, StackStrategy(("d",), Tiling(5, 3, WHOLE.mode))), Rule.TILE_EXCEEDS_MAP, "stack 2"),
        (with_stack(0, StackStrategy(("a",), WHOLE, "nowhere")), Rule.NO_SUCH_HOME, "nowhere"),
        (with_stack(0, StackStrategy(("a",), WHOLE, "weights")), Rule.NOT_HELD, "weights"),
        (with_stack(0, StackStrategy(("a",), WHOLE, "near")), Rule.NOT_HELD, "near"),
        (
            with_stack(2, StackStrategy(("d",), Tiling(4, 3, WHOLE.mode), "buffer")),
            Rule.OUTPUT_NOT_IN_DRAM,
            "d",
        ),
    ],
)
def test_each_rule_refuses_what_breaks_it(strategy: FusionStrategy, rule: Rule, subject: str) -> None:
    found = verify_strategy(LAYERS, CHIP, strategy)
    assert (rule, subject) in [(one.rule, one.subject) for one in found]
    assert {one.rule for one in found} <= {rule, Rule.HOME_EXCEEDED}


def test_an_output_of_the_network_ends_a_stack() -> None:
    lost = (*LAYERS[:3], replace(LAYERS[3], reads=("B",)))
    assert rules(stacked(("a", "b", "c"), ("d",)), lost) == [Rule.OVER_A_BRANCH]
    unread = (*LAYERS[:2], replace(LAYERS[2], reads=("A",)), replace(LAYERS[3], reads=("C",)))
    assert rules(stacked(("a", "b", "c", "d")), unread) == [Rule.OUTPUT_LOST]
    assert rules(stacked(("a",), ("b",), ("c", "d")), unread) == []


def test_an_output_of_the_network_that_is_read_ends_a_stack_and_lies_in_dram() -> None:
    """C is written by the second stack, and read by the third."""
    leaving = (*LAYERS[:2], replace(LAYERS[2], is_output=True), LAYERS[3])
    in_dram = with_stack(1, replace(LEGAL.stacks[1], output_home="dram"))
    assert rules(in_dram, leaving) == []
    assert rules(LEGAL, leaving) == [Rule.OUTPUT_NOT_IN_DRAM]
    (found,) = verify_strategy(leaving, CHIP, stacked(("a",), ("b", "c", "d")))
    assert str(found) == "output-lost: 'c': 'C' leaves the network"


def test_maps_that_lie_in_a_memory_at_a_time_fit_together() -> None:
    """A (32 bytes) is alive while C (32) is written: 64 bytes hold both, and not one bit more."""
    larger = (*LAYERS[:2], replace(LAYERS[2], output_bits=257), LAYERS[3])
    assert rules(LEGAL, larger) == [Rule.HOME_EXCEEDED]


def test_a_map_that_is_read_no_more_takes_no_room() -> None:
    chain = (LAYERS[0], LAYERS[1], replace(LAYERS[2], reads=("B",)), LAYERS[3])
    kept = (StackStrategy((one.name,), WHOLE, "buffer") for one in chain[:3])
    every = FusionStrategy((*kept, StackStrategy(("d",), Tiling(4, 3, OverlapMode.RECOMPUTE))))
    assert rules(every, chain) == []
    assert rules(every) == [Rule.HOME_EXCEEDED]


@pytest.mark.parametrize(
    ("claim", "rule", "subject"),
    [
        (replace(CLAIM, figures=FIGURES.named | {"energy_pj": 1.6}), Rule.FIGURE_DIFFERS, "result.energy_pj"),
        (replace(CLAIM, figures=FIGURES.named | {"macs": 4}), Rule.FIGURE_DIFFERS, "result.macs"),
        (replace(CLAIM, figures=FIGURES.named | {"dram_bits": 63}), Rule.FIGURE_DIFFERS, "result.dram_bits"),
        (
            replace(CLAIM, figures=FIGURES.named | {"latency_cycles": 8.0}),
            Rule.FIGURE_DIFFERS,
            "result.latency_cycles",
        ),
        (
            replace(CLAIM, objective_value=1499, lower_bound=1499),
            Rule.FIGURE_DIFFERS,
            "result.objective_value",
        ),
        (replace(CLAIM, lower_bound=1501), Rule.BOUND_ABOVE_OBJECTIVE, "result.lower_bound"),
        (replace(CLAIM, lower_bound=1499), Rule.OPTIMAL_UNPROVEN, "result.lower_bound"),
        (replace(CLAIM, status=Status.UNKNOWN), Rule.ANSWER_DENIED, "result.status"),
    ],
)
def test_each_claim_is_held_against_the_figures(claim: Claim, rule: Rule, subject: str) -> None:
    (found,) = verify_strategy_claim(claim, FIGURES)
    assert (found.rule, found.subject) == (rule, subject)
    assert "\n" not in str(found)
