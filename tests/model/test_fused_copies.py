from __future__ import annotations

from random import Random

from onchip.arch.memory import DRAM, Direction, Operand, Port
from onchip.model.group.layers import MapCopy, copies_cost
from support.fused import level, machine, small_machine, split_machine
from support.series import in_one_test

INPUT, OUTPUT = Operand.INPUT, Operand.OUTPUT


def moved(*copies: MapCopy, on: str = "small") -> list[tuple[str, str, str]]:
    accelerator = split_machine() if on == "split" else small_machine()
    return [(one.memory, one.operand, one.move) for one, _ in copies_cost(copies, accelerator).accesses]


def test_a_copy_passes_every_memory_between() -> None:
    """Ten bytes take 5 accesses of 16 bits at each end of each hop."""
    found = copies_cost([MapCopy(10, 8, DRAM, INPUT, "local", INPUT)], small_machine())
    assert [(one.memory, one.move, energy) for one, energy in found.accesses] == [
        (DRAM, "read for below", 500.0),
        ("global", "write from above", 40.0),
        ("global", "read for below", 20.0),
        ("local", "write from above", 10.0),
    ]


def test_hops_follow_each_other_at_the_pace_of_the_slower_end() -> None:
    """80 bits take 5 cycles out of DRAM, 3 into the local buffer."""
    assert copies_cost([MapCopy(10, 8, DRAM, INPUT, "local", INPUT)], small_machine()).cycles == 5 + 3


def test_outputs_become_inputs_in_the_lowest_memory_that_both_share() -> None:
    assert moved(MapCopy(8, 8, "out", OUTPUT, "in", INPUT), on="split") == [
        ("out", "output", "read for above"),
        ("shared", "output", "write from below"),
        ("shared", "input", "read for below"),
        ("in", "input", "write from above"),
    ]


def test_what_lies_where_it_is_wanted_costs_nothing() -> None:
    assert moved(MapCopy(8, 8, "local", OUTPUT, "local", INPUT)) == []


def test_outputs_in_a_shared_memory_are_inputs_there() -> None:
    assert moved(MapCopy(8, 8, "global", OUTPUT, "local", INPUT)) == [
        ("global", "input", "read for below"),
        ("local", "input", "write from above"),
    ]


def test_outputs_rise_as_outputs() -> None:
    assert moved(MapCopy(8, 8, "local", OUTPUT, "global", OUTPUT)) == [
        ("local", "output", "read for above"),
        ("global", "output", "write from below"),
    ]


def test_copies_over_one_port_wait_for_each_other() -> None:
    up = MapCopy(8, 8, "local", OUTPUT, "global", OUTPUT)
    alone = copies_cost([up], small_machine()).cycles
    assert copies_cost([up, up], small_machine()).cycles == 2 * alone


def test_a_port_that_begins_late_has_all_its_work_still_before_it() -> None:
    """The local buffer starts at the fifth cycle and takes three cycles for each of two copies: eleven, not eight."""
    down = MapCopy(10, 8, DRAM, INPUT, "local", INPUT)
    assert copies_cost([down, down], small_machine()).cycles == 5 + 2 * 3


def test_copies_over_different_ports_run_side_by_side() -> None:
    down, up = MapCopy(8, 8, "global", INPUT, "local", INPUT), MapCopy(8, 8, "local", OUTPUT, "global", OUTPUT)
    assert copies_cost([down, up], small_machine()).cycles == copies_cost([down], small_machine()).cycles == 2


def test_a_port_that_reads_and_writes_does_one_of_both() -> None:
    ports = (Port(Direction.READ_WRITE, 32),)
    both = machine(level("a", 64, pj=1.0, ports=ports), level("b", 64, pj=1.0, ports=ports))
    down, up = MapCopy(8, 8, "b", INPUT, "a", INPUT), MapCopy(8, 8, "a", OUTPUT, "b", OUTPUT)
    assert copies_cost([down, up], both).cycles == 4


@in_one_test("seed", range(100))
def test_together_copies_cost_the_energy_of_each_and_no_more_time(seed: int) -> None:
    random = Random(seed)
    accelerator = small_machine()
    copies = [
        MapCopy(random.randint(1, 40), 8, source, INPUT, target, INPUT)
        for source, target in (random.sample(("local", "global", DRAM), 2) for _ in range(random.randint(1, 4)))
    ]
    alone = [copies_cost([copy], accelerator) for copy in copies]
    found = copies_cost(copies, accelerator)
    assert sum(energy or 0.0 for _, energy in found.accesses) == sum(
        energy or 0.0 for one in alone for _, energy in one.accesses
    )
    assert max(one.cycles for one in alone) <= found.cycles <= sum(one.cycles for one in alone)
