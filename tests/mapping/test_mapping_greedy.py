"""Mappings made without a search: legal wherever they are made, and never worse than one product after the other."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.baselines.loma import greedy_mapping, one_by_one
from onchip.mapping.methods.cache import map_layer_at
from onchip.model.layer.limits import array_of
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import homed_toy
from support.nests import random_accelerator, random_layer, random_problem
from support.series import series

LAYERS = (
    "conv:n1k64c3p56q56r7s7:stride2:pad3",
    "conv:n1k128c256p28q28r1s1",
    "conv:n1k96c96p14q14r3s3:pad1:groups96",
    "gemm:m784n160k1",
    "gemm:m1n1000k1024",
)
PRICED = ("simba", "meta-prototype-df", "tpu-like-df", "edge-tpu-like", "ascend-like", "tesla-npu-like")


def value(problem: LayerProblem, mapping: LayerMapping, objective: MappingObjective) -> float:
    """Return the value of a mapping, or infinity if it does not fit or cannot be costed."""
    try:
        cost = nest_cost(problem, mapping)
    except InputError:
        return inf
    return objective.of(cost.energy_pj, cost.cycles)


def odd_problem(seed: int) -> LayerProblem:
    """Return a toy with homes, or a random layer on a random machine."""
    if seed % 2:
        return homed_toy(seed)
    random = Random(seed)
    return random_problem(random, random_layer(random, 5000), random_accelerator(random))


@pytest.mark.parametrize("seed", series(range(120), 40))
def test_it_is_legal_and_never_worse_than_one_product_after_the_other(seed: int) -> None:
    problem = odd_problem(seed)
    for objective in MappingObjective:
        try:
            found = greedy_mapping(problem, objective)
        except InputError:
            continue
        before = value(problem, one_by_one(problem), objective)
        if found is None:
            assert before == inf
        else:
            assert verify_mapping(problem, found) == ()
            assert value(problem, found, objective) <= before


def test_on_many_odd_machines_it_is_better_than_one_product_after_the_other() -> None:
    latency, better, count = MappingObjective.LATENCY, 0, 0
    for seed in range(60):
        problem = odd_problem(seed)
        try:
            found = greedy_mapping(problem, latency)
        except InputError:
            continue
        if found is not None:
            count += 1
            better += value(problem, found, latency) < value(problem, one_by_one(problem), latency)
    assert better > count / 3 > 10


@pytest.mark.parametrize("name", PRICED)
@pytest.mark.parametrize("text", LAYERS)
def test_it_is_within_a_few_times_of_what_loma_finds(name: str, text: str) -> None:
    """Sequential products would take some hundred times as long."""
    accelerator = load_accelerator(name)
    problem = LayerProblem(Precision().on(accelerator).of(Layer.of_text(text)), accelerator)
    latency = MappingObjective.LATENCY
    found, by_loma = greedy_mapping(problem, latency), map_layer_at(problem, latency, Run(), "loma").answer
    assert found is not None
    assert verify_mapping(problem, found) == ()
    if by_loma is not None:
        assert value(problem, found, latency) <= 8 * value(problem, by_loma, latency)


@pytest.mark.parametrize("name", ["edge-tpu-like", "meta-prototype", "tesla-npu-like"])
def test_nothing_stands_side_by_side_that_a_memory_has_no_room_for(name: str) -> None:
    """Registers keep one weight for units on two dimensions, which may unroll any loop: LOMA's choice does not fit."""
    accelerator = load_accelerator(name)
    array = array_of(accelerator)
    accelerator = replace(accelerator, array=replace(array, unrolls=dict.fromkeys(array.sizes, LOOPS)))
    problem = LayerProblem(Precision().on(accelerator).of(Layer(k=64, c=64, p=56, q=56, r=3, s=3)), accelerator)
    latency = MappingObjective.LATENCY
    assert map_layer_at(problem, latency, Run(), "loma").answer is None
    found = greedy_mapping(problem, latency)
    assert found is not None
    assert 50 * value(problem, found, latency) <= value(problem, one_by_one(problem), latency)
