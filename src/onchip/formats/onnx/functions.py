"""A model's local functions: how large they make it is known before they are inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import onnx
from onnx.inliner import inline_local_functions

from onchip.errors import GraphError
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS

GREATEST_NODES: Final = 10**6
GREATEST_DEPTH: Final = 200

_Key: TypeAlias = tuple[str, str, str]
"""Domain, name and overload of a function."""


def without_local_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its functions inlined; raises GraphError where they cannot be, or make it too large."""
    if not model.functions:
        return model
    _check_size(model)
    try:
        return inline_local_functions(model)
    except Exception as error:  # the inliner raises whatever its C++ side does
        raise GraphError(f"its local functions cannot be inlined: {error}", expected="valid functions") from None


def _check_size(model: onnx.ModelProto) -> None:
    """Raise GraphError unless the functions can be inlined, and leave a network of a size that can be planned."""
    bodies = {(_domain(one.domain), one.name, one.overload): one for one in model.functions}
    calls = {key: Counter(_key(node) for node in _nodes(body.node)) for key, body in bodies.items()}
    waiting = {key: {one for one in counts if one in calls} for key, counts in calls.items()}
    callers: dict[_Key, list[_Key]] = {key: [] for key in calls}
    for key, called in waiting.items():
        for one in called:
            callers[one].append(key)
    nodes, depth = dict[_Key, int](), dict[_Key, int]()
    ready = [key for key, called in waiting.items() if not called]
    while ready:
        key = ready.pop()
        nodes[key] = sum(count * nodes.get(one, 1) for one, count in calls[key].items())
        depth[key] = 1 + max((depth.get(one, 0) for one in calls[key]), default=0)
        for caller in callers[key]:
            waiting[caller].discard(key)
            if not waiting[caller]:
                ready.append(caller)
    if len(nodes) < len(calls):
        name = next(key[1] for key in calls if key not in nodes)
        raise GraphError("it calls itself", place=f"function {name!r}", expected="functions that end")
    total = sum(nodes.get(_key(node), 1) for node in _nodes(model.graph.node))
    if total > GREATEST_NODES:
        what = f"with its local functions inlined it has {total if total < 10**18 else 'over 10^18'} nodes"
        raise GraphError(what, expected=f"at most {GREATEST_NODES}")
    if max(depth.values()) > GREATEST_DEPTH:
        what = f"its local functions call each other {max(depth.values())} deep"
        raise GraphError(what, expected=f"at most {GREATEST_DEPTH}")


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Those of graphs within attributes too, which protobuf lets be a hundred deep."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def _key(node: onnx.NodeProto) -> _Key:
    return _domain(node.domain), node.op_type, node.overload


def _domain(name: str) -> str:
    return "" if name in DEFAULT_DOMAINS else name
