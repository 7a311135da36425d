"""An If as the nodes that take its place: its branch where its condition is known, else both.

Then a Where takes the one, or an If of copies where their shapes differ, so that a plan is legal whichever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx
from onnx.helper import make_graph, make_node, make_tensor, make_tensor_type_proto

from onchip.errors import GraphError
from onchip.formats.onnx.flow_attributes import ensure_as_many, graph_of, truth_or_count
from onchip.formats.onnx.model_types import KeptNode
from onchip.formats.onnx.scopes import ScopedNode
from onchip.formats.onnx.unfolding import Unfolding

CONSTANT_CONDITION: Final = "a condition that is constant: --value INPUT=N says the input that decides it"
_FIRST_OPSET_OF_WHERE = 9


def run_if(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    """Visit the branch that is taken, or both; raises GraphError."""
    branches = [graph_of(scoped.node, attribute, name) for attribute in ("else_branch", "then_branch")]
    condition = scoped.inputs[0] if scoped.inputs else ""
    value = unfolding.inference.constants.value(condition)
    if value is None:
        _both_branches(unfolding, scoped, name, branches)
        return
    taken = branches[_truth(value, name)]
    results = unfolding.inline(taken, scoped.names, {}, name)
    ensure_as_many(len(taken.output), len(scoped.node.output), name)
    hand_out(unfolding, results, scoped.outputs, name)


def _both_branches(unfolding: Unfolding, scoped: ScopedNode, name: str, branches: Sequence[onnx.GraphProto]) -> None:
    """Run both; raises GraphError where no tensor holds the result of either."""
    place, inference = f"node {name!r}", unfolding.inference
    if inference.opset < _FIRST_OPSET_OF_WHERE:
        what = f"its condition is not known before it runs, and its opset is {inference.opset}"
        raise GraphError(what, place=place, expected=f"opset {_FIRST_OPSET_OF_WHERE} or a condition that is constant")
    otherwise, then = (_branch_inlined(unfolding, branch, scoped, name) for branch in branches)
    ensure_as_many(len(then), len(scoped.node.output), name)
    ensure_as_many(len(otherwise), len(scoped.node.output), name)
    condition = _scalar(unfolding, scoped.inputs[0], name)
    for one, other, output in zip(then, otherwise, scoped.outputs, strict=True):
        if not output:
            continue
        called = name if output == scoped.outputs[0] else output
        if _are_alike(unfolding, one, other):
            unfolding.add(make_node("Where", [condition, one, other], [output], name=called), called)
        else:
            _larger_of_both(unfolding, called, (condition, one, other), output, name)
    what = f"node {name!r}: its condition is not known before it runs: both branches are planned, and which one counts"
    unfolding.remarks.append(f"{what} is decided when it runs")


def _are_alike(unfolding: Unfolding, one: str, other: str) -> bool:
    """Whether two tensors have one type, which does not follow from values."""
    inference = unfolding.inference
    kinds = [inference.shape_and_element_type(each) for each in (one, other)]
    return kinds[0] == kinds[1] and not inference.bounded.intersection((one, other))


def _larger_of_both(unfolding: Unfolding, called: str, read: tuple[str, str, str], output: str, name: str) -> None:
    """Hand out one of two tensors in a shape that holds either; raises GraphError for other elements or axes."""
    (one, element), (other, other_element) = map(unfolding.inference.shape_and_element_type, read[1:])
    if element != other_element or len(one) != len(other):
        what = f"its condition is not known, and its branches give {output!r} as {one} and {other}"
        expected = f"one type and as many axes in both, or {CONSTANT_CONDITION}"
        raise GraphError(what, place=f"node {name!r}", expected=expected)
    branches = {
        branch: make_graph(
            [make_node("Identity", [each], [f"{each} taken"])], branch, [], [onnx.ValueInfoProto(name=f"{each} taken")]
        )
        for branch, each in zip(("then_branch", "else_branch"), read[1:], strict=True)
    }
    node = make_node("If", read, [output], name=called, **branches)
    largest = make_tensor_type_proto(element, [max(sizes) for sizes in zip(one, other, strict=True)])
    unfolding.add_kept(node, {output: largest}, KeptNode(2, 0, (output,)))
    what = f"node {name!r}: its branches give {output!r} as {list(one)} and {list(other)}: it is planned at the larger"
    unfolding.remarks.append(what)


def _branch_inlined(unfolding: Unfolding, branch: onnx.GraphProto, scoped: ScopedNode, name: str) -> tuple[str, ...]:
    try:
        return unfolding.inline(branch, scoped.names, {}, name)
    except GraphError as error:
        what = f"its condition is not known before it runs, and a branch cannot be planned: {error.place}: {error.what}"
        raise GraphError(what, place=f"node {name!r}", expected=CONSTANT_CONDITION) from None


def _scalar(unfolding: Unfolding, condition: str, name: str) -> str:
    """A condition of one element without axes, so that it broadcasts to any shape."""
    shape, _ = unfolding.inference.shape_and_element_type(condition)
    if shape == ():
        return condition
    target = integers_of(unfolding, f"{name}/no axes", ())
    result = unfolding.names.tensor(f"{name}/condition", name)
    unfolding.add(make_node("Reshape", [condition, target], [result]), result)
    return result


def hand_out(unfolding: Unfolding, results: Sequence[str], outputs: Sequence[str], name: str) -> None:
    """Give results the names that the rest of the network has for them."""
    for result, output in zip(results, outputs, strict=True):
        if output:
            unfolding.inference.ensure_known(result, name)
            unfolding.add(make_node("Identity", [result], [output]), output)


def integers_of(unfolding: Unfolding, name: str, values: Sequence[int]) -> str:
    """Add a constant of these numbers; its name in the network."""
    return unfolding.constant(unfolding.names.tensor(name, name), make_tensor("", 7, [len(values)], values))


def _truth(value: onnx.TensorProto, name: str) -> bool:
    return bool(truth_or_count(value, name))
