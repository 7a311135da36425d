"""Methods by their names on the machines that come with onchip, and on the tables of CoSA's workloads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.arch.energies import with_assumed_energies
from onchip.errors import AcceleratorError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.ir.layer import Layer
from onchip.mapping.methods.registry import method_named
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from support.series import series

SMALL = Layer(k=16, c=8, p=8, q=8, r=3, s=3, padding=(1, 1, 1, 1))


@pytest.mark.parametrize("machine", ["simba", "simba-cosa"])
@pytest.mark.parametrize("objective", series(MappingObjective, 1))
def test_cosa_answers_its_optimum_whose_ties_the_cost_model_breaks(machine: str, objective: MappingObjective) -> None:
    layer, accelerator = layer_table("resnet50")["_outputs_input.73"], load_accelerator(machine)
    result = method_named("cosa")(LayerProblem(layer, accelerator), objective, Run())
    assert (result.status, result.method) == (Status.OPTIMAL, "cosa")
    assert result.answer is not None
    assert layer_cost(LayerProblem(layer, accelerator), result.answer).energy_pj > 0
    values = {}
    for asked in MappingObjective:
        answer = method_named("cosa")(LayerProblem(layer, accelerator), asked, Run()).answer
        assert answer is not None
        cost = layer_cost(LayerProblem(layer, accelerator), answer)
        values[asked] = objective.of(cost.energy_pj, cost.cycles)
    assert values[objective] == min(values.values())


def test_cosa_maps_a_loop_longer_than_the_compiled_cost_model_counts() -> None:
    layer = Layer(n=131_072, k=8, c=8)
    result = method_named("cosa")(LayerProblem(layer, load_accelerator("simba")), MappingObjective.ENERGY, Run())
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("machine", ["tpu-like-df", "eyeriss-like", "meta-prototype"])
def test_exact_is_legal_and_no_worse_than_its_rivals_on_other_machines(machine: str) -> None:
    """Sums of 16 bits: the registers of two of these machines have no room for longer ones."""
    layer, accelerator, objective = replace(SMALL, partial_bits=16), load_accelerator(machine), MappingObjective.ENERGY
    result = method_named("exact")(LayerProblem(layer, accelerator), objective, Run(Limits(time_limit_seconds=1)))
    assert result.answer is not None
    assert result.objective_value is not None
    assert verify_mapping(LayerProblem(layer, accelerator), result.answer) == ()
    cost = layer_cost(LayerProblem(layer, accelerator), result.answer)
    assert result.objective_value == pytest.approx(objective.of(cost.energy_pj, cost.cycles), rel=1e-9)
    assert result.lower_bound <= result.objective_value
    rival = method_named("random")(LayerProblem(layer, accelerator), objective, Run())
    if result.status is Status.OPTIMAL and rival.objective_value is not None:
        assert result.objective_value <= rival.objective_value


def test_a_machine_without_energies_is_refused_with_what_lacks_them() -> None:
    machine, objective = load_accelerator("tpu-like"), MappingObjective.ENERGY
    with pytest.raises(AcceleratorError, match="does not state all energies"):
        method_named("exact")(LayerProblem(SMALL, machine), objective, Run())
    assert machine.array is not None
    priced = replace(machine, array=replace(machine.array, mac_energy_pj=0.0))
    with pytest.raises(AcceleratorError, match="memory 'accumulators': the energy of an access is not stated"):
        method_named("exact")(LayerProblem(SMALL, priced), objective, Run())
    assumed = with_assumed_energies(machine)
    assert method_named("exact")(LayerProblem(SMALL, assumed), MappingObjective.LATENCY, Run()).answer is not None


@pytest.mark.slow
@pytest.mark.parametrize("table", ["resnext50", "resnext50-cosa", "deepbench-ocr", "deepbench-face-recognition"])
def test_a_layer_of_each_table_is_mapped_by_exact_at_no_more_than_cosa(table: str) -> None:
    layers, accelerator = layer_table(table), load_accelerator("simba")
    layer = min(layers.values(), key=lambda one: one.macs)
    values = []
    for method in ("exact", "cosa"):
        result = method_named(method).solve(LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run())
        assert result.answer is not None
        if verify_mapping(LayerProblem(layer, accelerator), result.answer) == ():
            values.append(layer_cost(LayerProblem(layer, accelerator), result.answer).energy_pj)
    assert values
    assert values[0] == min(values)
