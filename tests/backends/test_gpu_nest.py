"""Mappings that blocks and threads can run, and the memories to which a kernel copies tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.arch.accelerator import Accelerator
from onchip.backends.nests.gpu_source import CUDA, gpu_kernel
from onchip.errors import InputError
from onchip.ir.layer import Layer
from support.gpu_mappings import LEVELS, ROOMY_GPU


def layer(n: int = 1, k: int = 1, c: int = 1, p: int = 1) -> Layer:
    return replace(Layer(n=n, k=k, c=c, p=p), input_bits=32, weight_bits=32, output_bits=32, partial_bits=32)


def source_of(one: Layer, mapping: LayerMapping, accelerator: Accelerator = ROOMY_GPU) -> str:
    return gpu_kernel(one, mapping, accelerator, CUDA, "nest").source


def test_a_tile_stays_while_loops_lead_to_no_other_element_of_it() -> None:
    """The kernel copies weights once for all rows, although the loop over rows stands above their tile."""
    nest = (Loop("K", 8, "thread"), Loop("C", 4), Loop("N", 5))
    source = source_of(layer(n=5, k=8, c=4), LayerMapping(nest, weight=(Kept("shared", 2),)))
    before, _, after = source.partition("for (int n1")
    assert "shared_weight[shared_weight_at] =" in before
    assert "__syncthreads" not in after


def test_a_tile_that_changes_is_copied_between_two_barriers() -> None:
    nest = (Loop("K", 8, "thread"), Loop("C", 4), Loop("C", 5))
    source = source_of(layer(k=8, c=20), LayerMapping(nest, weight=(Kept("shared", 2),)))
    inside = source.partition("for (int c2")[2]
    assert inside.index("__syncthreads") < inside.index("shared_weight[shared_weight_at] =")
    assert inside.count("__syncthreads") == 2


def test_sums_that_leave_the_registers_are_added_to() -> None:
    nest = (Loop("C", 4), Loop("K", 8), Loop("C", 5))
    whole = source_of(layer(k=8, c=20), LayerMapping(nest, output=(Kept("registers", 2),)))
    parts = source_of(layer(k=8, c=20), LayerMapping(nest))
    assert "sum sums[8]" in whole
    assert "(c2 == 0)" not in whole
    assert "sum sums[1]" in parts
    assert "(c2 == 0) ? sums[0] : output[k1] + sums[0]" in parts


@pytest.mark.parametrize(
    ("nest", "expected"),
    [
        ((Loop("K", 4, "lane"),), "runs along 'lane'"),
        ((Loop("C", 4, "thread"),), "which is added up, runs along 'thread'"),
        ((Loop("K", 2048, "thread"),), "2048 threads"),
    ],
)
def test_what_no_block_of_threads_runs_is_refused(nest: tuple[Loop, ...], expected: str) -> None:
    bounds = {loop.dimension.lower(): loop.size for loop in nest}
    with pytest.raises(InputError) as raised:
        source_of(layer(**bounds), LayerMapping(nest))
    assert expected in str(raised.value)


def test_the_greatest_block_is_not_refused() -> None:
    assert "__launch_bounds__(1024, 1)" in source_of(layer(k=1024), LayerMapping((Loop("K", 1024, "thread"),)))


@pytest.mark.parametrize(("c", "fits"), [(12 * 1024, True), (12 * 1024 + 1, False)])
def test_a_block_declares_at_most_48_kib(c: int, fits: bool) -> None:
    mapping = LayerMapping((Loop("C", c),), input=(Kept("shared", 1),))
    if fits:
        assert f"shared_input[{c}]" in source_of(layer(c=c), mapping)
        return
    with pytest.raises(InputError, match="49156 bytes of shared memory"):
        source_of(layer(c=c), mapping)


def test_registers_without_an_index_are_at_most_4096_products() -> None:
    nest = (Loop("K", 64), Loop("N", 64))
    source_of(layer(k=64, n=64), LayerMapping(nest, output=(Kept("registers", 2),)))
    with pytest.raises(InputError, match="8192 products"):
        source_of(layer(k=64, n=128), LayerMapping((nest[0], Loop("N", 128)), output=(Kept("registers", 2),)))


def test_sums_that_threads_share_are_refused() -> None:
    shared = replace(LEVELS[1], memory=replace(LEVELS[1].memory, holds=LEVELS[0].memory.holds))
    gpu = replace(ROOMY_GPU, levels=(LEVELS[0], shared, LEVELS[2]))
    with pytest.raises(InputError, match="outputs are kept in 'shared'"):
        source_of(layer(k=4), LayerMapping((Loop("K", 4),), output=(Kept("shared", 1),)), gpu)


def test_two_tiles_at_a_time_are_refused() -> None:
    gpu = replace(ROOMY_GPU, levels=(LEVELS[0], replace(LEVELS[1], double_buffered=True), LEVELS[2]))
    with pytest.raises(InputError, match="double buffered"):
        source_of(layer(k=4), LayerMapping((Loop("K", 4),), weight=(Kept("shared", 1),)), gpu)


def test_layers_without_weights_are_refused() -> None:
    with pytest.raises(InputError, match="no weights"):
        source_of(replace(layer(p=4), has_weight=False), LayerMapping((Loop("P", 4),)))


def test_elements_that_are_neither_float32_nor_int8_are_refused() -> None:
    with pytest.raises(InputError, match="both 32"):
        source_of(replace(layer(k=4), input_bits=16), LayerMapping((Loop("K", 4),)))
