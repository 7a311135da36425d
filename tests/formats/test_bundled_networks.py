"""The fourteen networks of COSMA against counts and bytes measured independently on the same exports.

Operators raw and fused; bytes of all activations fused; the largest working set of an operator (M_R)
and the peak of the given order, raw and fused. One byte per element, activations only.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from onchip.errors import UsageError
from onchip.formats.own.graph_json import load_network
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.transform.rewrite.activations import fuse


class Facts(NamedTuple):
    operators: tuple[int, int]
    activation_bytes_fused: int
    required_bytes: tuple[int, int]
    peak_bytes: tuple[int, int]


PUBLISHED = {
    "resnet50": Facts((174, 72), 16_987_624, (2_408_448, 2_408_448), (2_408_448, 2_408_448)),
    "densenet121": Facts((430, 250), 28_527_080, (1_605_632, 1_605_632), (2_107_392, 2_107_392)),
    "resnext50_32x4d": Facts((174, 72), 20_274_152, (2_408_448, 2_408_448), (2_408_448, 2_408_448)),
    "r2plus1d_18": Facts((118, 47), 288_153_448, (57_802_752, 41_746_432), (70_647_808, 54_591_488)),
    "s3d": Facts((256, 102), 61_848_448, (25_690_112, 19_267_584), (25_690_112, 19_267_584)),
    "fcn_resnet50": Facts((177, 73), 40_659_024, (4_816_896, 4_816_896), (4_816_896, 4_816_896)),
    "lraspp_mobilenet_v3_large": Facts((193, 97), 8_137_952, (1_605_632, 1_070_160), (1_605_632, 1_070_160)),
    "deeplabv3_resnet50": Facts((198, 82), 42_668_368, (4_816_896, 4_816_896), (4_816_896, 4_816_896)),
    "transformer": Facts((158, 146), 54_067_200, (2_621_440, 1_638_400), (3_112_960, 2_129_920)),
    "vit_b_16": Facts((125, 113), 26_173_672, (1_210_368, 756_480), (1_361_664, 907_776)),
    "pnasnet5large": Facts((954, 671), 115_564_570, (2_452_416, 2_452_416), (4_934_166, 4_934_166)),
    "nasnetalarge": Facts((1264, 890), 113_500_240, (2_496_960, 2_496_960), (4_547_850, 4_547_850)),
    "amoebanetd_18_256": Facts((1045, 627), 105_324_520, (3_211_264, 3_211_264), (5_619_712, 4_816_896)),
    "darts_v2": Facts((708, 485), 13_784_488, (602_112, 451_584), (602_112, 451_584)),
}


def sizes_in_bytes(graph: Graph) -> dict[str, int]:
    return {tensor.name: tensor.size_bytes for tensor in graph.tensors if tensor.role is not Role.PARAMETER}


def required_bytes(graph: Graph) -> int:
    size = sizes_in_bytes(graph)
    return max(sum(size[name] for name in {*operator.inputs, *operator.outputs}) for operator in graph.operators)


def peak_bytes_of_the_given_order(graph: Graph) -> int:
    """Return the peak of live bytes; a tensor is live from its first operator to its last."""
    steps: dict[str, list[int]] = {}
    for step, operator in enumerate(graph.operators):
        for name in (*operator.inputs, *operator.outputs):
            steps.setdefault(name, []).append(step)
    size = sizes_in_bytes(graph)
    return max(
        sum(size[name] for name, used in steps.items() if used[0] <= step <= used[-1])
        for step in range(len(graph.operators))
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_bundled_network_has_the_published_counts_and_bytes(name: str) -> None:
    raw = load_network(name).with_bits(8)
    fused = fuse(raw)
    assert raw.name == name
    assert PUBLISHED[name] == Facts(
        (len(raw.operators), len(fused.operators)),
        sum(sizes_in_bytes(fused).values()),
        (required_bytes(raw), required_bytes(fused)),
        (peak_bytes_of_the_given_order(raw), peak_bytes_of_the_given_order(fused)),
    )


def test_an_unknown_network_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no network 'resnet51' is bundled"):
        load_network("resnet51")
