"""Attention decomposed: two products with a softmax between, the same multiply-accumulates, the same neighbours."""

from __future__ import annotations

from onchip.answer.document import Reading
from onchip.answer.schedule import ScheduledStack
from onchip.api.networks import read_network
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision, layers_of, nest_operands
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.rewrite.attention_apart import HEAD_PRODUCTS, AttentionApart


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
