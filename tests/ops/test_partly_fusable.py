"""Networks with operators that cannot be fused: these run outside of all stacks, on maps in DRAM."""

from __future__ import annotations

import pytest

from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.own.graph_json import load_network
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.fusable_reading import PartlyFusable, fusable_of, partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.transform.groups.stacks import legal_spans
from onchip.transform.rewrite.activations import fuse
from support.tiled import Network

SHAPE = (1, 4, 6, 6)


def chain(*kinds: str, outputs: str = "", more: tuple[Operator, ...] = ()) -> Graph:
    """Return operators a, b, c, ... in a chain that begins with the network's input x; then `more`."""
    names = [chr(ord("a") + at) for at in range(len(kinds))]
    operators = [
        Operator(name, kind, (before,), (name,))
        for name, kind, before in zip(names, kinds, ["x", *names[:-1]], strict=True)
    ]
    operators += more
    read = {name for operator in operators for name in operator.inputs}
    tensors = [Tensor.of_shape("x", SHAPE, 8, Role.INPUT)]
    for operator in operators:
        is_output = operator.name not in read or operator.name in outputs.split()
        tensors.append(Tensor.of_shape(operator.name, SHAPE, 8, Role.OUTPUT if is_output else Role.ACTIVATION))
    return Graph("chain", tuple(tensors), tuple(operators))


def spans(found: PartlyFusable) -> set[tuple[str, ...]]:
    """Return the legal stacks, by the names of their layers."""
    layers = found.network.layers
    return {tuple(one.name for one in layers[span.start : span.stop]) for span in legal_spans(found.network)}


def test_what_can_be_fused_whole_has_nothing_outside() -> None:
    graph = fuse(load_network("resnet50"))
    found = partly_fusable_of(graph)
    assert (found.network, found.outside) == (fusable_of(graph), ())


def test_no_stack_holds_both_sides_of_an_operator_outside() -> None:
    found = partly_fusable_of(chain("Exp", "Neg", "Softmax", "Abs", "Log"))
    (outside,) = found.outside
    assert (outside.operator, outside.kind) == ("c", "Softmax")
    assert "no loop nest" in outside.why
    assert [one.name for one in found.network.inputs] == ["x", "c"]
    assert found.network.outputs == ("e", "b")
    assert spans(found) == {("a",), ("b",), ("a", "b"), ("d",), ("e",), ("d", "e")}


def test_a_map_that_goes_around_an_operator_outside_ends_its_stack() -> None:
    """An addition bypasses the softmax of b: a stack of b and d would have to run c inside."""
    found = partly_fusable_of(chain("Exp", "Neg", "Softmax", more=(Operator("d", "Add", ("b", "c"), ("d",)),)))
    assert [one.operator for one in found.outside] == ["c"]
    assert spans(found) == {("a",), ("b",), ("a", "b"), ("d",)}


def test_operators_outside_may_stand_beside_a_stack() -> None:
    """The softmax of x runs before any stack."""
    beside = (Operator("s", "Softmax", ("x",), ("s",)), Operator("d", "Add", ("b", "s"), ("d",)))
    found = partly_fusable_of(chain("Exp", "Neg", more=beside))
    assert ("a", "b", "d") in spans(found)
    assert found.network.outputs == ("d", "x")


def test_of_a_network_of_which_nothing_can_be_fused_all_is_outside() -> None:
    found = partly_fusable_of(chain("CumSum", "CumSum"))
    assert [one.operator for one in found.outside] == ["a", "b"]
    assert found.network.layers == ()
    with pytest.raises(InputError, match="CumSum 'a': it cannot be fused"):
        fusable_of(chain("CumSum", "CumSum"))


@pytest.mark.parametrize("kind", ["Flatten", "Identity"])
def test_a_view_that_shows_an_input_as_an_output_is_moved(kind: str) -> None:
    """The view is the only operator that writes a view of an input; a layer writes the views of its result."""
    found = partly_fusable_of(
        chain("Exp", more=(Operator("v", kind, ("x",), ("v",)), Operator("u", kind, ("a",), ("u",))))
    )
    assert [one.operator for one in found.outside] == ["v"]
    assert [one.name for one in found.network.layers] == ["a"]
    alone = partly_fusable_of(chain(kind))
    assert ([one.operator for one in alone.outside], alone.network.layers) == (["a"], ())


def test_what_is_outside_moves_each_tensor_once_in_elements_of_the_bits_asked_for() -> None:
    weight, outputs = Tensor.of_shape("w", (3, 3), 8, Role.PARAMETER), ("s", "t")
    tensors = [Tensor.of_shape(name, SHAPE, 32, Role.OUTPUT) for name in outputs]
    operator = Operator("s", "Twins", ("x", "x"), outputs, ("w", "w"))
    graph = Graph("twins", (Tensor.of_shape("x", SHAPE, 8, Role.INPUT), weight, *tensors), (operator,))
    elements = 4 * 6 * 6
    for bits, own, wide in ((4, 4, 4), (None, 8, 32)):
        (moved,) = partly_fusable_of(graph, Precision(bits)).network.moved
        assert moved.name == "s"
        assert moved.operands == (
            (Operand.INPUT, elements * own),
            (Operand.WEIGHT, -(-9 * own // 8) * 8),
            (Operand.OUTPUT, elements * wide),
            (Operand.OUTPUT, elements * wide),
        )


def test_what_reads_no_map_is_outside() -> None:
    """A sum of constants that no reader folds is such an operator."""
    network = Network(8)
    constant = network.add("Add", [], (1, 4, 6, 6), [network.parameter(1, 4, 6, 6), network.parameter(1, 4, 6, 6)])
    network.add("Mul", [network.input(1, 4, 6, 6), constant], (1, 4, 6, 6))
    found = partly_fusable_of(network.graph())
    assert [one.kind for one in found.outside] == ["Add"]
    assert len(found.network.layers) == 1


def test_a_transposed_convolution_by_a_computed_filter_runs_alone() -> None:
    tensors = (
        Tensor.of_shape("x", (1, 2, 4, 4), 8, Role.INPUT),
        Tensor.of_shape("w", (2, 3, 2, 2), 8, Role.INPUT),
        Tensor.of_shape("b", (3,), 8, Role.PARAMETER),
        Tensor.of_shape("y", (1, 3, 8, 8), 8, Role.OUTPUT),
    )
    operator = Operator("up", "ConvTranspose", ("x", "w"), ("y",), ("b",), {"strides": [2, 2]})
    (layer,) = partly_fusable_of(Graph("up", tensors, (operator,))).network.layers
    assert layer.runs_alone
    assert layer.layer.macs == 4 * 4 * 2 * 3 * 2 * 2
