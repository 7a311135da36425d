"""Batches of mappings cost what each mapping costs, also as ZigZag counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.zigzag import read_zigzag_hardware
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import DEFINES, ZIGZAG, Accounting
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import array_of, check_array
from onchip.model.layer.tables import CostStatus, LayerCosts
from onchip.model.unrolling.unrolling import prime_counts
from support.nests import Case, random_accelerator, random_case, random_layer, random_mapping, random_problem
from support.series import series

# The compiled cost model compared with the plain one, which follows the definition


def _tightened(accelerator: Accelerator, random: Random) -> Accelerator:
    """Return the accelerator with memories in which many tiles do not fit."""
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=random.choice((2, 8, 32, 1 << 20))))
        for level in accelerator.levels
    )
    return replace(accelerator, levels=levels, scratchpads=tuple(one.memory for one in levels if one.is_scratchpad))


def _assert_equal(case: Case, energy_pj: float, cycles: int, status: int) -> None:
    try:
        cost = layer_cost(case.problem, case.mapping)
    except MappingError:
        assert (status, cycles, energy_pj) == (CostStatus.OVER_CAPACITY, -1, np.inf), case
        return
    assert status == CostStatus.COSTED, case
    assert cycles == round(cost.cycles), case
    assert energy_pj == pytest.approx(cost.energy_pj, rel=1e-12), case


@pytest.mark.parametrize("seed", series(range(60), 30))
def test_many_mappings_of_one_layer_cost_what_each_costs(seed: int) -> None:
    random = Random(seed)
    accelerator = random_accelerator(random)
    if seed % 3 == 0:
        accelerator = _tightened(accelerator, random)
    layer = random_layer(random, most_macs=20000)
    problem = random_problem(random, layer, accelerator)
    mappings = [random_mapping(random, problem) for _ in range(100)]
    costs = LayerCosts(problem).of(mappings)
    for row, mapping in enumerate(mappings):
        case = Case(problem, mapping)
        _assert_equal(case, costs.energy_pj[row], int(costs.cycles[row]), int(costs.status[row]))


def test_few_mappings_are_left_to_the_other_model_and_most_are_not() -> None:
    statuses = []
    for seed in range(300):
        case = random_case(seed)
        costs = LayerCosts(case.problem)
        statuses.append(int(costs.of_chosen(costs.encode([case.mapping])).status[0]))
    assert set(statuses) == {CostStatus.COSTED, CostStatus.INTERLEAVED}
    assert statuses.count(CostStatus.COSTED) > 250


def test_a_row_that_exceeds_the_array_says_so() -> None:
    accelerator = replace(random_accelerator(Random(0)), array=ComputeArray(free=4, mac_energy_pj=0.0))
    costs = LayerCosts(LayerProblem(Layer(k=8), accelerator))
    chosen = costs.encode([LayerMapping((Loop("K", 4, "free"), Loop("K", 2)))])
    assert costs.of_chosen(chosen).status[0] == CostStatus.COSTED
    chosen.spatial_size[0, 0] = 5
    assert costs.of_chosen(chosen).status[0] == CostStatus.OVER_ARRAY


def test_what_cannot_be_encoded_is_refused() -> None:
    accelerator = random_accelerator(Random(0))
    with pytest.raises(MappingError, match="mapping 1: its loops are not the layer's"):
        LayerCosts(LayerProblem(Layer(k=2), accelerator)).encode(
            [LayerMapping((Loop("K", 2),)), LayerMapping((Loop("K", 3),))]
        )
    with pytest.raises(InputError, match="too large for the compiled cost model"):
        LayerCosts(LayerProblem(Layer(p=1 << 16), accelerator))
    with pytest.raises(InputError, match=f"at most {1 << 46} multiply-accumulates"):
        LayerCosts(LayerProblem(Layer(n=1 << 16, k=1 << 16, c=(1 << 14) + 1), accelerator))


# Accounting of ZigZag and DeFiNES in compiled code, compared with the plain model and with figures


SYSTOLIC = Path(__file__).parents[1] / "data" / "zigzag-systolic.yaml"


def _tightened_for_zigzag(accelerator: Accelerator, random: Random) -> Accelerator:
    """Return the accelerator with memories in which many tiles do not fit, or only once."""
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=random.choice((2, 8, 32, 128, 1 << 20))))
        for level in accelerator.levels
    )
    return replace(accelerator, levels=levels, scratchpads=tuple(one.memory for one in levels if one.is_scratchpad))


def _assert_equal_to_zigzag(problem: LayerProblem, mappings: Sequence[LayerMapping], accounting: Accounting) -> int:
    """Compare the costs of all mappings with those of each, and return the number of those that fit."""
    fit = 0
    for mapping, energy_pj, cycles, status in zip(
        mappings, *LayerCosts(problem, accounting=accounting).of(mappings), strict=True
    ):
        try:
            cost = layer_cost(problem, mapping, accounting)
        except MappingError:
            assert (status, cycles, energy_pj) == (CostStatus.OVER_CAPACITY, -1, np.inf), mapping
        else:
            assert status == CostStatus.COSTED, mapping
            assert (energy_pj, cycles) == pytest.approx((cost.energy_pj, cost.cycles), rel=1e-11), mapping
            fit += 1
    return fit


def _accelerator(random: Random, *, is_tight: bool) -> Accelerator:
    accelerator = random_accelerator(random)
    return _tightened_for_zigzag(accelerator, random) if is_tight else accelerator


ACCOUNTINGS = (ZIGZAG, DEFINES)


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("seed", series(range(60), 10))
def test_many_mappings_of_one_layer_cost_what_zigzag_counts(seed: int, accounting: Accounting) -> None:
    random = Random(seed)
    accelerator = _accelerator(random, is_tight=seed % 3 == 0)
    if seed % 2:
        accounting = replace(accounting, systolic=tuple(array_of(accelerator).sizes))
    problem = random_problem(random, random_layer(random, most_macs=20000), accelerator)
    _assert_equal_to_zigzag(problem, [random_mapping(random, problem) for _ in range(50)], accounting)


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("seed", series(range(20), 8))
def test_so_do_those_of_one_tap_over_a_padded_input(seed: int, accounting: Accounting) -> None:
    random = Random(seed)
    accelerator = _accelerator(random, is_tight=seed % 2 == 1)
    padding = random.choice(((1, 1, 1, 1), (2, 0, 1, 1), (0, 1, 1, 0)))
    layer = replace(random_layer(random, most_macs=2000), p=5, q=4, r=1, s=1, padding=padding)
    problem = random_problem(random, layer, accelerator)
    _assert_equal_to_zigzag(problem, [random_mapping(random, problem) for _ in range(20)], accounting)


def _larger_layer(random: Random) -> Layer:
    """Return a layer with loop bounds that small unit counts do not divide."""
    n, k, c, p, q, g = (random.choice((1, 3, 5, 7, 9, 11, 14)) for _ in range(6))
    taps, stride = random.choice((1, 1, 2, 3)), random.choice((1, 1, 2))
    if random.random() < 0.6:
        n = g = 1
    has_weight = random.random() > 0.1
    return Layer(n, k, c, p, q, taps, taps, g, (stride, stride), partial_bits=20, has_weight=has_weight)


def _mappings_in_parts(random: Random, problem: LayerProblem, count: int) -> list[LayerMapping]:
    """Return mappings of one unrolling with the fewest turns that its units allow; units need not divide the bounds."""
    layer, array = problem.layer, problem.accelerator.array or ComputeArray(free=1, mac_energy_pj=0.0)
    left, beside, turns = dict(array.sizes), list[Loop](), dict(layer.bounds)
    for along in left:
        loops = [one for one in loops_along(array, along) if turns[one] == layer.bounds[one] and turns[one] > 1]
        for loop in random.sample(loops, min(2, len(loops))):
            units = random.randint(1, min(left[along], layer.bounds[loop]))
            turns[loop] = -(-layer.bounds[loop] // units)
            beside.append(Loop(loop, -(-layer.bounds[loop] // turns[loop]), along))
            left[along] //= beside[-1].size
    primes = [
        Loop(loop, prime)
        for loop, bound in turns.items()
        for prime, times in prime_counts(bound).items()
        for _ in range(times)
    ]
    return [_with_cuts(random, problem, [*beside, *primes]) for _ in range(count)]


def _with_cuts(random: Random, problem: LayerProblem, loops: list[Loop]) -> LayerMapping:
    nest = random.sample(loops, len(loops))
    kept = []
    for operand in Operand:
        names = [level.memory.name for level in problem.keepers(operand) if operand in problem.layer.operands]
        names = [name for name in names if random.random() < 0.8]
        cuts = sorted(random.randint(0, len(nest)) for _ in names)
        kept.append(tuple(Kept(name, cut) for name, cut in zip(names, cuts, strict=True)))
    return LayerMapping(tuple(nest), *kept)


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("seed", series(range(40), 8))
def test_so_do_those_with_units_in_parts(seed: int, accounting: Accounting) -> None:
    random = Random(seed)
    accelerator = _accelerator(random, is_tight=seed % 3 == 0)
    problem = random_problem(random, _larger_layer(random), accelerator)
    _assert_equal_to_zigzag(problem, _mappings_in_parts(random, problem, 50), accounting)


def test_units_in_parts_need_no_more_turns_than_they_take() -> None:
    accelerator = replace(random_accelerator(Random(0)), array=ComputeArray(free=4, mac_energy_pj=0.0))
    mapping = LayerMapping((Loop("K", 4, "free"), Loop("K", 4)))
    assert layer_cost(LayerProblem(Layer(k=4), accelerator), mapping, ZIGZAG).macs == 4
    message = "array: free: 3 iterations of K leave units idle in 16"
    with pytest.raises(MappingError, match=message):
        layer_cost(LayerProblem(Layer(k=3), accelerator), mapping, ZIGZAG)
    with pytest.raises(MappingError, match=message):
        LayerCosts(LayerProblem(Layer(k=3), accelerator), accounting=ZIGZAG).of([mapping])


def _can_be_unrolled(accelerator: Accelerator, mapping: LayerMapping) -> bool:
    try:
        check_array(accelerator, mapping)
    except MappingError:
        return False
    return True


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("name", series(["meta-prototype", "eyeriss-like"], 1))
@pytest.mark.parametrize("part", series(range(2), 1))
def test_so_do_those_on_real_machines(part: int, name: str, accounting: Accounting) -> None:
    random, accelerator = Random(f"{name} {part}"), load_accelerator(name)
    layer = replace(Layer.of_text("conv:k32c8p12q12r3s3:stride2:pad1x1x0x0"), partial_bits=16)
    problem = LayerProblem(layer, accelerator)
    drawn = [random_mapping(random, problem) for _ in range(1000)]
    assert _assert_equal_to_zigzag(problem, [one for one in drawn if _can_be_unrolled(accelerator, one)], accounting)


def test_a_row_that_exceeds_the_array_says_so_as_zigzag_counts() -> None:
    accelerator = replace(random_accelerator(Random(0)), array=ComputeArray(free=4, mac_energy_pj=0.0))
    costs = LayerCosts(LayerProblem(Layer(k=8), accelerator), accounting=ZIGZAG)
    chosen = costs.encode([LayerMapping((Loop("K", 4, "free"), Loop("K", 2)))])
    assert costs.of_chosen(chosen).status[0] == CostStatus.COSTED
    chosen.spatial_size[0, 0] = 5
    assert costs.of_chosen(chosen).status[0] == CostStatus.OVER_ARRAY


def test_units_in_parts_cost_what_zigzag_says() -> None:
    """The last layer of its ResNet18 has 1000 outputs on 32 units in 32 turns: 31.25 units each."""
    hardware = read_zigzag_hardware(SYSTOLIC)
    nest = tuple(Loop(*one) for one in (("K", 32, "D1"), ("C", 32, "D2"), ("C", 16), ("K", 4), ("K", 4), ("K", 2)))
    names = [level.memory.name for level in hardware.accelerator.levels]
    mapping = LayerMapping(nest, (Kept(names[2], 6),), (Kept(names[0], 4),), (Kept(names[1], 3), Kept(names[2], 6)))
    layer = Layer(k=1000, c=512, partial_bits=16)
    costs = LayerCosts(LayerProblem(layer, hardware.accelerator), accounting=ZIGZAG).of([mapping])
    # ZigZag rounds each memory's accesses down to whole ones.
    assert costs.energy_pj[0] == pytest.approx(45108639.12, rel=2e-5)
