"""Input regions of a part of an output, compared with a visit of every element and every tap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from operator import le
from random import Random

import pytest

from onchip.ir.operator import KEY_SLICE, AttributeValue, Operator
from onchip.ir.tile import Region
from onchip.verify.schedule.windows import Shape, seen
from support.series import series

Element = tuple[int, ...]
LOG_SUM = Operator("f", "ReduceLogSumExp", ("x0",), ("y",), (), {"axes": [-1], KEY_SLICE: 0})


def operator(kind: str, attributes: dict[str, AttributeValue] | None = None) -> Operator:
    return Operator("f", kind, ("x0", "x1"), ("y",), (), attributes or {})


def elements(region: Region) -> Iterator[Element]:
    return product(*(range(*each) for each in region))


def box(found: Sequence[Element]) -> Region | None:
    """Return the smallest region around elements; None around none."""
    if not found:
        return None
    return tuple((min(along), max(along) + 1) for along in zip(*found, strict=True))


def random_region(random: Random, shape: Shape) -> Region:
    starts = [random.randrange(size) for size in shape]
    return tuple((start, random.randint(start + 1, size)) for start, size in zip(starts, shape, strict=True))


class Sliding:
    """A convolution or pool over two axes with all attributes of the kind."""

    def __init__(self, random: Random, *, is_pool: bool) -> None:
        self.kernel = [random.randint(1, 3) for _ in range(2)]
        self.strides = [random.randint(1, 3) for _ in range(2)]
        self.dilations = [random.randint(1, 2) for _ in range(2)]
        self.pads = [random.randint(0, 2) for _ in range(4)]
        self.groups = 1 if is_pool else random.choice((1, 2))
        self.read, self.written = self.groups * random.randint(1, 2), self.groups * random.randint(1, 2)
        if is_pool:
            self.written = self.read
        sizes = [random.randint(3, 7) for _ in range(2)]
        self.source = (1, self.read, *sizes)
        self.output = (1, self.written, *(self._outputs(at, size) for at, size in enumerate(sizes)))
        self.weight = None if is_pool else (self.written, self.read // self.groups, *self.kernel)

    def _outputs(self, at: int, size: int) -> int:
        reach = (self.kernel[at] - 1) * self.dilations[at] + 1
        return (size + self.pads[at] + self.pads[2 + at] - reach) // self.strides[at] + 1

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        lists = {"kernel_shape": self.kernel, "strides": self.strides, "dilations": self.dilations, "pads": self.pads}
        return {**{name: [*value] for name, value in lists.items()}, "group": self.groups}

    def seen_by(self, written: Element) -> Iterator[Element]:
        """Yield every stored input element that contributes to an output element."""
        batch, channel, *pixel = written
        if self.weight is None:
            channels = [channel]
        else:
            group = channel // (self.written // self.groups)
            channels = [group * (self.read // self.groups) + at for at in range(self.read // self.groups)]
        for taps in product(*map(range, self.kernel)):
            place = [pixel[at] * self.strides[at] - self.pads[at] + taps[at] * self.dilations[at] for at in range(2)]
            if all(0 <= at < size for at, size in zip(place, self.source[2:], strict=True)):
                yield from ((batch, channel, *place) for channel in channels)


@pytest.mark.parametrize("kind", ["Conv", "MaxPool"])
@pytest.mark.parametrize("seed", series(range(120), 40))
def test_a_sliding_window_sees_the_block_around_all_that_its_taps_touch(seed: int, kind: str) -> None:
    random = Random(seed)
    window = Sliding(random, is_pool=kind == "MaxPool")
    if min(window.output) < 1:
        return
    region = random_region(random, window.output)
    touched = [each for written in elements(region) for each in window.seen_by(written)]
    need = seen(operator(kind, window.attributes), [window.source], window.weight, window.output, region)[0]
    around = box(touched)
    if around is None:
        return  # a block between taps, or between windows, may be stored without being read
    assert need is not None
    assert all(start <= first and last <= stop for (start, stop), (first, last) in zip(need, around, strict=True))
    if max(window.dilations) == 1 and all(map(le, window.strides, window.kernel)):
        assert need == around


@pytest.mark.parametrize("seed", range(60))
def test_what_is_joined_sees_of_each_part_what_lies_where_it_stands(seed: int) -> None:
    random = Random(seed)
    axis, shape = random.randrange(-3, 3), [random.randint(1, 3) for _ in range(3)]
    parts = [tuple(random.randint(1, 3) if at == axis % 3 else size for at, size in enumerate(shape)) for _ in range(3)]
    places = [(number, at) for number, part in enumerate(parts) for at in range(part[axis % 3])]
    output = tuple(len(places) if at == axis % 3 else size for at, size in enumerate(shape))
    region = random_region(random, output)
    read: list[list[Element]] = [[] for _ in parts]
    for written in elements(region):
        number, place = places[written[axis % 3]]
        read[number].append(tuple(place if at == axis % 3 else each for at, each in enumerate(written)))
    assert seen(operator("Concat", {"axis": axis}), parts, None, output, region) == tuple(map(box, read))


@pytest.mark.parametrize("seed", range(120))
def test_a_transposed_convolution_sees_the_block_around_all_that_adds_to_its_outputs(seed: int) -> None:
    random = Random(seed)
    kernel, strides = ([random.randint(1, 4) for _ in range(2)] for _ in range(2))
    pads = [random.randrange(min(each, 2)) if each > 1 else 0 for each in kernel] * 2
    sizes = [random.randint(1, 5) for _ in range(2)]
    output = (1, 1, *((sizes[at] - 1) * strides[at] + kernel[at] - 2 * pads[at] for at in range(2)))
    if min(output) < 1:
        return
    region = random_region(random, output)
    touched = [
        (0, 0, *place)
        for place in product(*map(range, sizes))
        for taps in product(*map(range, kernel))
        if all(
            region[2 + at][0] <= place[at] * strides[at] + taps[at] - pads[at] < region[2 + at][1] for at in range(2)
        )
    ]
    attributes: dict[str, AttributeValue] = {"kernel_shape": [*kernel], "strides": [*strides], "pads": [*pads]}
    need = seen(operator("ConvTranspose", attributes), [(1, 1, *sizes)], (1, 1, *kernel), output, region)[0]
    around = box(touched)
    if around is not None:
        assert need is not None
        assert all(start <= first and last <= stop for (start, stop), (first, last) in zip(need, around, strict=True))
        if all(map(le, strides, kernel)):
            assert need == around


@pytest.mark.parametrize(("rule", "expected"), [("SAME_UPPER", (0, 2)), ("SAME_LOWER", (0, 1)), ("VALID", (0, 2))])
def test_padding_may_be_what_keeps_sizes(rule: str, expected: tuple[int, int]) -> None:
    """A kernel of 2 over 4 pixels has one zero after them, or before them, or none."""
    pixels = 3 if rule == "VALID" else 4
    conv = operator("Conv", {"kernel_shape": [2, 2], "auto_pad": rule})
    region = ((0, 1), (0, 1), (0, 1), (0, 1))
    need = seen(conv, [(1, 1, 4, 4)], (1, 1, 2, 2), (1, 1, pixels, pixels), region)
    assert need == (((0, 1), (0, 1), expected, expected),)


@pytest.mark.parametrize(
    ("made", "inputs", "output", "region", "expected"),
    [
        (operator("Relu"), [(1, 2, 4)], (1, 2, 4), ((0, 1), (1, 2), (1, 3)), (((0, 1), (1, 2), (1, 3)),)),
        (
            operator("Add"),
            [(1, 2, 4), (2, 1)],
            (1, 2, 4),
            ((0, 1), (1, 2), (1, 3)),
            (((0, 1), (1, 2), (1, 3)), ((1, 2), (0, 1))),
        ),
        (
            operator("GlobalAveragePool"),
            [(1, 4, 3, 5)],
            (1, 4, 1, 1),
            ((0, 1), (1, 3), (0, 1), (0, 1)),
            (((0, 1), (1, 3), (0, 3), (0, 5)),),
        ),
        (
            operator("Slice", {"starts": [1, -4], "ends": [6, 9], "axes": [0, 1], "steps": [2, 1]}),
            [(7, 6)],
            (3, 4),
            ((1, 3), (0, 2)),
            (((3, 6), (2, 4)),),
        ),
        (operator("Slice", {"starts": [2], "ends": [6]}), [(7, 6)], (4, 6), ((1, 2), (0, 6)), (((3, 4), (0, 6)),)),
        (operator("Slice", {"starts": [0], "ends": [6]}), [(7, 6)], (6, 6), ((1, 2), (0, 6)), (((1, 2), (0, 6)),)),
        (
            operator("Slice", {"starts": [0], "ends": [7], "axes": [1], "seen_shapes": [[1, 12]]}),
            [(1, 3, 4)],
            (1, 7),
            ((0, 1), (0, 7)),
            (((0, 1), (0, 3), (0, 4)),),
        ),
        (operator("Pad", {"pads": [0, 1, 0, 2]}), [(2, 4)], (2, 7), ((0, 1), (2, 7)), (((0, 1), (1, 4)),)),
        (operator("Resize", {"mode": "nearest"}), [(2, 4)], (2, 12), ((0, 1), (2, 7)), (((0, 1), (0, 3)),)),
        (operator("Upsample"), [(2, 4)], (4, 12), ((1, 2), (3, 6)), (((0, 1), (1, 2)),)),
        (operator("Resize", {"mode": "linear"}), [(2, 4)], (2, 8), ((0, 2), (0, 8)), (((0, 2), (0, 4)),)),
        (operator("Pad", {"pads": [0, 1, 0, 2]}), [(2, 4)], (2, 7), ((0, 1), (0, 3)), (((0, 1), (0, 2)),)),
        (operator("Pad", {"pads": [0, 1, 0, 2]}), [(2, 4)], (2, 7), ((0, 1), (5, 7)), (None,)),
        (operator("Pad", {"pads": [0, -1, 0, 0]}), [(2, 4)], (2, 3), ((0, 1), (0, 2)), (((0, 1), (1, 3)),)),
        (operator("Flatten"), [(2, 1, 4, 1)], (2, 4), ((1, 2), (1, 3)), (((1, 2), (0, 1), (1, 3), (0, 1)),)),
        (operator("Softmax"), [(2, 4)], (2, 4), ((0, 2), (0, 4)), (((0, 2), (0, 4)),)),
        (operator("Softmax"), [(2, 4)], (2, 4), ((1, 2), (0, 4)), (((1, 2), (0, 4)),)),
        (operator("Softmax", {"axis": -1}), [(2, 4)], (2, 4), ((1, 2), (0, 4)), (((1, 2), (0, 4)),)),
        (operator("Softmax", {"axis": 1}), [(2, 4)], (2, 4), ((1, 2), (0, 4)), (((1, 2), (0, 4)),)),
        (operator("ReduceSum"), [(2, 4)], (2, 1), ((1, 2), (0, 1)), (((1, 2), (0, 4)),)),
        (LOG_SUM, [(2, 4)], (2, 1), ((1, 2), (0, 1)), (((1, 2), (0, 4)),)),
        (
            operator("ReduceLogSumExp", {"axes": [1], KEY_SLICE: 0}),
            [(2, 4)],
            (2, 1),
            ((1, 2), (0, 1)),
            (((1, 2), (0, 4)),),
        ),
        (operator("Reshape"), [(2, 6)], (3, 4), ((0, 3), (0, 4)), (((0, 2), (0, 6)),)),
        (operator("Mul"), [(1, 6, 1), (6, 1)], (1, 6), ((0, 1), (0, 6)), (((0, 1), (0, 6), (0, 1)), ((0, 6), (0, 1)))),
    ],
)
def test_what_other_kinds_see(
    made: Operator, inputs: list[Shape], output: Shape, region: Region, expected: tuple[Region | None, ...]
) -> None:
    assert seen(made, inputs, None, output, region) == expected


@pytest.mark.parametrize(
    ("made", "source", "output", "region"),
    [
        (operator("GlobalMaxPool"), (1, 4, 3, 3), (1, 4), ((0, 1), (0, 2))),
        (operator("Softmax"), (1, 2, 4), (2, 4), ((0, 1), (0, 4))),
        (operator("ReduceSum"), (2, 4), (1, 4), ((0, 1), (0, 2))),
        (operator("Odd"), (2, 4), (2, 1), ((0, 1), (0, 1))),
        (operator("ReduceLogSumExp", {"axes": [-1]}), (2, 4), (2, 1), ((0, 1), (0, 1))),
        (operator("ReduceLogSumExp", {"axes": [0], KEY_SLICE: 0}), (2, 4), (2, 1), ((0, 1), (0, 1))),
        (LOG_SUM, (2, 4), (2, 2), ((0, 1), (0, 1))),
        (operator("Slice", {"starts": [0], "ends": [7]}), (2, 7), (7,), ((0, 2),)),
        (operator("Softmax"), (2, 4), (2, 4), ((0, 2), (0, 3))),
        (operator("Softmax", {"axis": -2}), (2, 4), (2, 4), ((0, 1), (0, 4))),
        (operator("Softmax", {"axis": 0}), (2, 4), (2, 4), ((0, 1), (0, 4))),
        (operator("Pad", {"pads": [0, 1, 0, 2], "mode": "reflect"}), (2, 4), (2, 7), ((0, 1), (0, 7))),
        (operator("Pad", {"pads": [0, 1, 0, 1]}), (2, 4), (2, 7), ((0, 1), (0, 7))),
        (operator("Pad"), (4,), (4, 3), ((0, 2), (0, 3))),
        (operator("Transpose", {"perm": [0, 1, 3, 2]}), (1, 2, 3, 3), (1, 2, 3, 3), ((0, 1), (0, 2), (0, 1), (0, 3))),
        (operator("Slice", {"starts": [6], "ends": [0], "steps": [-1]}), (7,), (6,), ((0, 2),)),
        (operator("Slice"), (7,), (6,), ((0, 2),)),
        (operator("Slice", {"starts": [1, "x"], "ends": [6, 6]}), (7, 7), (6, 6), ((0, 2), (0, 2))),
        (operator("Resize", {"mode": "linear"}), (2, 4), (2, 8), ((0, 2), (0, 4))),
        (operator("Resize"), (2, 4), (2, 8), ((0, 2), (0, 4))),
        (operator("Resize", {"mode": "nearest", "nearest_mode": "ceil"}), (2, 4), (2, 8), ((0, 2), (0, 4))),
        (
            operator("Resize", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}),
            (2, 4),
            (2, 8),
            ((0, 2), (0, 4)),
        ),
        (operator("Resize", {"mode": "nearest"}), (2, 4), (2, 6), ((0, 2), (0, 3))),
        (operator("Resize", {"mode": "nearest"}), (2, 0), (2, 6), ((0, 2), (0, 3))),
        (operator("Resize", {"mode": "nearest", "seen_shapes": [[2, 4]]}), (4, 2), (4, 4), ((0, 2), (0, 3))),
        (operator("Resize", {"mode": "nearest"}), (8,), (2, 8), ((0, 1), (0, 8))),
        (operator("Resize", {"mode": "nearest"}), (2,), (2, 8), ((0, 1), (0, 8))),
        (operator("Upsample", {"mode": "linear"}), (2, 4), (2, 8), ((0, 2), (0, 4))),
        (operator("Reshape"), (2, 6), (3, 4), ((0, 1), (0, 4))),
        (operator("Relu"), (1, 6, 1), (1, 6), ((0, 1), (0, 4))),
        (operator("MaxPool"), (1, 1, 4, 4), (1, 1, 3, 3), ((0, 1), (0, 1), (0, 1), (0, 3))),
        (operator("Conv", {"kernel_shape": [2, 2]}), (1, 16), (1, 1, 3, 3), ((0, 1), (0, 1), (0, 1), (0, 3))),
    ],
)
def test_of_what_is_not_known_in_parts_nothing_is_said(
    made: Operator, source: Shape, output: Shape, region: Region
) -> None:
    with pytest.raises(LookupError):
        seen(made, [source], None, output, region)


@pytest.mark.parametrize("made", [operator("Softmax"), operator("ReduceSum"), LOG_SUM])
def test_of_two_inputs_nothing_is_said_where_one_is_known(made: Operator) -> None:
    output = (2, 4) if made.kind == "Softmax" else (2, 1)
    region = ((0, 1), (0, output[1]))
    assert len(seen(made, [(2, 4)], None, output, region)) == 1
    with pytest.raises(LookupError):
        seen(made, [(2, 4), (2, 4)], None, output, region)


def test_of_what_is_joined_all_have_the_rank_of_the_whole() -> None:
    join = operator("Concat", {"axis": 0})
    assert seen(join, [(2, 3), (2, 3)], None, (4, 3), ((1, 3), (0, 3))) == (((1, 2), (0, 3)), ((0, 1), (0, 3)))
    with pytest.raises(LookupError):
        seen(join, [(2, 3), (2,)], None, (4, 3), ((1, 3), (0, 3)))
