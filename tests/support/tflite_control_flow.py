"""TFLite files with branches, loops and variables, built from their operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from support.tflite_models import TfliteModel, TfliteOperator, TfliteSubgraph, TfliteTensor

SIZE = 6


def floats(name: str, *shape: int) -> TfliteTensor:
    return TfliteTensor(name, shape or (1, SIZE))


def number(name: str, content: int | None = None) -> TfliteTensor:
    return TfliteTensor(name, [], "INT32", None if content is None else np.array(content, np.int32))


def constant(name: str, content: Sequence[float]) -> TfliteTensor:
    array = np.array([content], np.float32)
    return TfliteTensor(name, array.shape, data=array)


def branching() -> TfliteModel:
    """Return y = relu(x) - w if the sum of x is positive, else neg(exp(x))."""
    zero, axes = TfliteTensor("zero", [], data=np.array(0, np.float32)), [0, 1]
    main = TfliteSubgraph(
        [
            floats("x"),
            TfliteTensor("axes", [2], "INT32", np.array(axes, np.int32)),
            TfliteTensor("sum", []),
            zero,
            TfliteTensor("positive", [], "BOOL"),
            floats("chosen"),
            floats("y"),
        ],
        [
            TfliteOperator("SUM", ["x", "axes"], ["sum"], ("ReducerOptions", {"KeepDims": False})),
            TfliteOperator("GREATER", ["sum", "zero"], ["positive"]),
            TfliteOperator(
                "IF", ["positive", "x"], ["chosen"], ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})
            ),
            TfliteOperator("ABS", ["chosen"], ["y"]),
        ],
        ["x"],
        ["y"],
    )
    then = TfliteSubgraph(
        [floats("x"), floats("r"), constant("w", range(SIZE)), floats("z")],
        [TfliteOperator("RELU", ["x"], ["r"]), TfliteOperator("SUB", ["r", "w"], ["z"])],
        ["x"],
        ["z"],
        "then",
    )
    otherwise = TfliteSubgraph(
        [floats("x"), floats("e"), floats("z")],
        [TfliteOperator("EXP", ["x"], ["e"]), TfliteOperator("NEG", ["e"], ["z"])],
        ["x"],
        ["z"],
        "else",
    )
    return TfliteModel([main, then, otherwise])


def looping(limit: int | None, *, size: int = SIZE) -> TfliteModel:
    """Return a loop from i = 0 while i < limit: s = tanh(s w + b), i = i + 1; without a limit it is an input.

    The product is a matrix product with constants of the body.
    """
    state = [floats("s", 1, size), number("i"), number("n")]
    inputs = ["x"] if limit is not None else ["x", "n"]
    main = TfliteSubgraph(
        [floats("x", 1, size), number("zero", 0), number("n", limit), floats("y", 1, size), number("j"), number("m")],
        [
            TfliteOperator(
                "WHILE",
                ["x", "zero", "n"],
                ["y", "j", "m"],
                ("WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2}),
            )
        ],
        inputs,
        ["y"],
    )
    condition = TfliteSubgraph(
        [*state, TfliteTensor("less", [], "BOOL")],
        [TfliteOperator("LESS", ["i", "n"], ["less"])],
        ["s", "i", "n"],
        ["less"],
        "condition",
    )
    weights = np.linspace(-1, 1, size * size, dtype=np.float32).reshape(size, size)
    body = TfliteSubgraph(
        [
            *state,
            TfliteTensor("w", [size, size], data=weights),
            constant("b", [0.5] * size),
            floats("p", 1, size),
            floats("a", 1, size),
            floats("t", 1, size),
            number("one", 1),
            number("next"),
        ],
        [
            TfliteOperator("FULLY_CONNECTED", ["s", "w", ""], ["p"], ("FullyConnectedOptions", {})),
            TfliteOperator("ADD", ["p", "b"], ["a"], ("AddOptions", {})),
            TfliteOperator("TANH", ["a"], ["t"]),
            TfliteOperator("ADD", ["i", "one"], ["next"], ("AddOptions", {})),
        ],
        ["s", "i", "n"],
        ["t", "next", "n"],
        "body",
    )
    return TfliteModel([main, condition, body])


def handle(name: str) -> tuple[TfliteTensor, TfliteOperator]:
    options = ("VarHandleOptions", {"SharedName": name})
    return TfliteTensor(name, [], "RESOURCE"), TfliteOperator("VAR_HANDLE", [], [name], options)


def with_variables() -> TfliteModel:
    """Return y = v + x scale, which is then assigned to v; CALL_ONCE initialises v and scale; scale stays constant."""
    (v, v_handle), (scale, scale_handle) = handle("v"), handle("scale")
    main = TfliteSubgraph(
        [floats("x"), v, scale, floats("before"), floats("factor"), floats("product"), floats("sum"), floats("y")],
        [
            TfliteOperator("CALL_ONCE", [], [], ("CallOnceOptions", {"InitSubgraphIndex": 1})),
            v_handle,
            scale_handle,
            TfliteOperator("READ_VARIABLE", ["v"], ["before"]),
            TfliteOperator("READ_VARIABLE", ["scale"], ["factor"]),
            TfliteOperator("MUL", ["x", "factor"], ["product"], ("MulOptions", {})),
            TfliteOperator("ADD", ["before", "product"], ["sum"], ("AddOptions", {})),
            TfliteOperator("ASSIGN_VARIABLE", ["v", "sum"], []),
            TfliteOperator("TANH", ["sum"], ["y"]),
        ],
        ["x"],
        ["y"],
    )
    (v, v_handle), (scale, scale_handle) = handle("v"), handle("scale")
    first = TfliteSubgraph(
        [v, scale, constant("zeros", [0.25] * SIZE), constant("twos", [2.0] * SIZE)],
        [
            v_handle,
            scale_handle,
            TfliteOperator("ASSIGN_VARIABLE", ["v", "zeros"], []),
            TfliteOperator("ASSIGN_VARIABLE", ["scale", "twos"], []),
        ],
        [],
        [],
        "first",
    )
    return TfliteModel([main, first])
