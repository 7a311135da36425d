"""Transfers between memories in a tile, computed by hand."""

from __future__ import annotations

from onchip.answer.stacks import OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import EnergyCause, FusionStrategy
from onchip.arch.memory import Operand
from onchip.ir.window import Window
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.choice.solve import choices_of
from onchip.transform.groups.stacks import spans_of
from support.fused import level, machine
from support.fusion_strategies import costed
from support.stacks import addition, chain


def test_a_part_of_a_map_from_outside_comes_nearer_as_an_input() -> None:
    """Four tiles each write 9 elements to a memory of inputs alone, and read one to be added in a nearer memory."""
    features = Operand.INPUT, Operand.OUTPUT
    chip = machine(
        level("weights", 64, Operand.WEIGHT),
        level("near", 4, *features),
        level("inputs", 16, Operand.INPUT),
        level("shared", 4096, *features),
    )
    stack = chain(4, Window(3, 1, 1, 0))
    (source,), (layer,) = stack.inputs, stack.layers
    network = FusableNetwork("small", stack.inputs, (layer, addition(source, layer.output, "sum")))
    names = (layer.name, "sum")
    strategy = FusionStrategy((StackStrategy(names, Tiling(1, 1, OverlapMode.RECOMPUTE)),))
    found = costed(network, chip, list(choices_of(network, strategy, spans_of(network, [names])))).replayed()
    assert found.figures is not None
    written_pj, read_pj = 9 * 8 / 16 * 2.0, 8 / 16 * 1.0
    assert found.figures.energies_pj["inputs", EnergyCause.COPY] == 4 * (written_pj + read_pj)
