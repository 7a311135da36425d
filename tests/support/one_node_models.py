"""Random ONNX models of one node, by operator kind, with the arrays to run them on.

ONNX has tests for the kinds that are not drawn here. Attributes and shapes are mostly legal. A model that onnxruntime
refuses gives no information about shapes.
"""

from __future__ import annotations

from random import Random

from onnx.defs import get_all_schemas_with_history

from support.one_node import elements, movement, products, signals, windows  # noqa: F401 (they fill the table)
from support.one_node.node import NEWEST, OLDEST, RULES, OneNode


def one_node(kind: str, random: Random) -> OneNode:
    """Draw a node of a kind, of any opset that has it."""
    domain, _, plain = kind.rpartition("::")
    since = _FIRST.get((domain, plain), OLDEST) if not domain else OLDEST
    node = OneNode(plain, random.randint(min(max(OLDEST, since), NEWEST), NEWEST), random, domain)
    RULES[kind](node)
    return node


def _first_versions() -> dict[tuple[str, str], int]:
    first: dict[tuple[str, str], int] = {}
    for schema in get_all_schemas_with_history():
        key = schema.domain, schema.name
        first[key] = min(first.get(key, schema.since_version), schema.since_version)
    return first


_FIRST = _first_versions()

__all__ = ["NEWEST", "OLDEST", "RULES", "OneNode", "one_node"]
