"""Products, recurrences and attention."""

from __future__ import annotations

import numpy as np

from support.one_node.node import OneNode, broadcast_pair, draws, part_of

# Products


@draws("MatMul MatMulInteger QLinearMatMul com.microsoft::MatMulIntegerToFloat com.microsoft::DynamicQuantizeMatMul")
def product(node: OneNode) -> None:
    inner = node.integer(1, 5)
    batch, other = broadcast_pair(node, 2)
    first, second = [*batch, node.integer(1, 5), inner], [*other, inner, node.integer(1, 5)]
    if node.chance(0.2):
        first = [inner]
    if node.chance(0.2):
        second = [inner]
    if node.kind == "QLinearMatMul":
        for shape in (first, second):
            node.feed(shape, np.uint8)
            node.state(0.5, np.float32)
            node.state(3, np.uint8)
        node.state(0.5, np.float32)
        node.state(3, np.uint8)
        return
    narrow = node.kind != "MatMul"
    node.feed(first, np.uint8 if narrow and node.kind != "DynamicQuantizeMatMul" else np.float32)
    node.weight(second, np.uint8 if narrow else np.float32)
    if node.kind == "MatMulIntegerToFloat":
        node.state(0.5, np.float32)
    if node.kind in ("MatMulIntegerToFloat", "DynamicQuantizeMatMul"):
        node.state(0.5, np.float32)


@draws("Gemm com.microsoft::FusedGemm")
def gemm(node: OneNode) -> None:
    rows, inner, columns = node.integers(3, 1, 5)
    if node.domain:
        node.set(activation="Relu")
    node.maybe(transA=node.integer(0, 1), transB=node.integer(0, 1), alpha=0.5)
    node.feed([inner, rows] if node.attributes.get("transA") else [rows, inner])
    node.weight([columns, inner] if node.attributes.get("transB") else [inner, columns])
    if node.opset < 11 or node.chance():
        node.weight(part_of(node, [rows, columns]))


@draws("Einsum")
def einsum(node: OneNode) -> None:
    letters = node.random.sample("abcijkXY", node.integer(1, 5))
    sizes = {letter: node.integer(1, 5) for letter in letters}
    terms = []
    dots = (
        node.integers(node.integer(0, 2), 2, 3) if node.chance(0.3) else None
    )  # of one rank: others crash onnxruntime
    for _ in range(node.integer(1, 3)):
        term = [node.random.choice(letters) for _ in range(node.integer(1, 4))]
        if node.chance(0.8):
            term = list(dict.fromkeys(term))
        shape = [sizes[letter] for letter in term]
        # occasionally an operand is broadcast along a letter
        shape = [1 if node.chance(0.1) and term.count(letter) == 1 else size for letter, size in zip(term, shape)]  # noqa: B905
        text = "".join(term)
        if dots is not None:
            at = node.integer(0, len(term))
            extra = [1 if node.chance(0.2) else size for size in dots]
            text, shape = text[:at] + "..." + text[at:], shape[:at] + extra + shape[at:]
        terms.append(text)
        node.feed(shape)
    equation = ", ".join(terms) if node.chance(0.2) else ",".join(terms)
    if node.chance(0.75):
        used = sorted({letter for term in terms for letter in term if letter != "."})
        kept = node.random.sample(used, node.integer(0, len(used)))
        right = "".join(kept)
        if any("..." in term for term in terms):
            at = node.integer(0, len(right))
            right = right[:at] + "..." + right[at:]
        equation += node.one_of("->", " -> ") + right
    node.set(equation=equation)


# Recurrences and attention
