"""Faults of a network in tiles, and the part of the output that each tile computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest

from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, AttributeValue, InPlace, Operator
from onchip.ir.tensor import Role, Tensor, size_in_bytes
from onchip.ir.tile import Region, SumPart, Tile
from onchip.verify.rules import Rule
from onchip.verify.schedule.nests import NestDerivation
from onchip.verify.schedule.tiles import (
    cover,
    part_of_parameter,
    partition,
    pixel_of,
    tile_regions,
    tiles_of_network,
    verify_stacks,
    verify_tiles,
)
from support.schedule_cases import FORK, PAIR, TILED, ScheduleCase, tensor

LAST = TILED.tile_graph.operator["conv2#1"]
assert LAST.tile is not None
TILE = LAST.tile


def wrong(network: Graph, tiles: Graph, stacks: tuple[ScheduledStack, ...]) -> list[tuple[Rule, str, str]]:
    found = verify_tiles(network, tiles, stacks, NestDerivation(network, 24))
    return [(each.rule, each.subject, each.detail) for each in found]


def wrong_of(case: ScheduleCase) -> list[tuple[Rule, str, str]]:
    return wrong(case.network, case.tile_graph, case.stacks)


def band(base: Tensor, *region: tuple[int, int]) -> Tensor:
    assert base.shape is not None
    assert base.bits is not None
    shape = tuple(stop - start for start, stop in region)
    name = f"{base.name}{list(region)}"
    return Tensor(name, size_in_bytes(shape, base.bits), base.role, shape, base.bits, (), base.name, region)


@pytest.mark.parametrize(
    ("name", "tile", "detail"),
    [
        ("conv2#1", replace(TILE, inputs=("b",)), "its operands are not those of 'conv2'"),
        ("conv2#1", replace(TILE, outputs=("b",)), "its operands are not those of 'conv2'"),
        ("conv2#1", replace(TILE, shapes=((1, 2, 4, 5), *TILE.shapes[1:])), "its operands have other shapes"),
        ("conv2#1", replace(TILE, shapes=(*TILE.shapes[:-1], (1, 1, 5, 4))), "its operands have other shapes"),
        ("conv2#1", replace(TILE, part=SumPart.START), "it computes a part of a sum"),
        ("conv2#1", replace(TILE, reduction=(0, 1)), "it computes a part of a sum"),
        (
            "conv2#1",
            replace(TILE, regions=(((0, 1), (0, 1), (1, 4), (0, 4)),)),
            "it computes [0:1, 0:1, 1:4, 0:4], tile 1 is [0:1, 0:1, 2:4, 0:4]",
        ),
    ],
)
def test_a_tile_says_what_it_is_a_part_of(name: str, tile: Tile, detail: str) -> None:
    assert wrong_of(TILED) == []
    assert wrong_of(TILED.with_tile(name, tile=tile)) == [(Rule.TILE_DIFFERS, name, detail)]


@pytest.mark.parametrize("name", ["conv1#2", "conv1#3"])
def test_a_tile_behind_the_last_is_none(name: str) -> None:
    operators = (replace(one, name=name if one.name == "conv1#1" else one.name) for one in TILED.tile_graph.operators)
    found = wrong(PAIR, replace(TILED.tile_graph, operators=tuple(operators)), TILED.stacks)
    assert (Rule.TILE_DIFFERS, name, "its stack has 2 tiles") in found


def test_a_tile_operator_of_no_operator_is_said_by_name() -> None:
    renamed = replace(TILE, operator="ghost")
    detail = "the network has no operator that it is a part of"
    assert wrong_of(TILED.with_tile("conv2#1", tile=renamed)) == [(Rule.TILE_DIFFERS, "conv2#1", detail)]


def test_a_tile_reads_and_writes_what_its_operator_does() -> None:
    reading = TILED.with_tile("conv2#1", inputs=(*LAST.inputs, "x[:,:,0:1,:]"))
    assert wrong_of(reading) == [(Rule.TILE_DIFFERS, "conv2#1", "'conv2' knows no 'x'")]
    parameters = TILED.with_tile("conv2#1", parameters=("w1",))
    assert wrong_of(parameters) == [(Rule.TILE_DIFFERS, "conv2#1", "'conv2' knows no 'w1'")]


@pytest.mark.parametrize("changes", [{"kind": "ConvInteger"}, {"attributes": {"kernel_shape": [1, 1], "group": 1}}])
def test_a_tile_has_the_kind_and_the_attributes_of_its_operator(changes: dict[str, object]) -> None:
    detail = "kind and attributes are not those of 'conv2'"
    assert wrong_of(TILED.with_tile("conv2#1", **changes)) == [(Rule.TILE_DIFFERS, "conv2#1", detail)]


def test_parameters_are_those_that_its_nest_reads() -> None:
    detail = "it reads [], and Conv reads ['w2']"
    assert wrong_of(TILED.with_tile("conv2#1", parameters=())) == [(Rule.PARAMETERS_DIFFER, "conv2#1", detail)]


def test_what_windows_see_is_said_by_its_region() -> None:
    detail = "it sees [0:1, 0:1, 0:3, 0:4] of 'x', and its bands do not have all of that"
    found = wrong_of(TILED.with_tile("conv1#0", inputs=("x[:,:,0:1,:]",)))
    assert found == [(Rule.WINDOW_NOT_READ, "conv1#0", detail)]


def test_the_bands_that_a_tile_writes_are_what_it_computes() -> None:
    tile = TILED.tile_graph.operator["conv1#0"].tile
    assert tile is not None
    less = TILED.with_tile("conv1#0", tile=replace(tile, regions=(((0, 1), (0, 2), (0, 1), (0, 4)),)))
    detail = "it computes [0:1, 0:2, 0:1, 0:4] of 'a', and writes other bands"
    assert wrong_of(less) == [(Rule.REGION_NOT_WRITTEN, "conv1#0", detail)]


@pytest.mark.parametrize(
    ("name", "changes", "detail"),
    [
        ("x[:,:,0:1,:]", {"part_of": "ghost"}, "the network has no tensor 'ghost'"),
        ("x[:,:,0:1,:]", {"region": ((0, 1), (0, 1), (0, 1))}, "it is a band of 'x', which has 4 dimensions"),
        ("x[:,:,3:4,:]", {"region": ((0, 1), (0, 1), (3, 4), (1, 5))}, "its region reaches beyond 'x'"),
        ("x[:,:,0:1,:]", {"shape": (1, 1, 1, 5), "size_bytes": 5}, "it has 5 bytes, its region 4"),
        ("y[:,:,0:2,:]", {"role": Role.ACTIVATION}, "its role is activation, in the network output"),
        ("w1", {"shape": (2, 1, 3, 4), "size_bytes": 24}, "it has 24 bytes, in the network 18"),
        ("w1", {"shape": (1, 2, 3, 3)}, "it has 18 bytes, in the network 18"),
    ],
)
def test_a_tensor_is_one_of_the_network_or_a_band_of_one(name: str, changes: dict[str, object], detail: str) -> None:
    assert wrong_of(TILED.with_tensor(name, **changes)) == [(Rule.TENSOR_DIFFERS, name, detail)]


def test_a_tensor_of_another_name_is_none_of_the_network() -> None:
    tiles = replace(PAIR, tensors=(*PAIR.tensors, tensor("z", (1,), Role.INPUT)))
    stacks = tuple(ScheduledStack((name,)) for name in ("conv1", "conv2"))
    assert wrong(PAIR, tiles, stacks) == [(Rule.TENSOR_DIFFERS, "z", "the network has no tensor 'z'")]


IN_BYTES = Graph(
    "in bytes", (Tensor("x", 8, Role.INPUT), Tensor("y", 8, Role.OUTPUT)), (Operator("f", "Odd", ("x",), ("y",)),)
)


def test_what_has_no_shape_has_no_bands() -> None:
    stacks = (ScheduledStack(("f",)),)
    assert wrong(IN_BYTES, IN_BYTES, stacks) == []
    operators = (replace(IN_BYTES.operators[0], parameters=("w",)),)
    weighted = Graph("weighted", (*IN_BYTES.tensors, Tensor("w", 8, Role.PARAMETER)), operators)
    assert wrong(weighted, weighted, stacks) == []
    whole = Tensor("x0", 8, Role.INPUT, part_of="x", region=((0, 8),))
    tiles = Graph("t", (whole, IN_BYTES.tensors[1]), (replace(IN_BYTES.operators[0], inputs=("x0",)),))
    detail = "it is a band of 'x', which has 0 dimensions"
    assert wrong(IN_BYTES, tiles, stacks) == [(Rule.TENSOR_DIFFERS, "x0", detail)]


TWO_OUTPUTS = Graph(
    "two outputs",
    (tensor("x", (4, 6), Role.INPUT), tensor("y", (4, 2), Role.OUTPUT), tensor("z", (4, 4), Role.OUTPUT)),
    (Operator("f", "Split", ("x",), ("y", "z")),),
)


def in_parts(y: Region, z: Region) -> Graph:
    """Return a graph of one tile operator that computes these parts of both outputs."""
    tile = Tile("f", ("x",), (), ("y", "z"), ((4, 6), (4, 2), (4, 4)), (y, z))
    bands = (band(TWO_OUTPUTS.tensor["y"], *y), band(TWO_OUTPUTS.tensor["z"], *z))
    operator = replace(TWO_OUTPUTS.operators[0], outputs=tuple(one.name for one in bands), tile=tile)
    return Graph("t", (TWO_OUTPUTS.tensor["x"], *bands), (operator,))


def test_a_stack_that_runs_whole_computes_all_of_each_output() -> None:
    stacks = (ScheduledStack(("f",)),)
    all_of_y, all_of_z = ((0, 4), (0, 2)), ((0, 4), (0, 4))
    assert wrong(TWO_OUTPUTS, TWO_OUTPUTS, stacks) == []
    assert wrong(TWO_OUTPUTS, in_parts(all_of_y, all_of_z), stacks) == []
    first, *others = wrong(TWO_OUTPUTS, in_parts(all_of_y, ((0, 4), (0, 3))), stacks)
    assert first == (Rule.TILE_DIFFERS, "f", "its stack runs whole")
    assert others == [(Rule.BANDS_DO_NOT_PARTITION, "z", "its 1 bands overlap or leave a gap")]
    assert wrong(TWO_OUTPUTS, in_parts(((0, 4), (0, 1)), all_of_z), stacks)[0] == first


def test_each_output_is_written_by_its_own_bands() -> None:
    written = in_parts(((0, 4), (0, 2)), ((0, 4), (0, 4)))
    (operator,) = written.operators
    assert operator.tile is not None
    z = ((0, 2), (0, 4))
    less = replace(operator, outputs=(operator.outputs[0], band(TWO_OUTPUTS.tensor["z"], *z).name))
    tiles = Graph("t", (*written.tensors[:2], band(TWO_OUTPUTS.tensor["z"], *z)), (less,))
    first, *_ = wrong(TWO_OUTPUTS, tiles, (ScheduledStack(("f",)),))
    assert first == (Rule.REGION_NOT_WRITTEN, "f", "it computes [0:4, 0:4] of 'z', and writes other bands")


NOTHING: Mapping[str, AttributeValue] = {}


def of_one(
    kind: str, *sources: tuple[int, ...], bits: int = 8, attributes: Mapping[str, AttributeValue] = NOTHING
) -> Graph:
    """Return a network of one operator that reads x0, x1, ..., and writes y in the shape of the last input."""
    read = [tensor(f"x{at}", shape, Role.INPUT) for at, shape in enumerate(sources)]
    written = Tensor.of_shape("y", sources[-1], bits, Role.OUTPUT)
    operator = Operator("f", kind, tuple(one.name for one in read), ("y",), attributes=attributes)
    return Graph("one", (*read, written), (operator,))


def overwrites(
    network: Graph, rows: tuple[int, ...] = (), reads: str = "", at: int = -1
) -> list[tuple[Rule, str, str]]:
    """Return what is wrong if y is written in place of x0, or of a tensor named `reads` that tiles of rows read.

    `rows` lists where tiles of rows begin and end; without any the operator runs whole. Tile `at` overwrites.
    """
    (operator,) = network.operators
    if not rows:
        whole = replace(operator, in_place=(InPlace("x0", "y"),))
        return wrong(network, replace(network, operators=(whole,)), (ScheduledStack(("f",)),))
    shapes = tuple(network.tensor[name].shape or () for name in (*operator.inputs, "y"))
    source, target = network.tensor[operator.inputs[-1]], network.tensor["y"]
    spans = list(pairwise(rows))
    read, written = ([band(one, span, (0, 8)) for span in spans] for one in (source, target))
    operators = [
        replace(
            operator,
            name=f"f#{number}",
            inputs=(*operator.inputs[:-1], *(one.name for one in read)),
            outputs=(one.name,),
            tile=Tile("f", operator.inputs, (), ("y",), shapes, (one.region or (),)),
        )
        for number, one in enumerate(written)
    ]
    operators[at] = replace(operators[at], in_place=(InPlace(reads or read[at].name, written[at].name),))
    tensors = (*(network.tensor[name] for name in operator.inputs[:-1]), *read, *written)
    tiling = Tiling(1, rows[-1] - rows[-2], OverlapMode.RECOMPUTE)
    return wrong(network, Graph("t", tensors, tuple(operators)), (ScheduledStack(("f",), tiling),))


def test_an_output_may_overwrite_an_input_that_is_alike() -> None:
    assert overwrites(of_one("Exp", (4, 8))) == []
    assert overwrites(of_one("Softmax", (4, 8), attributes={"axis": -1}), (0, 2, 4)) == []
    in_bytes = Tensor("x0", 8, Role.INPUT), Tensor("y", 8, Role.OUTPUT)
    assert overwrites(Graph("in bytes", in_bytes, (Operator("f", "Relu", ("x0",), ("y",)),))) == []
    exp = of_one("Exp", (4, 8))
    (operator,), (source, target) = exp.operators, exp.tensors
    whole = band(target, (0, 4), (0, 8))
    tile = Tile("f", ("x0",), (), ("y",), ((4, 8), (4, 8)), (((0, 4), (0, 8)),))
    changed = replace(operator, outputs=(whole.name,), tile=tile, in_place=(InPlace("x0", whole.name),))
    assert wrong(exp, Graph("t", (source, whole), (changed,)), (ScheduledStack(("f",)),)) == []


@pytest.mark.parametrize(
    ("network", "rows", "read"),
    [
        (of_one("Odd", (4, 8)), (), "x0"),
        (of_one("Exp", (4, 8), attributes={SEEN_SHAPES: [[4, 8]]}), (), "x0"),
        (of_one("Cast", (4, 8), bits=16), (), "x0"),
        (of_one("Exp", (4, 8)), (0, 2, 4), "x0[(0, 2), (0, 8)]"),
        (of_one("Add", (1, 8), (2, 8)), (0, 1, 2), "x0"),
        (of_one("Add", (1, 8), (4, 8)), (), "x0"),
    ],
)
def test_an_output_may_not_overwrite_what_it_reads_otherwise(network: Graph, rows: tuple[int, ...], read: str) -> None:
    ((rule, _, detail),) = overwrites(network, rows, read)
    assert (rule, detail.partition("of ")[2]) == (Rule.TILE_DIFFERS, f"{read!r}")


def test_the_first_row_of_an_output_may_not_overwrite_the_only_row_of_an_input() -> None:
    ((rule, subject, _),) = overwrites(of_one("Add", (1, 8), (2, 8)), (0, 1, 2), "x0", at=0)
    assert (rule, subject) == (Rule.TILE_DIFFERS, "f#0")


IN_PLACE = """
allocate x near 32
copy x dram near
allocate m near 0
compute f
free x near
copy m near dram
allocate y near 0
compute g
free m near
copy y near dram
free y near
"""


@pytest.mark.parametrize(("start", "cycles"), [(0, 230), (32, 196)])
def test_an_output_in_the_bytes_of_its_input_waits_for_the_copy_of_the_input(start: int, cycles: int) -> None:
    """A copy takes 34 cycles and a Compute 64; at another offset g runs beside the copy of m."""
    tensors = (tensor("x", (4, 8), Role.INPUT), tensor("m", (4, 8)), tensor("y", (4, 8), Role.OUTPUT))
    f, g = (Operator(name, "Softmax", (read,), (to,), (), {"axis": -1}) for name, read, to in ("fxm", "gmy"))
    network = Graph("pair", tensors, (f, g))
    tiles = replace(network, operators=(f, replace(g, in_place=(InPlace("m", "y"),))))
    stacks = ScheduledStack(("f",)), ScheduledStack(("g",))
    program = IN_PLACE.replace("allocate y near 0", f"allocate y near {start}")
    found = ScheduleCase(stacks, (), program, network, tiles=tiles).verdict()
    assert found.violations == ()
    assert found.figures is not None
    assert found.figures.latency_cycles == cycles


SOFTMAX = Graph(
    "softmax",
    (tensor("x", (1, 1, 4, 4), Role.INPUT), tensor("y", (1, 1, 4, 4), Role.OUTPUT)),
    (Operator("f", "Softmax", ("x",), ("y",), attributes={"axis": 1}),),
)


def test_what_is_not_known_in_parts_runs_whole() -> None:
    stacks = (ScheduledStack(("f",), Tiling(4, 2, OverlapMode.RECOMPUTE)),)
    bands = [band(SOFTMAX.tensor["y"], (0, 1), (0, 1), rows, (0, 4)) for rows in ((0, 2), (2, 4))]
    shapes = ((1, 1, 4, 4),) * 2
    operators = [
        replace(
            SOFTMAX.operators[0],
            name=f"f#{number}",
            outputs=(one.name,),
            tile=Tile("f", ("x",), (), ("y",), shapes, (one.region or (),)),
        )
        for number, one in enumerate(bands)
    ]
    tiles = Graph("t", (SOFTMAX.tensors[0], *bands), tuple(operators))
    detail = "what a part of Softmax sees is not known: axis"
    assert wrong(SOFTMAX, tiles, stacks) == [(Rule.TILE_DIFFERS, name, detail) for name in ("f#0", "f#1")]
    assert [run.number for run in tiles_of_network(SOFTMAX, tiles, stacks)] == [0, 1]


def test_a_tile_that_is_missing_is_said_by_its_region() -> None:
    kept = TILED.tile_graph.operators[:2]
    names = {name for one in kept for name in (*one.inputs, *one.outputs, *one.parameters)} | {"x[:,:,3:4,:]"}
    tiles = replace(
        TILED.tile_graph, tensors=tuple(one for one in TILED.tile_graph.tensors if one.name in names), operators=kept
    )
    assert wrong(PAIR, tiles, TILED.stacks) == [
        (Rule.TILE_MISSING, "conv2", "nothing computes tile 1, [0:1, 0:1, 2:4, 0:4]"),
        (Rule.BANDS_DO_NOT_PARTITION, "y", "its 1 bands overlap or leave a gap"),
    ]


BESIDE = Graph(
    "beside",
    (tensor("x", (4,), Role.INPUT), tensor("y", (4,), Role.OUTPUT), tensor("z", (4,), Role.OUTPUT)),
    (Operator("f", "Relu", ("x",), ("y",)), Operator("g", "Relu", ("x",), ("z",))),
)


def test_tiles_in_another_order_are_said_by_their_numbers() -> None:
    stacks = (ScheduledStack(("conv1",)), ScheduledStack(("conv2",), Tiling(4, 2, OverlapMode.RECOMPUTE)))
    case = replace(TILED, stacks=stacks)
    first, second, third = case.tile_graph.operators
    assert [one.name for one in (first, second, third)] == ["conv1", "conv2#0", "conv2#1"]
    swapped = replace(case.tile_graph, operators=(first, third, second))
    detail = "tile 0 of stack 1 stands behind one of tile 1 of stack 1"
    assert wrong(PAIR, swapped, stacks) == [(Rule.TILE_OUT_OF_ORDER, "conv2#0", detail)]
    beside = replace(BESIDE, operators=BESIDE.operators[::-1])
    whole = (ScheduledStack(("f",)), ScheduledStack(("g",)))
    detail = "tile 0 of stack 0 stands behind one of tile 0 of stack 1"
    assert wrong(BESIDE, beside, whole) == [(Rule.TILE_OUT_OF_ORDER, "f", detail)]


def test_operators_of_a_tile_in_another_order_are_said_by_their_tile() -> None:
    tiles = TILED.tile_graph
    swapped = tuple(tiles.operator[name] for name in ("conv1#1", "conv2#1", "conv1#0", "conv2#0"))
    detail = "tile 0 of stack 0 stands behind one of tile 1 of stack 0"
    assert wrong(PAIR, replace(tiles, operators=swapped), TILED.stacks) == [
        (Rule.TILE_OUT_OF_ORDER, "conv1#0", detail),
        (Rule.TILE_OUT_OF_ORDER, "conv2#0", detail),
    ]


PADDED = Graph(
    "padded",
    (tensor("x", (1, 1, 4, 4), Role.INPUT), tensor("y", (1, 1, 8, 4), Role.OUTPUT)),
    (Operator("f", "Pad", ("x",), ("y",), (), {"pads": [0, 0, 0, 0, 0, 0, 4, 0]}),),
)


@pytest.mark.parametrize("read", [(), ("x",)])
def test_a_tile_that_sees_zeros_alone_need_not_read_anything(read: tuple[str, ...]) -> None:
    stacks = (ScheduledStack(("f",), Tiling(4, 4, OverlapMode.RECOMPUTE)),)
    bands = [band(PADDED.tensor["y"], (0, 1), (0, 1), rows, (0, 4)) for rows in ((0, 4), (4, 8))]
    operators = [
        replace(
            PADDED.operators[0],
            name=f"f#{number}",
            inputs=inputs,
            outputs=(one.name,),
            tile=Tile("f", ("x",), (), ("y",), ((1, 1, 4, 4), (1, 1, 8, 4)), (one.region or (),)),
        )
        for number, (one, inputs) in enumerate(zip(bands, (("x",), read), strict=True))
    ]
    assert wrong(PADDED, Graph("t", (PADDED.tensors[0], *bands), tuple(operators)), stacks) == []
    unread = (replace(operators[0], inputs=()), operators[1])
    detail = "it sees [0:1, 0:1, 0:4, 0:4] of 'x', and its bands do not have all of that"
    found = wrong(PADDED, Graph("t", (PADDED.tensors[0], *bands), unread), stacks)
    assert found == [(Rule.WINDOW_NOT_READ, "f#0", detail)]


RELU = Operator("f", "Relu", ("x",), ("y",))
UP = replace(RELU, kind="ConvTranspose", parameters=("w",), attributes={"strides": [2, 3], "kernel_shape": [2, 3]})


def regions(operator: Operator, shape: tuple[int, ...], stack: ScheduledStack) -> list[Region]:
    """Return the regions of the tiles of one operator, whose input has the shape of its output."""
    return tile_regions(network(operator, shape, shape), stack)


def stack(columns: int, rows: int) -> ScheduledStack:
    return ScheduledStack(("f",), Tiling(columns, rows, OverlapMode.RECOMPUTE))


def pixels(rows: tuple[int, int], columns: tuple[int, int]) -> Region:
    return ((0, 1), (0, 8), rows, columns)


def elements(region: Region) -> Counter[tuple[int, ...]]:
    return Counter(product(*(range(*span) for span in region)))


def test_boxes_cover_and_partition_a_region_if_its_elements_are_in_them() -> None:
    found = Counter[tuple[bool, bool]]()
    for seed in range(400):
        chance = Random(seed)
        lines = [sorted(chance.sample(range(5), 3)) for _ in range(2)]
        whole = tuple((first, stop) for first, _, stop in lines)
        boxes: list[Region] = [tuple(spans) for spans in product(*(list(pairwise(each)) for each in lines))]
        for _ in range(chance.randrange(3)):
            boxes.pop(chance.randrange(len(boxes)))
        for _ in range(chance.randrange(3)):
            ends = [sorted(chance.sample(range(6), 2)) for _ in range(2)]
            boxes.insert(chance.randrange(len(boxes) + 1), tuple((first, stop) for first, stop in ends))
        inside = sum(map(elements, boxes), Counter[tuple[int, ...]]())
        says = cover(whole, boxes), partition(whole, boxes)
        assert says == (elements(whole).keys() <= inside.keys(), elements(whole) == inside), f"seed {seed}"
        found[says] += 1
    assert min(found.values()) > 30
    assert len(found) == 3


def test_tiles_go_from_left_to_right_then_down_and_the_first_is_smaller() -> None:
    assert regions(RELU, (1, 8, 5, 7), stack(3, 2)) == [
        pixels(rows, columns) for rows in ((0, 1), (1, 3), (3, 5)) for columns in ((0, 1), (1, 4), (4, 7))
    ]


def test_tiles_that_fill_the_map_are_alike() -> None:
    assert regions(RELU, (1, 8, 4, 6), stack(6, 2)) == [pixels((0, 2), (0, 6)), pixels((2, 4), (0, 6))]


def test_a_pixel_of_a_transposed_convolution_is_a_square_of_outputs() -> None:
    assert regions(UP, (1, 8, 6, 8), stack(2, 2)) == [
        pixels(rows, columns) for rows in ((0, 2), (2, 6)) for columns in ((0, 3), (3, 8))
    ]


@pytest.mark.parametrize("shape", [(1, 4), (8,), (1, 8, 2, 2, 2)])
def test_what_has_no_rows_and_columns_is_one_tile(shape: tuple[int, ...]) -> None:
    assert regions(RELU, shape, stack(1, 1)) == [tuple((0, size) for size in shape)]


def test_a_row_of_pixels_is_no_matrix() -> None:
    pool, shape = replace(RELU, kind="MaxPool"), (1, 8, 9)
    assert regions(pool, shape, stack(1, 1)) == [((0, 1), (0, 8), (0, 9))]
    channels = ScheduledStack(("f",), Tiling(1, 1, OverlapMode.RECOMPUTE, 4))
    (violation,) = verify_stacks(network(pool, shape, shape), [channels])
    assert violation.detail == "tiles of 4 channels in a map of none"


@pytest.mark.parametrize("batch", [(), (1,), (3,)])
def test_matrices_are_tiled_by_rows(batch: tuple[int, ...]) -> None:
    whole = tuple((0, size) for size in batch)
    expected = [(*whole, rows, (0, 4)) for rows in ((0, 2), (2, 5))]
    assert regions(RELU, (*batch, 5, 4), stack(1, 3)) == expected


def test_without_a_tiling_there_is_one_tile() -> None:
    assert regions(RELU, (1, 8, 5, 7), ScheduledStack(("f",))) == [pixels((0, 5), (0, 7))]


def network(operator: Operator, source: tuple[int, ...], output: tuple[int, ...]) -> Graph:
    weights = [tensor("w", (8, 8, 2, 3), Role.PARAMETER)] if operator.parameters else []
    return Graph("one", (tensor("x", source, Role.INPUT), *weights, tensor("y", output, Role.OUTPUT)), (operator,))


@pytest.mark.parametrize(
    ("made", "largest"),
    [
        (network(RELU, (1, 8, 5, 7), (1, 8, 5, 7)), (7, 5)),
        (network(UP, (1, 8, 3, 3), (1, 8, 6, 8)), (3, 3)),
        (network(RELU, (8, 4), (8, 4)), (1, 8)),
        (network(RELU, (1, 8, 9), (1, 8, 9)), (1, 8)),
    ],
)
def test_a_tile_may_be_as_large_as_the_map(made: Graph, largest: tuple[int, int]) -> None:
    columns, rows = largest
    assert verify_stacks(made, [stack(columns, rows)]) == ()
    for larger in (stack(columns + 1, rows), stack(columns, rows + 1)):
        (violation,) = verify_stacks(made, [larger])
        assert violation.rule is Rule.TILE_EXCEEDS_MAP
        assert f"in a map of {columns} x {rows}" in violation.detail


def test_what_is_read_outside_names_the_stack_by_its_last_operator() -> None:
    names = ("f", "g", "h")
    stacks = [ScheduledStack(names, Tiling(1, 1, OverlapMode.RECOMPUTE)), ScheduledStack(("add",))]
    (violation,) = verify_stacks(FORK, stacks)
    assert (violation.rule, violation.subject) == (Rule.OVER_A_BRANCH, "f")
    assert violation.detail == "'add' reads 'a' outside the stack that ends with 'h'"


def test_a_transposed_convolution_that_says_no_stride_has_pixels_of_one_output() -> None:
    made = network(Operator("f", "ConvTranspose", ("x",), ("y",), ("w",)), (1, 8, 4, 4), (1, 8, 6, 6))
    assert pixel_of(made.operator["f"]) == (1, 1)
    assert pixel_of(replace(UP, kind="Conv")) == (1, 1)
    assert verify_stacks(made, [stack(6, 6)]) == ()
    assert [one.rule for one in verify_stacks(made, [stack(7, 6)])] == [Rule.TILE_EXCEEDS_MAP]
    assert [one.rule for one in verify_stacks(made, [stack(6, 7)])] == [Rule.TILE_EXCEEDS_MAP]


def test_what_has_no_shape_is_one_tile() -> None:
    tensors = (Tensor("x", 8, Role.INPUT), Tensor("y", 8, Role.OUTPUT))
    made = Graph("in bytes", tensors, (Operator("f", "Odd", ("x",), ("y",)),))
    assert verify_stacks(made, [stack(1, 1)]) == ()
    (violation,) = verify_stacks(made, [stack(2, 1)])
    assert violation.detail == "tiles of 2 x 1 in a map of 1 x 1"


def test_what_nobody_reads_leaves_no_stack_from_inside() -> None:
    tensors = (tensor("x", (4,), Role.INPUT), *(tensor(name, (4,)) for name in "ab"), tensor("y", (4,), Role.OUTPUT))
    operators = (Operator("f", "Split", ("x",), ("a", "b")), Operator("g", "Relu", ("a",), ("y",)))
    made = Graph("unread", tensors, operators)
    assert verify_stacks(made, [ScheduledStack(("f",)), ScheduledStack(("g",))]) == ()
    together = ScheduledStack(("f", "g"), Tiling(1, 1, OverlapMode.RECOMPUTE))
    (violation,) = verify_stacks(made, [together])
    assert (violation.rule, violation.subject) == (Rule.OUTPUT_LOST, "f")
    assert violation.detail == "'b' leaves the network"


def test_tiles_are_no_larger_than_the_map_and_slices_of_channels_have_all_pixels_of_images() -> None:
    for seed in range(600):
        chance = Random(seed)
        kind, rank = chance.choice((("Relu", 2), ("Relu", 3), ("Relu", 4), ("Softmax", 4), ("ConvTranspose", 4)))
        shape = tuple(chance.randint(2, 4) for _ in range(rank))
        stride = chance.choice((1, 2)) if kind == "ConvTranspose" else 1
        tensors = Tensor.of_shape("x", shape, 8, Role.INPUT), Tensor.of_shape("y", shape, 8, Role.OUTPUT)
        operator = Operator("f", kind, ("x",), ("y",), (), {"strides": [stride, stride]} if stride > 1 else {})
        columns, rows = chance.randint(1, 4), chance.randint(1, 4)
        is_image = rank == 4 and kind != "Softmax"
        most = (
            (-(-shape[3] // stride), -(-shape[2] // stride)) if is_image else (shape[1] if rank == 4 else 1, shape[-2])
        )
        if chance.random() < 0.5:
            columns, rows = most
        channels = chance.choice((None, 1, 2, 3, 4))

        expected = [(Rule.TILE_EXCEEDS_MAP, False)] if columns > most[0] or rows > most[1] else []
        if channels is not None and (not is_image or channels > shape[1]):
            expected += [(Rule.TILE_EXCEEDS_MAP, not is_image)]
        elif channels is not None and (stride > 1 or (columns, rows) != most):
            expected += [(Rule.CHANNELS_OF_SOME_PIXELS, False)]
        stack = ScheduledStack(("f",), Tiling(columns, rows, OverlapMode.RECOMPUTE, channels))
        found = verify_stacks(Graph("one", tensors, (operator,)), [stack])
        assert [(one.rule, one.detail.endswith("none")) for one in found] == expected, f"seed {seed}"


@pytest.mark.parametrize(
    ("kind", "shape", "cut"),
    [
        ("Conv", (4, 3, 2, 2), 0),
        ("Conv", (4,), None),
        ("Conv", (4, 1, 1), None),
        ("BatchNormalization", (4,), 0),
        ("BatchNormalization", (5,), None),
        ("QuantizeLinear", (4,), None),
        ("PRelu", (4, 1, 1), 0),
        ("Add", (4, 1, 1), 0),
        ("Add", (1, 4, 5, 6), 1),
        ("Add", (1, 1, 1), None),
        ("Add", (4,), None),
        ("Add", (5, 4), None),
        ("MatMul", (4, 1, 1), None),
        ("MatMul", (4, 3, 2, 2), None),
    ],
)
def test_channels_of_an_image_need_their_own_part_of_a_parameter(
    kind: str, shape: tuple[int, ...], cut: int | None
) -> None:
    made, output, rows = Operator("f", kind, ("x",), ("y",), ("w",)), (1, 4, 5, 6), ((0, 5), (0, 6))
    whole = tuple((0, size) for size in shape)
    assert part_of_parameter(made, shape, output, ((0, 1), (0, 4), *rows)) == whole
    expected = tuple((1, 3) if at == cut else each for at, each in enumerate(whole))
    assert part_of_parameter(made, shape, output, ((0, 1), (1, 3), *rows)) == expected
    assert part_of_parameter(made, shape, output[1:], ((0, 4), (1, 3), (0, 6))) == whole
