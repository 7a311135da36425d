"""Bytes of addressed memories that a mapping needs, compared with the verifier, which visits every index."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel
from onchip.ir.layer import Layer
from onchip.verify.mapping import tile_bits, verify_mapping
from onchip.verify.rules import Rule
from support.nests import random_case, workspace_of

LOCAL, GLOBAL = MemoryLevel(Memory("local", 100), double_buffered=True), MemoryLevel(Memory("global", 1000), None, True)
MACHINE = Accelerator("small", (GLOBAL.memory,), (LOCAL, GLOBAL), array=ComputeArray({"K": 2}, mac_energy_pj=0.0))


@pytest.mark.parametrize("first", range(0, 400, 40))
def test_the_verifier_counts_the_same_and_nothing_less_is_enough(first: int) -> None:
    needed = 0
    for seed in range(first, first + 40):
        case = random_case(seed)
        found = workspace_of(case.problem, case.mapping)
        counted = tile_bits(case.problem, case.mapping)
        whole = {name: -(-sum(bits.values()) // 8) for name, bits in counted.items()}
        addressed = [level.memory.name for level in case.accelerator.addressed]
        assert found == {name: size for name, size in whole.items() if size and name in addressed}, seed
        exact = replace(case.problem, room_bytes=dict.fromkeys(addressed, 0) | dict(found))
        assert verify_mapping(exact, case.mapping) == (), seed
        for name, size in found.items():
            less = replace(exact, room_bytes={**exact.room_bytes, name: size - 1})
            assert [one.rule for one in verify_mapping(less, case.mapping)] == [Rule.CAPACITY_EXCEEDED]
            needed += 1
    assert needed


def test_what_lies_whole_takes_none_of_it() -> None:
    problem = LayerProblem(Layer(k=2, p=3), MACHINE, Homes(input="global", output="global"))
    mapping = LayerMapping((Loop("K", 2), Loop("P", 3)), input=(Kept("local", 1),), output=(Kept("local", 1),))
    assert workspace_of(problem, mapping) == {"local": 2 * 1 + 2 * 2}
    streamed = replace(problem, homes=Homes())
    both = replace(mapping, input=(Kept("local", 1), Kept("global", 2)))
    assert workspace_of(streamed, both) == {"local": 2 * 1 + 2 * 2, "global": 3}


def test_sums_in_the_making_take_what_they_are_wider_than_the_output_that_lies_there() -> None:
    problem = LayerProblem(Layer(k=2, c=3, partial_bits=20), MACHINE, Homes(output="global"))
    complete = LayerMapping((Loop("C", 3), Loop("K", 2)), output=(Kept("local", 1),))
    assert workspace_of(problem, complete) == {"local": -(-2 * 20 // 8)}
    incomplete = LayerMapping((Loop("K", 2), Loop("C", 3)))
    assert workspace_of(problem, incomplete) == {"global": 2 * (20 - 8) // 8}
