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


@draws("RNN GRU LSTM")
def recurrence(node: OneNode) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[node.kind]
    length, batch, width, hidden = node.integers(4, 1, 5)
    direction = node.one_of("forward", "reverse", "bidirectional")
    directions = 2 if direction == "bidirectional" else 1
    layout = node.integer(0, 1) if node.opset >= 14 and node.chance(0.3) else 0
    node.feed([batch, length, width] if layout else [length, batch, width])
    node.weight([directions, gates * hidden, width])
    node.weight([directions, gates * hidden, hidden])
    node.set(hidden_size=hidden, direction=direction, layout=layout or None)
    node.outputs = node.integer(1, 3 if node.kind == "LSTM" else 2)


@draws("Attention")
def attention(node: OneNode) -> None:
    batch, queries, keys, width, values, shared = node.integers(6, 1, 4)
    heads = shared * node.integer(1, 2)
    if node.chance():
        node.feed([batch, heads, queries, width])
        node.feed([batch, shared, keys, width])
        node.feed([batch, shared, keys, values])
    else:
        node.feed([batch, queries, heads * width])
        node.feed([batch, keys, shared * width])
        node.feed([batch, keys, shared * values])
        node.set(q_num_heads=heads, kv_num_heads=shared)
    if node.chance(0.3):
        past = node.integer(1, 3)
        node.leave_out()
        node.feed([batch, shared, past, width])
        node.feed([batch, shared, past, values])
        node.outputs = 3


@draws("RotaryEmbedding")
def rotary(node: OneNode) -> None:
    batch, heads, length, half = node.integers(4, 1, 4)
    if node.chance():
        node.feed([batch, heads, length, 2 * half])
    else:
        node.feed([batch, length, heads * 2 * half])
        node.set(num_heads=heads)
    node.weight([8, half])
    node.weight([8, half])
    node.take(np.zeros([batch, length], np.int64), constant=False)


@draws("TensorScatter")
def cache_update(node: OneNode) -> None:
    batch, length = node.integer(1, 2), node.integer(3, 6)
    node.feed([batch, 2, length, 3])
    node.feed([batch, 2, node.integer(1, 3), 3])
    node.take(np.zeros(batch, np.int64), constant=False)
