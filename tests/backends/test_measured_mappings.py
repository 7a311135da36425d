"""Mappings that are compiled, run and timed compute what their peers do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host.machine import host_compiler
from host.measuring import measure_mapping

from onchip.answer.document import NamedMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.search.budget.limits import Run
from support.lanes import LANES
from support.series import series


@pytest.mark.parametrize(
    "text", ["gemm:m24n40k30", "conv:n1k16c8p6q6r3s3:stride2:pad1", "conv:k24c24p5q5r3s3:groups24"]
)
@pytest.mark.parametrize("bits", series([8, 32], 1))
def test_a_mapping_is_run_and_computes_what_its_peer_does(text: str, bits: int) -> None:
    machine = accelerator_from_yaml(LANES, "lanes.yaml")
    layer = replace(Layer.of_text(text), input_bits=bits, weight_bits=bits, partial_bits=32)
    mapping = solve_exactly(LayerProblem(layer, machine), MappingObjective.EDP, Run()).answer
    assert mapping is not None
    found = measure_mapping(NamedMapping((text,), layer, mapping), machine, host_compiler(), seconds=0)
    assert found.is_right
    assert min(found.gflops, found.peer_gflops) > 0
    assert found.measured_cycles == pytest.approx(found.seconds * 1e9)
    assert found.predicted_cycles == found.model_cycles > 0
