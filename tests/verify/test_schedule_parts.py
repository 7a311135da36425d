"""Boxes, bytes in use, hops and prices of the schedule verifier, compared with counting one by one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Direction, Dram, Operand, Port
from onchip.errors import AcceleratorError
from onchip.ir.tensor import Role
from onchip.ir.tile import Region
from onchip.verify.latency import UsedBytes
from onchip.verify.schedule.machine import AddressedMachine
from onchip.verify.schedule.tiles import cover, partition
from support.schedule_cases import ACTIVATIONS, NEAR_AND_FAR, level, machine, tensor
from support.series import series


def random_box(random: Random) -> Region:
    return tuple((start, start + random.randint(1, 3)) for start in (random.randrange(4), random.randrange(4)))


def elements(region: Region) -> set[tuple[int, ...]]:
    return set(product(*(range(*each) for each in region)))


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_boxes_cover_what_their_elements_cover(first: int) -> None:
    verdicts = set()
    for seed in range(first, first + 500):
        random = Random(seed)
        wanted, boxes = random_box(random), [random_box(random) for _ in range(random.randint(0, 4))]
        is_covered = elements(wanted) <= {each for one in boxes for each in elements(one)}
        assert cover(wanted, boxes) is is_covered, seed
        verdicts.add(is_covered)
    assert verdicts == {True, False}


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_boxes_partition_what_their_elements_make_up(first: int) -> None:
    verdicts = set()
    for seed in range(first, first + 500):
        random = Random(seed)
        whole = random_box(random)
        cut = random.randint(whole[0][0], whole[0][1])
        (start, stop), across = whole
        boxes: list[Region] = [(span, across) for span in ((start, cut), (cut, stop)) if span[0] < span[1]]
        for _ in range(random.randint(0, 1)):
            boxes[random.randrange(len(boxes))] = random_box(random)
        listed = [each for one in boxes for each in elements(one)]
        is_one = len(listed) == len(set(listed)) and set(listed) == elements(whole)
        assert partition(whole, boxes) is is_one, seed
        verdicts.add(is_one)
    assert verdicts == {True, False}


def test_equal_sizes_are_no_partition() -> None:
    whole = ((0, 2), (0, 2))
    assert not partition(whole, [((0, 1), (0, 2)), ((0, 1), (0, 2))])
    assert not partition(whole, [((0, 1), (0, 2)), ((2, 3), (0, 2))])
    assert not partition(whole, [((0, 2), (0, 1)), ((1, 3), (0, 1))])


def test_a_box_beside_the_whole_is_no_part_of_it() -> None:
    assert partition(((0, 2),), [((0, 1),), ((1, 2),)])
    assert not partition(((0, 2),), [((0, 2),), ((2, 3),)])
    assert not partition(((1, 2),), [((0, 1),), ((1, 2),)])
    assert not partition(((0, 2),), [((0, 3),)])
    assert not partition(((0, 2),), [])


@pytest.mark.parametrize("seed", series(range(200), 66))
def test_bytes_in_use_are_those_of_an_array(seed: int) -> None:
    random, used, plain = Random(seed), UsedBytes(), [0] * 20
    for cycle in range(1, 15):
        start = random.randrange(19)
        stop = random.randint(start + 1, 20)
        assert used.latest(start, stop) == max(plain[start:stop])
        if random.random() < 0.7:
            used.use(start, stop, cycle)
            plain[start:stop] = [cycle] * (stop - start)
    assert [used.latest(at, at + 1) for at in range(20)] == plain


WITH_WEIGHTS_BETWEEN = machine(
    level("near", 64, 1.0), level("weights", 64, 2.0, (Operand.WEIGHT,)), level("maps", 64, 3.0, ACTIVATIONS)
)


@pytest.mark.parametrize(
    ("role", "ends", "stops"),
    [
        (Role.INPUT, ("dram", "near"), ["dram", "maps", "near"]),
        (Role.ACTIVATION, ("near", "dram"), ["near", "maps", "dram"]),
        (Role.PARAMETER, ("dram", "near"), ["dram", "weights", "near"]),
        (Role.PARAMETER, ("near", "weights"), ["near", "weights"]),
        (Role.ACTIVATION, ("maps", "near"), ["maps", "near"]),
        (Role.INPUT, ("dram", "maps"), ["dram", "maps"]),
    ],
)
def test_a_copy_passes_the_memories_between_that_may_hold_it(
    role: Role, ends: tuple[str, str], stops: list[str]
) -> None:
    hops = AddressedMachine(WITH_WEIGHTS_BETWEEN).hops(tensor("t", (4,), role), *ends)
    assert hops == [(stops[at], stops[at + 1]) for at in range(len(stops) - 1)]


def test_memories_with_an_instance_for_each_lane_are_not_addressed() -> None:
    assert list(AddressedMachine(NEAR_AND_FAR).level) == ["near", "far"]


def test_a_rate_is_the_sum_of_the_ports_of_a_direction() -> None:
    ports = (Port(Direction.READ, 3), Port(Direction.READ_WRITE, 8), Port(Direction.WRITE, 16))
    dram = Dram(Access(32, 8.0, 0.3, 8), ports)
    found = AddressedMachine(_with_dram(dram))
    assert found.cycles("dram", Direction.READ, 23) == 3
    assert found.cycles("dram", Direction.READ, 22) == 2
    assert found.cycles("dram", Direction.WRITE, 24) == 1
    assert found.cycles("dram", Direction.WRITE, 0) == 0
    assert found.energy_fj("dram", Direction.READ, 9) == 4000
    assert found.energy_fj("dram", Direction.WRITE, 33) == Fraction(375)


def test_a_memory_without_ports_keeps_up_and_one_without_the_direction_is_refused() -> None:
    assert AddressedMachine(_with_dram(Dram(Access(8, 1.0, 1.0)))).cycles("dram", Direction.READ, 99) == 0
    read_only = AddressedMachine(_with_dram(Dram(Access(8, 1.0, 1.0), (Port(Direction.READ, 8),))))
    with pytest.raises(AcceleratorError, match="no port of it can write"):
        read_only.cycles("dram", Direction.WRITE, 8)


def test_the_energy_of_a_memory_that_states_none_is_unknown() -> None:
    assert AddressedMachine(_with_dram(Dram())).energy_fj("dram", Direction.READ, 8) is None


def _with_dram(dram: Dram) -> Accelerator:

    return replace(NEAR_AND_FAR, dram=dram)
