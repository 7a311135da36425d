"""The mapper of fused stacks whose unrolling follows from a layer's kind."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.energies import stated
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import load_network
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.uneven import FixedUnrolling, TemporalMethod, unrolling_for, unrolling_groups
from onchip.model.accounting.accounting import DEFINES, INTERPRETER, ZIGZAG, Accounting
from onchip.model.unrolling.unrolling import Unrolling, unrolled_as_asked
from onchip.ops.fusable import FusableLayer
from onchip.ops.fusable_reading import fusable_of
from oracles.unrollings import ARCHITECTURES, NETWORKS, unrolling_of

LAYER = Layer(k=12, c=12, p=9, q=14, r=3, s=3, partial_bits=16)
DEPART = {
    ("edge", "dmcnn-vd-defines", "conv19"),
    ("ascend", "mobilenetv1-defines", "pool27"),
    ("ascend", "resnet18-defines", "conv0"),
    ("tesla", "dmcnn-vd-defines", "conv19"),
    ("tesla", "mobilenetv1-defines", "conv25"),
    ("tesla", "mobilenetv1-defines", "conv26"),
    ("tesla", "resnet18-defines", "conv20"),
    ("tesla", "resnet18-defines", "conv21"),
    ("tesla", "resnet18-defines", "conv23"),
}
"""Convolutions and pools of DeFiNES's files that no rule has; the tenth exception is an addition."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_rule_is_that_of_defines_but_for_the_layers_that_depart_from_it(architecture: str) -> None:
    accelerator = load_accelerator(architecture)
    others = set()
    for network in NETWORKS:
        for fusable in _layers(network):
            published = unrolling_of(network, architecture, fusable.name)
            if len(fusable.reads) == 1 and _flat(unrolling_for(fusable.layer, accelerator)) != published:
                others.add((architecture.split("-")[0], network, fusable.name))
    assert others == {one for one in DEPART if one[0] == architecture.split("-")[0]}


@cache
def _layers(network: str) -> tuple[FusableLayer, ...]:
    return tuple(fusable_of(load_network(network)).layers)


def _flat(unrolling: Unrolling) -> dict[str, tuple[str, int]]:
    return {name: next(iter(loops.items())) for name, loops in unrolling.items()}


def test_an_addition_unrolls_its_groups_along_all_dimensions_but_those_of_inputs() -> None:
    machine = unrolling_groups(load_accelerator("meta-prototype-df"))
    unrolling = unrolling_for(Layer(g=100), machine)
    assert _flat(unrolling) == {"K": ("G", 32), "OX": ("G", 4)}
    unrolled = unrolled_as_asked(Layer(g=100), machine, unrolling)
    assert unrolled.turns["G"] == 1
    assert unrolled.bounds["G"] >= 100


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("method", TemporalMethod)
def test_the_cost_is_that_of_the_mapping(method: TemporalMethod, accounting: Accounting) -> None:
    accelerator = unrolling_groups(load_accelerator("meta-prototype-df"))
    mapper = FixedUnrolling(method, accounting)
    cost, result = mapper(LayerProblem(LAYER, accelerator)), mapper.result(LayerProblem(LAYER, accelerator))
    assert cost is not None
    assert result.answer is not None
    assert result.objective_value == pytest.approx(1000 * cost.energy_pj, rel=1e-9)
    assert {loop.along for loop in result.answer.nest if loop.along} == {"K", "C", "OX", "OY"}


@pytest.mark.parametrize("method", TemporalMethod)
def test_nothing_moves_above_where_an_operand_lies(method: TemporalMethod) -> None:
    homes = Homes(input="activation_local_buffer", output="activation_local_buffer")
    cost = FixedUnrolling(method)(LayerProblem(LAYER, load_accelerator("meta-prototype-df"), homes))
    assert cost is not None
    places = {operand: {one.memory for one in cost.accesses if one.operand == operand} for operand in Operand}
    assert places[Operand.INPUT] == {"activation_local_buffer"}
    assert places[Operand.OUTPUT] == {"activation_local_buffer", "output_register"}
    assert "dram" in places[Operand.WEIGHT]


@pytest.mark.parametrize("method", TemporalMethod)
def test_there_is_none_where_nothing_fits(method: TemporalMethod) -> None:
    full = {"activation_local_buffer": 0}
    problem = LayerProblem(Layer(c=64), load_accelerator("meta-prototype-df"), room_bytes=full)
    assert FixedUnrolling(method)(problem) is None


def test_the_interpreter_executes_whole_units() -> None:
    accelerator = load_accelerator("meta-prototype-df")
    cost = FixedUnrolling(accounting=INTERPRETER)(LayerProblem(replace(LAYER, k=33), accelerator))
    in_parts = FixedUnrolling(accounting=ZIGZAG)(LayerProblem(replace(LAYER, k=33), accelerator))
    assert cost is not None
    assert in_parts is not None
    assert stated(cost.mac_energy_pj) > stated(in_parts.mac_energy_pj)
    with pytest.raises(InputError, match="expected ZIGZAG or DEFINES"):
        FixedUnrolling(TemporalMethod.UNEVEN, INTERPRETER)(LayerProblem(LAYER, accelerator))
