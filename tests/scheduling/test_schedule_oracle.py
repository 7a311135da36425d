"""The oracle of tiny schedules: its schedules are legal, cost what it reports, and are optimal."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from onchip.answer.schedule import Schedule
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.verify.schedule.machine import ScheduleSetting, VerifiedFigures
from onchip.verify.schedule.verifier import verify_schedule
from oracles.schedule import LeastSchedule
from oracles.schedule_costs import Toy
from oracles.schedule_programs import recounted, schedule_of

MEMORY = Memory("sram", 6)
TINY = Accelerator(
    "tiny",
    (MEMORY,),
    (MemoryLevel(MEMORY, is_scratchpad=True, access=Access(8, 1, 2)),),
    None,
    ComputeArray({"lane": 1}, None, 0.0),
    Dram(Access(8, 10, 20), (Port(Direction.READ_WRITE, 8),)),
)


def chain(*kinds: str, elements: int = 2) -> Graph:
    """Maps x, m0, m1 ... of so many elements, each computed from the one before."""
    names = ["x", *(f"m{at}" for at in range(len(kinds)))]
    roles = [Role.INPUT, *[Role.ACTIVATION] * (len(kinds) - 1), Role.OUTPUT]
    tensors = [Tensor.of_shape(name, (1, 1, 1, elements), 8, role) for name, role in zip(names, roles, strict=True)]
    operators = [Operator(f"op{at}", kind, (names[at],), (names[at + 1],)) for at, kind in enumerate(kinds)]
    return Graph("chain", tuple(tensors), tuple(operators))


def verified(toy: Toy, schedule: Schedule) -> VerifiedFigures:
    setting = ScheduleSetting(toy.graph, toy.accelerator, toy.graph, 8)
    verdict = verify_schedule(setting, schedule, None, nest_cost)
    assert verdict.violations == ()
    assert verdict.figures is not None
    return verdict.figures


def test_a_map_between_two_operators_stays_on_the_chip() -> None:
    """Of each element: x is read at 10, m0 written at 2 and read at 1, y written at 20."""
    toy = Toy(chain("Softmax", "Softmax"), TINY, Precision(8, 8))
    least = LeastSchedule(toy, "energy").least()
    assert least.cost == 1000 * (2 * 10 + 2 * 2 + 2 * 1 + 2 * 20)
    assert LeastSchedule(toy, "traffic").least().cost == 4


def test_where_only_dram_may_hold_maps_each_moves_twice() -> None:
    toy = Toy(chain("Softmax", "Softmax"), TINY, Precision(8, 8))
    assert LeastSchedule(toy, "traffic", may_stay=False).least().cost == 8


def test_a_row_of_workspace_needs_room_beside_the_map() -> None:
    """Four bytes for the map and four for a row of x are more than the six that there are."""
    toy = Toy(chain("Softmax", "Softmax", elements=4), TINY, Precision(8, 8))
    assert LeastSchedule(toy, "traffic").least().cost > 8
    roomy = replace(TINY.levels[0], memory=replace(MEMORY, capacity_bytes=8))
    machine = replace(TINY, levels=(roomy,), scratchpads=(roomy.memory,))
    assert LeastSchedule(Toy(toy.graph, machine, Precision(8, 8)), "traffic").least().cost == 8


def test_where_there_is_no_room_for_a_row_it_passes_in_pieces() -> None:
    """As in a memory that is large enough, but that nothing else has room beside the pieces."""
    small = replace(TINY.levels[0], memory=replace(MEMORY, capacity_bytes=1))
    machine = replace(TINY, levels=(small,), scratchpads=(small.memory,))
    toy = Toy(chain("Softmax"), machine, Precision(8, 8))
    least = LeastSchedule(toy, "energy").least()
    assert least.cost == LeastSchedule(Toy(toy.graph, TINY, Precision(8, 8)), "energy").least().cost
    assert verified(toy, schedule_of(toy, least)).peak_bytes == 1


@pytest.mark.parametrize("objective", ["energy", "traffic", "cycles"])
@pytest.mark.parametrize("seed", range(6))
def test_what_it_finds_is_legal_and_costs_what_it_says(objective: str, seed: int) -> None:
    random = Random(seed)
    kinds = random.choices(("Relu", "Softmax"), k=random.randint(2, 3))
    sizes = random.choice((6, 8, 12)), random.choice((2, 4))
    levels = tuple(
        MemoryLevel(
            Memory(name, size, alignment_bytes=random.choice((1, 2))),
            is_scratchpad=True,
            access=Access(8, random.choice((1, 3)), random.choice((1, 2))),
            ports=(Port(Direction.READ_WRITE, 8),),
        )
        for name, size in zip(("near", "far"), sorted(sizes), strict=True)
    )
    machine = replace(TINY, levels=levels, scratchpads=tuple(level.memory for level in levels))
    toy = Toy(chain(*kinds, elements=random.choice((2, 3))), machine, Precision(8, 8))
    least = LeastSchedule(toy, objective).least()
    schedule = schedule_of(toy, least)
    figures, counted = verified(toy, schedule), recounted(toy, schedule)
    own = {"energy": figures.energy_fj, "traffic": figures.traffic_bytes, "cycles": least.cost}
    assert least.cost == own[objective]
    assert objective != "cycles" or figures.latency_cycles <= least.cost
    assert counted.latency_cycles == figures.latency_cycles
    assert (counted.energy_fj, counted.traffic_bytes) == (figures.energy_fj, figures.traffic_bytes)
