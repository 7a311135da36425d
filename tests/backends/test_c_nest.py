"""Loop nests in C, held against other nests and measured mappings."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from host.machine import host_compiler
from host.measuring import measure_mapping
from host.timed_nest import numpy_nest, onnxruntime_nest

from onchip.answer.document import NamedMapping
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.backends.nests.c_loops import c_nest
from onchip.backends.nests.c_source import nest_source
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.search.budget.limits import Run
from oracles.loop_nest import PlainNest, Values
from support.lanes import LANES
from support.nests import random_layer
from support.series import series

# Mappings as C compute the values of the naive nest, for layers and mappings of every kind, without a warning


WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
COMPILERS = tuple(found for name in ("gcc", "clang") if (found := shutil.which(name)))


def compiled(layer: Layer, mapping: LayerMapping, folder: Path, compiler: str, optimised: str = "-O1") -> ctypes.CDLL:
    """Return a library with the function `nest`; raises CalledProcessError for a warning."""
    count = len(list(folder.iterdir()))
    source, library = folder / f"nest{count}.c", folder / f"nest{count}.so"
    source.write_text(nest_source(layer, mapping, "nest"))
    options = (*WARNINGS, "-std=gnu11", optimised, "-march=native", "-shared", "-fPIC")
    subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(library))


def run_compiled(
    library: ctypes.CDLL, layer: Layer, source: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the output [n, g, k, p, q] for an input [n, g, c, height, width] and weights [g, k, c, r, s].

    The nest runs twice.
    """
    element, total = (np.int8, np.int32) if layer.input_bits == 8 else (np.float32, np.float32)
    inputs = np.ascontiguousarray(source.transpose(0, 3, 4, 1, 2).astype(element))
    weights = np.ascontiguousarray(weight.transpose(3, 4, 2, 0, 1).astype(element))
    guarded = np.full(layer.n * layer.p * layer.q * layer.g * layer.k + 2, -77, total)
    function = library.nest
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    for _ in range(2):  # tiles left over from the first run must not affect the second
        function(inputs.ctypes.data, weights.ctypes.data, guarded[1:].ctypes.data)
    assert guarded[0] == guarded[-1] == -77
    output = guarded[1:-1].reshape(layer.n, layer.p, layer.q, layer.g, layer.k)
    return output.transpose(0, 3, 4, 1, 2).astype(np.float64)


CASES = 6


def _bits(layer: Layer, bits: int) -> Layer:
    return replace(layer, input_bits=bits, weight_bits=bits, output_bits=bits, partial_bits=32, has_weight=True)


def _layer(random: Random, bits: int) -> Layer:
    """Return a random layer: half of them are products or depthwise, with more elements along dimensions for lanes."""
    layer = _bits(random_layer(random, 2000), bits)
    match random.randrange(4):
        case 0:
            return _bits(Layer(n=random.randint(1, 9), k=random.randint(1, 40), c=random.randint(1, 20)), bits)
        case 1:
            return replace(layer, n=1, k=1, c=1, g=random.randint(1, 20))
        case 2:
            return replace(layer, n=1, k=random.randint(1, 20))
    return layer


