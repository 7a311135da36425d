"""Integer operators: those between dequantisations and a quantisation, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.transform.rewrite.activations import fuse
from onchip.transform.rewrite.quantisation import DEQUANTISE, PLAIN_KINDS, QUANTISE, QuantisationFold

SHAPE = (1, 4, 6, 6)
fold = QuantisationFold()


def network(*steps: str, outputs: str, inputs: str = "x") -> Graph:
    """Return a network of steps such as `c: Conv a b -> c`; inputs and maps that begin with `q` are integers."""
    operators, names = [], dict.fromkeys(inputs.split())
    parameters: dict[str, None] = {}
    for step in steps:
        name, _, rest = step.partition(": ")
        kind, *operands = rest.partition(" -> ")[0].split()
        results = tuple(rest.partition(" -> ")[2].split())
        read = tuple(operand for operand in operands if operand[0] not in "sw")
        constants = tuple(operand for operand in operands if operand[0] in "sw")
        operators.append(Operator(name, kind, read, results, constants))
        names |= dict.fromkeys(results)
        parameters |= dict.fromkeys(constants)
    tensors = [tensor_named(name, Role.ACTIVATION) for name in names]
    roles = dict.fromkeys(inputs.split(), Role.INPUT) | dict.fromkeys(outputs.split(), Role.OUTPUT)
    tensors = [replace(one, role=roles.get(one.name, one.role)) for one in tensors]
    tensors += [Tensor.of_shape(name, (), 32, Role.PARAMETER) for name in parameters]
    return Graph("network", tuple(tensors), tuple(operators))


def tensor_named(name: str, role: Role) -> Tensor:
    return Tensor.of_shape(name, SHAPE, 8 if name[0] in "qx" else 32, role)


def between(kind: str = "Conv", quantise: str = "QuantizeLinear", dequantise: str = "DequantizeLinear") -> Graph:
    return network(f"d: {dequantise} x sx -> fx", f"c: {kind} fx w -> fy", f"q: {quantise} fy sy -> qy", outputs="qy")


@pytest.mark.parametrize("quantise", sorted(QUANTISE))
@pytest.mark.parametrize("dequantise", sorted(DEQUANTISE))
def test_an_operator_between_them_is_one_over_integers(quantise: str, dequantise: str) -> None:
    (found,) = fold(between("Conv", quantise, dequantise)).operators
    assert (found.name, found.kind, found.inputs, found.outputs) == ("c", "Conv", ("x",), ("qy",))
    assert found.parameters == ("w", "sx", "sy")
    assert found.members == ("c", "d", "q")


def test_no_map_in_floating_point_is_left() -> None:
    assert {one.name for one in fold(between()).tensors} == {"x", "qy", "w", "sx", "sy"}


def test_through_a_view_it_lists_the_shape_that_it_sees() -> None:
    """The dequantisation reads a view, so the map is stored in another shape."""
    graph = between("Slice")
    stored = replace(graph.tensor["x"], shape=(1, 2, 2, 6, 6))
    graph = replace(graph, tensors=(stored, *(one for one in graph.tensors if one.name != "x")))
    (found,) = fold(graph).operators
    assert found.attributes == {SEEN_SHAPES: [list(SHAPE)]}


@pytest.mark.parametrize(("kind", "plain"), PLAIN_KINDS.items())
def test_a_kind_over_integers_bears_the_name_of_what_it_computes(kind: str, plain: str) -> None:
    (found,) = fold(network(f"c: {kind} x w -> qy", outputs="qy")).operators
    assert (found.kind, found.members) == (plain, ())


def test_with_channels_last_it_keeps_its_kind() -> None:
    graph = network("c: QLinearConv x w -> qy", outputs="qy")
    graph = replace(graph, operators=(replace(graph.operators[0], attributes={"channels_last": 1}),))
    assert fold(graph) == graph


STAYING = {
    "one of its maps is in floating point": (
        ("d: DequantizeLinear x sx -> fx", "a: Add fx xf -> fy", "q: QuantizeLinear fy sy -> qy"),
        "qy",
        "x xf",
    ),
    "nobody quantises what it writes": (("d: DequantizeLinear x sx -> fx", "c: Softmax fx -> fy"), "fy", "x"),
    "somebody else reads what it writes": (
        ("d: DequantizeLinear x sx -> fx", "c: Conv fx -> fy", "q: QuantizeLinear fy sy -> qy", "e: Exp fy -> fz"),
        "qy fz",
        "x",
    ),
    "what it writes leaves the network": (
        ("d: DequantizeLinear x sx -> fx", "c: Conv fx -> fy", "q: QuantizeLinear fy sy -> qy"),
        "qy fy",
        "x",
    ),
    "its input is quantised, and that is all": (("q: QuantizeLinear xf sy -> qy",), "qy", "xf"),
    "its scale is computed": (
        ("m: ReduceMax x -> qs", "d: DequantizeLinear x qs -> fx", "c: Conv fx -> fy", "q: QuantizeLinear fy sy -> qy"),
        "qy",
        "x",
    ),
}


@pytest.mark.parametrize("why", STAYING)
def test_an_operator_stays_in_floating_point_where(why: str) -> None:
    steps, outputs, inputs = STAYING[why]
    graph = network(*steps, outputs=outputs, inputs=inputs)
    assert fold(graph) == graph


def test_a_dequantisation_stays_for_those_who_need_it() -> None:
    steps = ("d: DequantizeLinear x sx -> fx", "c: Conv fx -> fy", "q: QuantizeLinear fy sy -> qy", "e: Exp fx -> fz")
    graph = fold(network(*steps, outputs="qy fz"))
    assert [one.name for one in graph.operators] == ["d", "c", "e"]
    assert graph.operator["c"].inputs == ("x",)


def test_a_dequantised_output_of_the_network_stays() -> None:
    steps = ("d: DequantizeLinear x sx -> fx", "c: Conv fx -> fy", "q: QuantizeLinear fy sy -> qy")
    graph = fold(network(*steps, "o: DequantizeLinear qy sy -> fz", outputs="fz"))
    assert [one.name for one in graph.operators] == ["c", "o"]


def test_a_map_of_another_scale_is_one_operator() -> None:
    (found,) = fold(network("d: DequantizeLinear x sx -> fx", "q: QuantizeLinear fx sy -> qy", outputs="qy")).operators
    assert (found.name, found.inputs, found.outputs, found.members) == ("q", ("x",), ("qy",), ("q", "d"))


def test_each_of_several_outputs_has_its_quantisation() -> None:
    steps = ["d: DequantizeLinear x sx -> fx", "s: Split fx -> fa fb"]
    both = [*steps, "qa: QuantizeLinear fa s1 -> qa", "qb: QuantizeLinear fb s2 -> qb"]
    (found,) = fold(network(*both, outputs="qa qb")).operators
    assert (found.name, found.outputs, found.members) == ("s", ("qa", "qb"), ("s", "d", "qa", "qb"))
    alone = network(*steps, "qa: QuantizeLinear fa s1 -> qa", "e: Exp fb -> fz", outputs="qa fz")
    assert fold(alone) == alone


def test_indices_need_no_dequantisation() -> None:
    steps = ("d: DequantizeLinear x sx -> fx", "g: Gather fx xi -> fy", "q: QuantizeLinear fy sy -> qy")
    (found,) = fold(network(*steps, outputs="qy", inputs="x xi")).operators
    assert (found.kind, found.inputs) == ("Gather", ("x", "xi"))


def test_folding_twice_is_folding_once() -> None:
    assert fold(fold(between())) == fold(between())


def test_an_activation_between_dequantisation_and_quantisation_is_an_operator_over_integers() -> None:
    """The activation fuses into the preceding operator, like its twin over integers."""
    steps = ["d: DequantizeLinear x sx -> a", "c: Conv a w -> b", "n: QuantizeLinear b sb -> qb"]
    steps += ["e: DequantizeLinear qb sb -> f", "g: Sigmoid f -> h", "q: QuantizeLinear h sh -> qy"]
    graph = fuse(fold(fuse(network(*steps, outputs="qy"), apart=DEQUANTISE)))
    (operator,) = graph.operators
    assert (operator.name, operator.kind, operator.inputs, operator.outputs) == ("c", "Conv", ("x",), ("qy",))
    assert set(operator.members) == {"c", "d", "n", "e", "g", "q"}
    assert {tensor.name for tensor in graph.tensors if tensor.role is Role.ACTIVATION} == set()


def test_into_kinds_that_are_apart_nothing_is_fused() -> None:
    graph = network("d: DequantizeLinear x s -> a", "g: Sigmoid a -> b", "r: Relu b -> c", outputs="c")
    assert [one.name for one in fuse(graph).operators] == ["d"]
    assert [one.name for one in fuse(graph, apart=DEQUANTISE).operators] == ["d", "g"]
