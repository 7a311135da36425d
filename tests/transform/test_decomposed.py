"""Recurrences, Split and attention, decomposed: equal values and multiply-accumulates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from onchip.answer.document import Reading
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode
from onchip.api.networks import read_network
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.fusable_reading import fusable_of, partly_fusable_of
from onchip.ops.layers_of import Precision, layers_of, nest_operands
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.rewrite.attention_apart import (
    APPENDED,
    GATES_OF_STEP,
    HEAD_PRODUCTS,
    MOST_STEPS,
    STEPS,
    AttentionApart,
    RecurrenceApart,
    SplitsApart,
)
from onchip.verify.schedule.nests import NestDerivation
from support.recurrent_cells import Case, cases
from support.series import series
from support.tiled import Network, Shape, conv, in_one_stack, whole_tensor_differences


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
    outcome = schedule_network(
        ScheduleRequest(str(path), "edge-tpu-like", options=ScheduleOptions(uses_cache=False), reading=Reading(bits=8))
    )

    assert outcome.tiles is not None
    scheduled = sum(layer.macs for one in outcome.tiles.operators.values() for layer in one.nests)
    assert scheduled == layers_of(read_network(str(path))).macs


SHAPE = (1, 5, 6, 7)


def split_of(shape: Shape, sizes: tuple[int, ...], axis: int) -> Graph:
    """Return a map of one operator, cut along an axis into parts of these sizes, each read by an operator."""
    network = Network(8)
    source = network.add("Abs", [network.input(*shape)], shape)
    parts = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    for name, part in zip(network.split(source, parts, axis), parts, strict=True):
        network.add("Neg", [name], part)
    return network.graph()


def halves_and_all(size: int = 6) -> Graph:
    """Return a network that joins both halves of a map, a convolution of one half, and the map for a convolution."""
    network = Network(8)
    wide = conv(network, network.input(1, 2, size, size), 4, 1)
    halves = network.split(wide, [(1, 2, size, size)] * 2, 1)
    parts = [*halves, conv(network, halves[1], 3, 3), wide]
    joined = network.add("Concat", parts, (1, 11, size, size), (), {"axis": 1})
    conv(network, joined, 2, 3)
    return network.graph()


@pytest.mark.parametrize(("sizes", "axis"), [((2, 3), 1), ((1, 3, 1), 1), ((2, 4), 2), ((3, 3, 1), 3), ((1, 4), -3)])
def test_its_slices_have_the_values_of_its_outputs(sizes: tuple[int, ...], axis: int) -> None:
    graph = split_of(SHAPE, sizes, axis % 4)
    (operator,) = [one for one in graph.operators if one.kind == "Split"]
    told = replace(operator, attributes={"axis": axis})
    graph = replace(graph, operators=tuple(told if one is operator else one for one in graph.operators))
    apart = SplitsApart()(graph)
    slices = [one for one in apart.operators if one.kind == "Slice"]
    assert [one.name for one in slices] == [f"{operator.name} ({at})" for at in range(len(sizes))]
    assert tuple(name for one in slices for name in one.outputs) == operator.outputs
    assert whole_tensor_differences(apart, graph) == ()
    assert apart.tensors == graph.tensors


def test_it_stays_where_nothing_says_what_its_parts_are() -> None:
    graph = split_of(SHAPE, (2, 3), 1)
    name = next(one.name for one in graph.operators if one.kind == "Split")
    assert SplitsApart({name})(graph) == graph
    for changed in (
        replace(graph.operator[name], attributes={"axis": 2}),
        replace(graph.operator[name], attributes={"axis": 1, SEEN_SHAPES: [[5, 42]]}),
        replace(graph.operator[name], kind="TopK"),
    ):
        other = replace(graph, operators=tuple(changed if one.name == name else one for one in graph.operators))
        assert SplitsApart()(other) == other


def test_layers_see_some_channels_of_a_map_through_it() -> None:
    network = fusable_of(halves_and_all())
    sliced, last = network.layers[1:]
    assert [(read.source, read.channels) for read in sliced.reads] == [("conv0.out", 2)]
    assert [read.channels for read in last.reads] == [2, 2, None, None]
    assert [read.channels_seen(network.maps[read.source].channels) for read in last.reads] == [2, 2, 3, 4]
    assert last.joins


def test_taken_apart_before_or_not_a_network_has_the_same_layers() -> None:
    graph = halves_and_all()
    assert partly_fusable_of(SplitsApart()(graph)).network == partly_fusable_of(graph).network


@pytest.mark.parametrize("mode", OverlapMode)
@pytest.mark.parametrize("tile", [(1, 1), (2, 3), (5, 4), (6, 6)])
def test_fused_through_it_tiles_have_the_values_of_the_network(tile: tuple[int, int], mode: OverlapMode) -> None:
    graph = halves_and_all()
    assert whole_tensor_differences(in_one_stack(graph, *tile, mode), graph) == ()


def test_maps_of_which_some_channels_are_seen_together_are_joined_before() -> None:
    """A concatenation is read through only if all its parts are read alike."""
    network = Network(8)
    source = network.input(1, 2, 6, 6)
    parts = [conv(network, source, 2, 3), conv(network, source, 2, 1)]
    joined = network.add("Concat", parts, (1, 4, 6, 6), (), {"axis": 1})
    taken = network.split(joined, [(1, 1, 6, 6), (1, 3, 6, 6)], 1)
    conv(network, taken[1], 2, 3)
    found = partly_fusable_of(network.graph())
    assert [one.operator for one in found.outside] == [joined.removesuffix(".out")]
    assert found.network.layers[-1].reads[0].channels == 3


def attention(shapes: list[list[int]] | None = None, *, alike: bool = False) -> Graph:
    """Return queries, keys and values of two heads; `alike`: all three are views of one tensor."""
    sizes = {"q": (2, 4, 8), "k": (2, 6, 8), "v": (2, 6, 3)}
    names = ("q", "q", "q") if alike else tuple(sizes)
    attributes: dict[str, AttributeValue] = {}
    if shapes is not None:
        attributes["input_shapes"] = [list(shape) for shape in shapes]
    return Graph(
        "heads",
        (
            *(Tensor.of_shape(name, sizes[name], 8, Role.INPUT) for name in dict.fromkeys(names)),
            Tensor.of_shape("y", (2, 4, 3), 8, Role.OUTPUT),
        ),
        (Operator("attend", "Attention", names, ("y",), (), attributes),),
    )


def test_it_becomes_two_products_with_a_softmax_between() -> None:
    found = AttentionApart()(attention())

    assert [(one.name, one.kind, one.inputs, one.outputs) for one in found.operators] == [
        ("attend (scores)", HEAD_PRODUCTS, ("q", "k"), ("attend (scores)",)),
        ("attend (softmax)", "Softmax", ("attend (scores)",), ("attend (softmax)",)),
        ("attend", HEAD_PRODUCTS, ("attend (softmax)", "v"), ("y",)),
    ]
    assert found.tensor["attend (scores)"].shape == (2, 4, 6)


def test_its_nests_are_those_of_the_attention() -> None:
    apart = layers_of(AttentionApart()(attention())).layers

    assert list(apart.values()) == list(layers_of(attention()).layers.values())


def test_queries_times_keys_reads_keys_as_weights() -> None:
    found = AttentionApart()(attention())
    operands = nest_operands(found, found.operator["attend (scores)"])

    assert (operands.input, operands.weight) == ("q", "k")


def test_views_of_one_tensor_stay_one_tensor() -> None:
    found = AttentionApart()(attention([[2, 4, 8], [2, 6, 8], [2, 6, 3]], alike=True))

    assert found.operator["attend (scores)"].inputs == ("q", "q")
    assert found.operator["attend"].inputs == ("attend (softmax)", "q")


def test_what_nothing_cuts_into_heads_is_left_alone() -> None:
    graph = attention([[4, 8], [6, 8], [6, 3]])

    assert AttentionApart()(graph) == graph


def test_no_operator_of_the_bundled_transformer_is_an_attention_any_more() -> None:
    network = AttentionApart()(read_network("transformer", Reading(bits=8)))
    tiles = tile_graph(network, [ScheduledStack((one.name,)) for one in network.operators], Precision(8))
    without = {tiles.graph.operator[name].kind for name, one in tiles.operators.items() if not one.nests}

    assert without == {"LayerNormalization", "Softmax"}
