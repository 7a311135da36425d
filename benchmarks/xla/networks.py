"""Programs of JAX whose buffer assignment XLA dumps, to be checked and packed anew.

    python -m venv jax && jax/bin/pip install 'jax[cpu]'
    XLA_FLAGS='--xla_dump_to=dump --xla_dump_hlo_as_text' jax/bin/python benchmarks/xla/networks.py
    for file in dump/*buffer-assignment.txt; do onchip check $file ${file%-buffer-assignment.txt}-live-range.txt; done

A residual network, a transformer, a perceptron, a loop and branches that need not wait for each other; the gradients of
four of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

Array: TypeAlias = Any
"""An array of JAX, which is no dependency of onchip."""
jax, numpy = import_module("jax"), import_module("jax.numpy")
STAGES: Final = ((16, 2), (32, 2), (64, 2))
"""Channels and blocks of each stage of the residual network."""


def convolved(x: Array, weight: Array, stride: int = 1) -> Array:
    """A convolution with channels last."""
    axes = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), "SAME", dimension_numbers=axes)


def weights(*shapes: tuple[int, ...]) -> list[Array]:
    """Constant weights of these shapes: only sizes matter."""
    return [numpy.ones(shape) * 0.01 for shape in shapes]


def residual_weights() -> list[Array]:
    """The residual network's weights in the order in which it takes them."""
    shapes: list[tuple[int, ...]] = [(3, 3, 3, 16)]
    inside = 16
    for stage, (channels, blocks) in enumerate(STAGES):
        for block in range(blocks):
            shapes += [(3, 3, inside, channels), (3, 3, channels, channels)]
            if stage and not block:
                shapes.append((1, 1, inside, channels))
            inside = channels
    return weights(*shapes, (64, 10))


def residual(x: Array, stated: Sequence[Array]) -> Array:
    """Six residual blocks in three stages."""
    left = iter(stated)
    x = jax.nn.relu(convolved(x, next(left), 2))
    for stage, (_, blocks) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = convolved(jax.nn.relu(convolved(x, next(left), stride)), next(left))
            x = jax.nn.relu((convolved(x, next(left), 2) if stride == 2 else x) + y)
    return x.mean((1, 2)) @ next(left)


def normalised(x: Array) -> Array:
    """Rows of mean 0 and variance 1."""
    return (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + 1e-5)


def transformer(x: Array, layers: Sequence[Sequence[Array]]) -> Array:
    """Layers of attention with four heads, and of two products."""
    for query, key, value, joined, wide, narrow in layers:
        heads = [(normalised(x) @ one).reshape(64, 4, 32).transpose(1, 0, 2) for one in (query, key, value)]
        shares = jax.nn.softmax(heads[0] @ heads[1].transpose(0, 2, 1) / 5.6)
        x = x + (shares @ heads[2]).transpose(1, 0, 2).reshape(64, 128) @ joined
        x = x + jax.nn.gelu(normalised(x) @ wide) @ narrow
    return x


def perceptron(layers: Sequence[Array], x: Array) -> Array:
    """The sum of squares behind four layers."""
    for layer in layers:
        x = numpy.tanh(x @ layer)
    return (x**2).sum()


def loop(rows: Array, weight: Array) -> Array:
    """A recurrence over twenty steps."""

    def step(state: Array, row: Array) -> tuple[Array, Array]:
        state = numpy.tanh(state @ weight + row)
        return state, state * 2

    return jax.lax.scan(step, numpy.zeros((8, 64)), rows)


def branches(x: Array, layers: Sequence[Array]) -> Array:
    """A sum of branches of several widths."""
    return sum(numpy.sin(numpy.cumsum(x @ layer, 0)) @ layer.T for layer in layers)


def main() -> None:
    """Compile and run each program once, under its own name."""
    images, rows, steps = numpy.ones((1, 64, 64, 3)), numpy.ones((64, 128)), numpy.ones((20, 8, 64))
    layers = [weights(*[(128, 128)] * 4, (128, 512), (512, 128)) for _ in range(2)]
    widths = weights((64, 128), (128, 256), (256, 256), (256, 64))
    programs: dict[str, tuple[Callable[..., Array], tuple[Array, ...]]] = {
        "residual": (residual, (images, residual_weights())),
        "residual_gradient": (jax.grad(lambda one: residual(images, one).sum()), (residual_weights(),)),
        "transformer": (transformer, (rows, layers)),
        "transformer_gradient": (jax.grad(lambda one: transformer(rows, one).sum()), (layers,)),
        "perceptron_gradient": (jax.grad(perceptron), (widths, numpy.ones((32, 64)))),
        "loop": (loop, (steps, numpy.ones((64, 64)))),
        "loop_gradient": (jax.grad(lambda one: loop(steps, one)[1].sum()), (numpy.ones((64, 64)),)),
        "branches": (branches, (numpy.ones((64, 256)), weights(*((256, one) for one in (64, 200, 333, 128, 512))))),
    }
    for name, (program, operands) in programs.items():

        def named(*given: Array, program: Callable[..., Array] = program) -> Array:
            return program(*given)

        named.__name__ = name
        jax.block_until_ready(jax.jit(named)(*operands))


if __name__ == "__main__":
    main()