def _mapping(random: Random, layer: Layer, lanes: int) -> LayerMapping:
    """Return a random mapping: up to three temporal loops per dimension, some beyond its bound; mostly one in lanes."""
    nest = []
    along = random.choice(("K", "K", "G", "P", None))
    for name, bound in layer.bounds.items():
        sizes = [random.choice((1, 2, 3, 4, 7)) for _ in range(random.randint(0, 2))]
        if name == along and bound > 1 and lanes > 1:
            nest.append(Loop(name, random.choice((lanes, min(lanes, bound))), "lane"))
            bound = -(-bound // nest[-1].size)
        for size in sizes:
            nest.append(Loop(name, min(size, bound)))
            bound = -(-bound // nest[-1].size)
        nest.append(Loop(name, bound))
    random.shuffle(nest)
    kept = []
    for names in (("near", "far"), ("near", "far"), ("sums", "near", "far")):
        cuts = sorted(random.randint(0, len(nest)) for _ in names)
        kept.append(tuple(Kept(one, cut) for one, cut in zip(names, cuts, strict=True) if random.random() < 0.8))
    return LayerMapping(tuple(nest), *kept, ragged=LOOPS if random.random() < 0.7 else ())


def _values(layer: Layer, seed: int) -> tuple[Values, Values]:
    random = np.random.default_rng(seed)
    shapes = (layer.n, layer.g, layer.c, *layer.input_pixels), (layer.g, layer.k, layer.c, layer.r, layer.s)
    source, weight = (random.integers(-128, 128, shape).astype(np.float64) for shape in shapes)
    return source, weight


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("lanes", series([1, 6, 4, 16, 32], 2))
def test_compiled_mappings_give_the_sums_of_the_naive_nest(
    tmp_path: Path, compiler: str, bits: int, lanes: int
) -> None:
    for seed in range(CASES):
        random = Random(f"{seed} {lanes} {bits}")
        layer = _layer(random, bits)
        mapping = _mapping(random, layer, lanes)
        library = compiled(layer, mapping, tmp_path, compiler)
        source, weight = _values(mapping.layer(layer), seed)
        made = run_compiled(library, mapping.layer(layer), source, weight)
        expected = PlainNest().run(mapping.layer(layer), source, weight)
        assert np.array_equal(made, expected), (seed, layer, str(mapping))


def test_layers_without_weights_are_refused() -> None:
    with pytest.raises(InputError, match="no weights"):
        nest_source(replace(Layer(p=4), has_weight=False), LayerMapping((Loop("P", 4),)), "pool")


def test_elements_that_are_neither_float32_nor_int8_are_refused() -> None:
    with pytest.raises(InputError, match="both 32"):
        nest_source(_bits(Layer(k=4), 16), LayerMapping((Loop("K", 4),)), "halves")


def _product(*around: Loop) -> LayerMapping:
    """Return a product with four vectors of sums in registers; the tile of weights spans four loops with all of C."""
    nest = (Loop("K", 16, "lane"), Loop("N", 4), Loop("C", 64), *around)
    return LayerMapping(nest, weight=(Kept("near", 3),), output=(Kept("sums", 2),))


def test_a_tile_that_is_read_often_is_copied_and_one_that_is_read_once_is_not() -> None:
    layer = _bits(Layer(n=32, k=32, c=64), 32)
    often, once = _product(Loop("N", 8), Loop("K", 2)), _product(Loop("K", 2), Loop("N", 8))
    assert c_nest(layer, often).packed == {"weight": 2}
    assert c_nest(layer, once).packed == {}


def test_weights_beside_a_tile_are_copied_with_it_while_these_are_few() -> None:
    for columns, place in ((2, 2), (32, 2), (64, 1)):
        layer = _bits(Layer(n=32, k=16 * columns, c=64), 32)
        assert c_nest(layer, _product(Loop("N", 8), Loop("K", columns))).packed == {"weight": place}


def _rows_by_columns(c: int, rows: int) -> tuple[Layer, LayerMapping]:
    """Return a product of some rows by 64 columns, whose weight tiles are copied: 4 rows and 2 vectors in registers."""
    layer = _bits(Layer(n=rows, k=64, c=2 * c), 32)
    nest = (
        Loop("K", 8, "lane"),
        Loop("K", 2),
        Loop("N", 4),
        Loop("C", c),
        Loop("K", 2),
        Loop("N", -(-rows // 4)),
        Loop("C", 2),
        Loop("K", 2),
    )
    ragged = ("N",) if rows % 4 else ()
    return layer, LayerMapping(nest, weight=(Kept("near", 5),), output=(Kept("sums", 3),), ragged=ragged)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("c", "rows"), [(32, 24), (48, 22), (20, 24), (13, 24)])
def test_what_is_copied_in_another_order_changes_no_sum(tmp_path: Path, c: int, rows: int, compiler: str) -> None:
    layer, mapping = _rows_by_columns(c, rows)
    source, weight = _values(layer, c)
    made = run_compiled(compiled(layer, mapping, tmp_path, compiler), layer, source, weight)
    assert np.array_equal(made, PlainNest().run(layer, source, weight))


def test_weights_are_read_once_for_all_rows_of_a_tile() -> None:
    text = nest_source(*_rows_by_columns(32, 24), "nest")
    tile = text[text.index("void tile(") : text.index("void nest(")]
    assert tile.count("element_vector(") == 1
    assert "sums[n0][k0] += weights[k0] * " in tile
    assert "const volatile vector *" in text


def test_weights_are_copied_as_they_lie() -> None:
    text = nest_source(*_rows_by_columns(32, 24), "nest")
    copy = text[text.index("/* The weights of this tile") :]
    assert copy.index("long c1 ") < copy.index("long k1 ") < copy.index("long k0 ") < copy.index("copy_vector(")


def test_of_tiles_that_pay_the_one_that_is_copied_least_often_and_then_the_smallest_is_copied() -> None:
    layer = _bits(Layer(n=64, k=1024, c=128), 32)
    nest = (
        *(Loop("K", 16, "lane"), Loop("N", 4), Loop("C", 64), Loop("N", 2), Loop("C", 2)),
        *(Loop("N", 8), Loop("K", 64)),
    )
    for kept, place in (((4,), 1), ((4, 6), 3), ((4, 6, 7), 3)):
        weight = tuple(Kept(name, loops) for name, loops in zip(("near", "far", "farther"), kept, strict=False))
        assert c_nest(layer, LayerMapping(nest, weight=weight, output=(Kept("sums", 2),))).packed["weight"] == place


def test_sums_beyond_the_registers_stay_loops() -> None:
    layer = _bits(Layer(n=128, k=16, c=8), 32)
    mapping = LayerMapping((Loop("K", 16, "lane"), Loop("N", 128), Loop("C", 8)), output=(Kept("sums", 2),))
    assert c_nest(layer, mapping).tile["N"] == 1
    assert "vector sums[1]" in nest_source(layer, mapping, "nest")


def test_a_loop_that_ends_within_a_tile_calls_a_shorter_one() -> None:
    layer = _bits(Layer(n=10, k=16, c=8), 32)
    nest = (Loop("K", 16, "lane"), Loop("N", 4), Loop("C", 8), Loop("N", 3))
    source = nest_source(layer, LayerMapping(nest, output=(Kept("sums", 2),), ragged=("N",)), "nest")
    assert "tile(input_n1, weight, output_n1, 4)" in source
    assert "tile(input_n1, weight, output_n1, 2)" in source


def _sums_of_int8(c: int, steps: int) -> tuple[Layer, LayerMapping]:
    """Return a product with copied weights and inputs; `steps` terms are added before sums leave the registers."""
    layer = _bits(Layer(n=32, k=128, c=c), 8)
    nest = (
        Loop("K", 16, "lane"),
        Loop("N", 4),
        Loop("C", steps),
        Loop("N", 8),
        Loop("K", 8),
        Loop("C", -(-c // steps)),
    )
    return layer, LayerMapping(nest, (Kept("near", 5),), (Kept("near", 5),), (Kept("sums", 2),), ragged=("C",))


@pytest.mark.parametrize(("c", "steps", "in_floats"), [(1024, 1024, True), (2048, 1024, True), (1025, 1025, False)])
def test_the_largest_sums_of_int8_are_exact(c: int, steps: int, in_floats: bool, tmp_path: Path) -> None:
    """A float holds the sum of this many largest products exactly; one more product is added in integers."""
    layer, mapping = _sums_of_int8(c, steps)
    assert c_nest(layer, mapping).adds_in_floats == in_floats
    source = np.full((layer.n, 1, c, 1, 1), -128.0)
    weight = np.full((1, layer.k, c, 1, 1), -128.0)
    for odd in (0.0, 1.0):  # an odd sum next to 2^24 is the first that a float cannot hold
        weight[:, :, -1] = odd - 128
        source[:, :, -1] = odd - 128
        made = run_compiled(compiled(layer, mapping, tmp_path, COMPILERS[0]), layer, source, weight)
        assert np.array_equal(made, np.full_like(made, (c - 1) * 2**14 + (odd - 128) ** 2))


def test_long_sums_of_int8_leave_the_registers_where_a_float_holds_no_more() -> None:
    layer = _bits(Layer(n=32, k=128, c=2048), 8)
    nest = (Loop("K", 16, "lane"), Loop("N", 4), Loop("C", 256), Loop("C", 8), Loop("N", 8), Loop("K", 8))
    kept = (Kept("near", 6),)
    found = c_nest(layer, LayerMapping(nest, kept, kept, (Kept("sums", 2),)))
    assert [loop.size for loop in found.steps] == [256]
    assert found.adds_in_floats


def test_few_terms_of_int8_are_not_added_up_apart() -> None:
    layer = _bits(Layer(n=32, k=128, c=2048), 8)
    nest = (Loop("K", 16, "lane"), Loop("N", 4), Loop("C", 2), Loop("C", 1024), Loop("N", 8), Loop("K", 8))
    found = c_nest(layer, LayerMapping(nest, output=(Kept("sums", 2),)))
    assert [loop.size for loop in found.steps] == [2, 1024]


# Libraries that are timed against a compiled nest compute the same values


PRODUCT: Final = Layer(n=5, k=6, c=7)
CONVOLUTIONS: Final = (
    Layer(n=2, k=4, c=3, p=5, q=4, r=3, s=2, stride=(2, 1)),
    Layer(k=2, c=1, g=3, p=4, q=4, r=3, s=3, padding=(1, 1, 1, 1)),
    Layer(k=3, c=2, p=3, q=3, r=2, s=2, dilation=(2, 3)),
)


def with_bits(layer: Layer, is_integer: bool) -> Layer:
    bits = 8 if is_integer else 32
    return replace(layer, input_bits=bits, weight_bits=bits)


def operands(layer: Layer, is_integer: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return integers so small that no sum of two products saturates in 16 bits."""
    random = np.random.default_rng(0)
    shapes = (layer.n, *layer.input_pixels, layer.g, layer.c), (layer.r, layer.s, layer.c, layer.g, layer.k)
    kind = np.int8 if is_integer else np.float32
    source, weight = (random.integers(-16, 16, shape).astype(kind) for shape in shapes)
    return source, weight


@pytest.mark.parametrize("layer", [PRODUCT, *CONVOLUTIONS], ids=str)
@pytest.mark.parametrize("is_integer", [False, True])
def test_onnxruntime_computes_what_numpy_does(layer: Layer, is_integer: bool) -> None:
    pytest.importorskip("onnxruntime")
    with_its_bits, given = with_bits(layer, is_integer), operands(layer, is_integer)
    peer = onnxruntime_nest(with_its_bits, *given)
    if layer is PRODUCT and not is_integer:
        assert peer is None
        return
    assert peer is not None
    ours = numpy_nest(with_its_bits, *given)()
    assert ours.dtype == (np.int32 if is_integer else np.float32)
    assert ours.shape == (layer.n, layer.p, layer.q, layer.g, layer.k)
    assert np.allclose(peer(), ours)


def test_without_onnxruntime_numpy_is_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    layer = with_bits(CONVOLUTIONS[0], is_integer=True)
    assert onnxruntime_nest(layer, *operands(CONVOLUTIONS[0], is_integer=True)) is None


# Mappings that are compiled, run and timed compute what their peers do


@pytest.mark.parametrize(
    "text", ["gemm:m24n40k30", "conv:n1k16c8p6q6r3s3:stride2:pad1", "conv:k24c24p5q5r3s3:groups24"]
)
@pytest.mark.parametrize("bits", series([8, 32], 1))
def test_a_mapping_is_run_and_computes_what_its_peer_does(text: str, bits: int) -> None:
    machine = accelerator_from_yaml(LANES, "lanes.yaml")
    layer = replace(Layer.of_text(text), input_bits=bits, weight_bits=bits, partial_bits=32)
    mapping = solve_exactly(LayerProblem(layer, machine), MappingObjective.EDP, Run()).answer
    assert mapping is not None
    found = measure_mapping(NamedMapping((text,), layer, mapping), machine, host_compiler(), seconds=0)
    assert found.is_right
    assert min(found.gflops, found.peer_gflops) > 0
    assert found.measured_cycles == pytest.approx(found.seconds * 1e9)
    assert found.predicted_cycles == found.model_cycles > 0
