"""Models planned for TFLite Micro, whole and in tiles, run in it with equal outputs, in the arena of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pytest

from onchip.answer.document import Granularity, Reading, Runtime
from onchip.answer.operator_tiles import OperatorTiles, TilesOption
from onchip.answer.options.verb_options import PlanOptions
from onchip.answer.problem import Objective
from onchip.answer.program import residencies_of
from onchip.api.check import check_plan
from onchip.api.inputs import plan_request
from onchip.api.networks import network_to_plan
from onchip.api.plan import Request
from onchip.api.target import Target
from onchip.backends.tflm.export_arena import export_arena
from onchip.errors import InputError, UsageError
from onchip.formats.own.plan_json import read_plan
from onchip.formats.tflite.tiles import PaddedWindow
from onchip.ops.entries import geometry_of
from onchip.search.budget.limits import Limits
from support.c_projects import planned
from support.diamond import Program
from support.micro_models import Maps, random_maps, random_model
from support.micro_runtime import IS_INSTALLED, MISSING, run_on_micro
from support.series import series

needs_micro = pytest.mark.skipif(not IS_INSTALLED, reason=MISSING)
LIMITS = Limits(time_limit_seconds=5)
NO_TILES: Mapping[str, OperatorTiles] = MappingProxyType({})


def asked(
    network: Path,
    sram: int = 2**20,
    objective: Objective = Objective.PEAK,
    tiles: Mapping[str, OperatorTiles] = NO_TILES,
) -> Request:
    options = PlanOptions(runtime=Runtime.MICRO, tiles=None if tiles else TilesOption.AUTO)
    return plan_request(str(network), Reading(tiles=tiles), Target(sram=sram), objective, options, LIMITS)


def arena_in_micro(network: Path, request: Request) -> int:
    """Export a plan, run the model, and return its arena; outputs, and the arena of the plan are asserted."""
    plan, tiled = planned(network, request), network.with_suffix(".tiles.tflite")
    _, export = export_arena(plan, str(network), tiled)
    assert export is not None
    before, after = run_on_micro(network.read_bytes()), run_on_micro(tiled.read_bytes())
    assert after.has_outputs_of(before)
    graph = check_plan(plan, str(network), Target(), {}).problem.graph
    end_bytes = max(one.end_bytes for one in residencies_of(read_plan(plan).answer, graph))
    assert after.head_bytes == export.arena_bytes
    assert end_bytes - 1 <= after.head_bytes < end_bytes + 16  # the end of several outputs may take a byte
    return after.head_bytes


@needs_micro
@pytest.mark.parametrize("seed", series([7, 3, 10, 11, 4], 2))
def test_a_plan_in_tiles_runs_with_equal_outputs_in_its_arena(seed: int, tmp_path: Path) -> None:
    model = random_maps(Random(seed), 48).write(tmp_path / "model.tflite")
    assert arena_in_micro(model, asked(model)) < run_on_micro(model.read_bytes()).head_bytes


@needs_micro
@pytest.mark.parametrize("seed", series(range(12), 6))
def test_a_plan_of_whole_operators_has_the_arena_of_the_runtime(seed: int, tmp_path: Path) -> None:
    model = random_model(Random(seed)).write(tmp_path / "model.tflite")
    options = PlanOptions(runtime=Runtime.MICRO, tiles=TilesOption.NEVER)
    request = plan_request(str(model), Reading(), Target(sram=2**20), Objective.PEAK, options, LIMITS)
    assert arena_in_micro(model, request) <= run_on_micro(model.read_bytes()).head_bytes


@needs_micro
def test_the_least_arena_of_large_maps_is_much_smaller_in_tiles(tmp_path: Path) -> None:
    maps = Maps(Random(1), 32, channels=4)
    maps.convolution(64, 1)
    maps.depthwise(2)
    maps.convolution(4, 1)
    model = maps.classified().write(tmp_path / "model.tflite")
    arena = arena_in_micro(model, asked(model))
    assert arena < run_on_micro(model.read_bytes()).head_bytes * 0.3
    sram = 2 * arena // 16 * 16
    assert arena_in_micro(model, asked(model, sram, Objective.TRAFFIC)) <= sram


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
    maps.add("TRANSPOSE", [maps.last, maps.numbers([0, 2, 1, 3], 4)], maps.shape)
    maps.depthwise(2)
    model = maps.classified().write(tmp_path / "model.tflite")
    graph = network_to_plan(str(model), Reading(granularity=Granularity.RAW))
    tiles = {}
    for operator in graph.operators:
        geometry = geometry_of(operator, graph, is_model=True)
        size = geometry.axes[axis].size if geometry is not None and len(geometry.axes) > axis else 0
        own = tuple(sorted({end % size for end in ends if -size < end < size} - {0})) if size else ()
        if own:
            tiles[operator.name] = OperatorTiles(axis, (*own, size))
    assert len(tiles) > 6
    arena_in_micro(model, asked(model, tiles=tiles))


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
@pytest.mark.parametrize("scales", [1, 8])
def test_convolutions_along_channels_have_weights_and_scales_of_their_own(scales: int, tmp_path: Path) -> None:
    maps = Maps(Random(5), 12)
    maps.convolution(8, 3)
    maps.depthwise(2)
    if scales > 1:
        for one in maps.tensors:
            if one.data is not None and one.scale is not None and scales in one.shape:
                one.scales, one.axis = [one.scale * (1 + at / 8) for at in range(scales)], list(one.shape).index(scales)
    model = maps.classified().write(tmp_path / "model.tflite")
    tiles = {"t0": OperatorTiles(1, (4, 8)), "t1": OperatorTiles(1, (4, 8))}
    arena_in_micro(model, asked(model, tiles=tiles))


def test_concatenations_along_their_own_axis_are_refused(tmp_path: Path) -> None:
    maps = Maps(Random(5), 12)
    maps.convolution(8, 3)
    maps.dense()
    model = maps.classified().write(tmp_path / "model.tflite")
    with pytest.raises(InputError, match="tiles along rows or columns"):
        planned(model, asked(model, tiles={"t2": OperatorTiles(1, (4, 12))}))


def test_tiles_that_count_no_copies_are_refused(tmp_path: Path) -> None:
    maps = Maps(Random(5), 12)
    maps.convolution(8, 3)
    model = maps.classified().write(tmp_path / "model.tflite")
    reading = Reading(tiles={"t0": OperatorTiles(2, (4, 12))})
    plan = planned(model, Request(str(model), reading, Target(sram=2**20, alignment_bytes=16)))
    with pytest.raises(InputError, match="the plan is for no runtime"):
        export_arena(plan, str(model), tmp_path / "tiles.tflite")
    assert not (tmp_path / "tiles.tflite").exists()


@pytest.mark.parametrize(
    ("options", "reading", "place"),
    [({"share": "all"}, {}, "share"), ({"alignment_bytes": 8}, {}, "alignment"), ({}, {"bits": 8}, "bits")],
)
def test_plans_that_the_runtime_cannot_run_are_refused(
    options: dict[str, Any], reading: dict[str, Any], place: str
) -> None:
    how = Reading(**reading), Target(sram=64), Objective.PEAK, PlanOptions(runtime=Runtime.MICRO, **options), LIMITS
    with pytest.raises(UsageError) as refused:
        plan_request("model.tflite", *how)
    assert refused.value.place == place


def test_a_plan_for_the_runtime_runs_on_the_models_values(onchip: Program, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    model, plan = random_maps(Random(3), 32).write(tmp_path / "model.tflite"), tmp_path / "plan.json"
    asked = "plan", model, "--runtime", "tflite-micro", "--objective", "peak", "--tiles", "auto", "--time-limit", 5
    assert onchip(*asked, "-o", plan).code == 0
    assert onchip("check", plan, model).code == 0
    ended = onchip("run", plan, model, "--json")
    assert (ended.code, ended.json["right"], ended.json["run"]["relative_difference"]) == (0, True, 0)
    ended = onchip("export", plan, model, "--to", "c-project", "-o", tmp_path / "c")
    assert (ended.code, "tflite-micro" in ended.err) == (2, True)
