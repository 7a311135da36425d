"""TFLite models in the tiles of a plan run in TFLite Micro, with equal outputs, in the arena that was promised."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import OperatorTiles, TilesOption
from onchip.answer.problem import Objective
from onchip.api.networks import network_to_plan
from onchip.api.plan import Request
from onchip.api.target import Target
from onchip.backends.tflm.export_arena import ArenaExport, export_arena
from onchip.backends.tflm.tiled_model import PaddedWindow
from onchip.errors import InputError
from onchip.ops.entries import geometry_of
from onchip.search.budget.limits import Limits
from support.c_projects import planned
from support.micro_models import Maps, random_maps
from support.micro_runtime import IS_INSTALLED, MISSING, run_on_micro
from support.series import series

needs_micro = pytest.mark.skipif(not IS_INSTALLED, reason=MISSING)
LIMITS = Limits(time_limit_seconds=5)


def with_arena(network: Path, request: Request) -> ArenaExport:
    """Export a plan, run the model, and return the export; outputs and the arena are asserted."""
    before = run_on_micro(network.read_bytes())
    _, export = export_arena(planned(network, request), str(network), network.with_suffix(".tiles.tflite"))
    assert export is not None
    after = run_on_micro(network.with_suffix(".tiles.tflite").read_bytes())
    assert after.has_outputs_of(before)
    assert after.head_bytes == export.arena_bytes
    return export


@needs_micro
@pytest.mark.parametrize(("seed", "sram"), series([(7, 17_728), (3, 8_048), (10, 19_632), (11, 9_664), (4, 9_888)], 2))
def test_a_plan_in_tiles_runs_with_equal_outputs(seed: int, sram: int, tmp_path: Path) -> None:
    model = random_maps(Random(seed), 48).write(tmp_path / "model.tflite")
    target = Target(sram=sram, alignment_bytes=16)
    request = Request(str(model), Reading(), target, Objective.TRAFFIC, tiles=TilesOption.AUTO, limits=LIMITS)
    export = with_arena(model, request)
    assert "the plan's arena is" in export.changes[0]


@needs_micro
def test_tiles_of_large_maps_make_the_arena_smaller(tmp_path: Path) -> None:
    maps = Maps(Random(1), 32, channels=4)
    maps.convolution(64, 1)
    maps.depthwise(2)
    maps.convolution(4, 1)
    model = maps.classified().write(tmp_path / "model.tflite")
    target = Target(sram=28_000, alignment_bytes=16)
    request = Request(str(model), Reading(), target, Objective.TRAFFIC, tiles=TilesOption.AUTO, limits=LIMITS)
    assert with_arena(model, request).arena_bytes < run_on_micro(model.read_bytes()).head_bytes * 0.75


@needs_micro
@pytest.mark.parametrize("axis", [2, 3])
@pytest.mark.parametrize("ends", [(1, -1), (3, 5), (2, 3, 4, 5)])
def test_every_operator_runs_in_tiles_of_rows_and_columns(axis: int, ends: tuple[int, ...], tmp_path: Path) -> None:
    maps = Maps(Random(5), 20, channels=4)
    maps.convolution(8, 3, 2)
    maps.residual()
    maps.pool("MAX_POOL_2D")
    maps.padded_depthwise(1)
    maps.add("RELU6", [maps.last], maps.shape)
    maps.dense()
    maps.depthwise(2)
    model = maps.classified().write(tmp_path / "model.tflite")
    graph = network_to_plan(str(model), Reading())
    tiles = {}
    for operator in graph.operators:
        geometry = geometry_of(operator, graph, is_model=True)
        size = geometry.axes[axis].size if geometry is not None and len(geometry.axes) > axis else 0
        own = tuple(sorted({end % size for end in ends if -size < end < size} - {0})) if size else ()
        if own:
            tiles[operator.name] = OperatorTiles(axis, (*own, size))
    assert len(tiles) > 6
    with_arena(model, Request(str(model), Reading(tiles=tiles), Target(sram=2**20, alignment_bytes=16)))


@pytest.mark.parametrize("is_same", [True, False])
def test_outputs_of_a_part_read_what_they_read_in_the_whole(is_same: bool) -> None:
    found = 0
    for kernel, stride, size, low, high, before, behind in product(
        (1, 2, 3, 5), (1, 2), (7, 8), range(4), range(4, 9), range(3), range(3)
    ):
        window = PaddedWindow(range(kernel), stride, is_same=is_same)
        pad, made = window.before(size), window.outputs(size)
        whole = list(range(size))
        part = [*["garbage"] * before, *whole[low:high], *["garbage"] * behind]
        own = window.before(len(part))
        for start, stop in product(range(made), range(1, made + 1)):
            if start >= stop or high > size:
                continue
            place = window.fits(before, low, high, behind, (start, stop), pad, size)
            if place is None:
                continue
            found += 1
            for at in range(stop - start):
                first, last = (start + at) * stride - pad, (place + at) * stride - own
                expected = [whole[one] if 0 <= one < size else "zero" for one in range(first, first + kernel)]
                assert [part[one] if 0 <= one < len(part) else "zero" for one in range(last, last + kernel)] == expected
    assert found > 100


@needs_micro
def test_convolutions_along_channels_have_weights_of_their_own(tmp_path: Path) -> None:
    maps = Maps(Random(5), 12)
    maps.convolution(8, 3)
    maps.depthwise(2)
    model = maps.classified().write(tmp_path / "model.tflite")
    tiles = {"t0": OperatorTiles(1, (4, 8)), "t1": OperatorTiles(1, (4, 8))}
    with_arena(model, Request(str(model), Reading(tiles=tiles), Target(sram=2**20, alignment_bytes=16)))


@needs_micro
def test_concatenations_along_their_own_axis_are_refused(tmp_path: Path) -> None:
    maps = Maps(Random(5), 12)
    maps.convolution(8, 3)
    maps.dense()
    model = maps.classified().write(tmp_path / "model.tflite")
    tiles = {"t2": OperatorTiles(1, (4, 12))}
    plan = planned(model, Request(str(model), Reading(tiles=tiles), Target(sram=2**20, alignment_bytes=16)))
    with pytest.raises(InputError, match="tiles along rows or columns"):
        export_arena(plan, str(model), tmp_path / "tiles.tflite")
    assert not (tmp_path / "tiles.tflite").exists()
