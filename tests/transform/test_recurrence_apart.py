"""Recurrences decomposed: products and gates of each step, the same multiply-accumulates, the same neighbours."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from onchip.answer.document import Reading
from onchip.answer.schedule import ScheduledStack
from onchip.api.networks import read_network
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.layers_of import Precision, layers_of
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.rewrite.attention_apart import (
    APPENDED,
    GATES_OF_STEP,
    HEAD_PRODUCTS,
    MOST_STEPS,
    STEPS,
    RecurrenceApart,
)
from onchip.verify.schedule.nests import NestDerivation
from support.recurrent_cells import Case, cases
from support.series import series


def network_of(case: Case, bits: int | None = None) -> Graph:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cell.onnx"
        path.write_bytes(case.model(case.values(0)))
        return read_network(str(path), Reading(bits=bits))


@given(cases)
@settings(max_examples=60, deadline=None)
def test_taken_apart_it_multiplies_as_much_and_the_verifier_derives_it(case: Case) -> None:
    network = network_of(case)
    apart = RecurrenceApart()(network)
    assert layers_of(apart).macs == layers_of(network).macs
    for role in (Role.INPUT, Role.OUTPUT, Role.PARAMETER):
        assert apart.with_role(role) == network.with_role(role)
    tiles = tile_graph(apart, [ScheduledStack((one.name,)) for one in apart.operators], Precision(None))
    derivation = NestDerivation(apart, Precision(None).sum_bits)
    for operator in apart.operators:
        nests = derivation.of(operator)
        made = tiles.operators[operator.name]
        assert (nests.layers if nests else ()) == made.nests
        assert bool(nests) == (operator.kind == HEAD_PRODUCTS)
        if nests is None or nests.weight is None or made.operands is None:
            continue
        assert (nests.input, nests.weight) == (made.operands.input, made.operands.weight)
        (layer,) = nests.layers
        sizes = {name: tensor.size_bytes * 8 for name, tensor in apart.tensor.items()}
        assert layer.elements("input") * layer.input_bits == sizes[nests.input]
        assert layer.elements("output") * layer.output_bits == sizes[operator.outputs[0]]
        used = layer.elements("weight") * layer.weight_bits
        parts = (1, 2, 3) if case.kind == "GRU" else (3,)
        assert used in [sizes[nests.weight] * part // 3 for part in parts]


def test_each_step_waits_for_the_state_before() -> None:
    apart = RecurrenceApart()(network_of(Case("LSTM", steps=2, batch=1, features=3, state=4)))

    assert [(one.name, one.kind, one.reads, one.outputs) for one in apart.operators] == [
        ("cell (inputs)", HEAD_PRODUCTS, ("x", "w"), ("cell (inputs)",)),
        ("cell (steps)", STEPS, ("cell (inputs)",), ("cell (inputs 0)", "cell (inputs 1)")),
        ("cell (state 0)", HEAD_PRODUCTS, ("h0", "r"), ("cell (state 0)",)),
        (
            "cell (gates 0)",
            GATES_OF_STEP,
            ("cell (inputs 0)", "cell (state 0)", "h0"),
            ("cell (gates 0)", "cell (memory 0)"),
        ),
        ("cell (state 1)", HEAD_PRODUCTS, ("cell (gates 0)", "r"), ("cell (state 1)",)),
        (
            "cell (gates 1)",
            GATES_OF_STEP,
            ("cell (inputs 1)", "cell (state 1)", "cell (gates 0)", "cell (memory 0)"),
            ("cell (gates 1)", "cell (memory 1)"),
        ),
        ("cell", APPENDED, ("cell (gates 0)", "cell (gates 1)", "cell (memory 1)"), ("y",)),
    ]  # fmt: skip


def test_one_step_is_two_products_and_its_gates() -> None:
    apart = RecurrenceApart()(network_of(Case("LSTM", steps=1, batch=1, features=3, state=4)))
    assert [one.name for one in apart.operators] == ["cell (inputs)", "cell (state 0)", "cell"]


def test_both_directions_see_the_inputs_from_both_ends() -> None:
    apart = RecurrenceApart()(network_of(Case("RNN", steps=3, batch=1, features=3, state=4, directions=2)))
    assert apart.operator["cell (gates 0)"].inputs[:2] == ("cell (inputs 0)", "cell (inputs 2)")
    assert apart.operator["cell (gates 1)"].inputs[0] == "cell (inputs 1)"
    assert "cell (inputs 2)" not in apart.operator["cell (gates 1)"].inputs


def test_one_of_very_many_steps_stays_whole() -> None:
    network = network_of(Case("RNN", steps=MOST_STEPS + 1, batch=1, features=1, state=1))
    assert RecurrenceApart()(network) == network


@pytest.mark.parametrize("kind", series(["LSTM", "GRU", "RNN"], 1))
def test_a_schedule_computes_what_map_counts(tmp_path: Path, kind: str) -> None:
    case = Case(kind, steps=2, batch=1, features=4, state=4)
    path = tmp_path / "cell.onnx"
    path.write_bytes(case.model(case.values(0)))
    outcome = schedule_network(ScheduleRequest(str(path), "edge-tpu-like", uses_cache=False, bits=8))

    assert outcome.tiles is not None
    scheduled = sum(layer.macs for one in outcome.tiles.operators.values() for layer in one.nests)
    assert scheduled == layers_of(read_network(str(path))).macs
