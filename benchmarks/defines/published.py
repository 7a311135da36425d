"""Figures of DeFiNES: from its paper (Mei, Goetschalckx et al., HPCA 2023, arXiv 2212.05344), and from runs of it.

The program is KULeuven-MICAS/DeFiNES, commit 7097d60; energies in mJ, latencies in millions of cycles. The paper's
figures are drawn, so this file has only the numbers that its text states about its heat maps and bars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.stacks import OverlapMode, Tiling

NETWORKS: Final = ("fsrcnn", "dmcnn-vd", "mc-cnn", "mobilenetv1", "resnet18")
MACHINES: Final = {
    "meta-prototype": "meta-prototype-df",
    "tpu-like-defines": "tpu-like-df",
    "edge-tpu-like": "edge-tpu-like-df",
    "ascend-like": "ascend-like-df",
    "tesla-npu-like": "tesla-npu-like-df",
}
"""Each machine as designed for one layer at a time, and its variant for depth-first execution."""
CASE_STUDY_MACHINE: Final = "meta-prototype-df"
BEST: Final = Tiling(4, 72, OverlapMode.FULLY_CACHED)
"""Best tiling of case study 1."""


@dataclass(frozen=True, slots=True)
class Point:
    """FSRCNN on `meta-prototype-df`, optimised for energy, `loma_lpf_limit` 6; accesses in millions of elements.

    `accesses` are by memory: for copies, activations, weights. `seconds` are of one busy core.
    """

    tiling: Tiling
    energy_mj: float
    latency_mcycles: float
    macs: int
    tile_types: int
    seconds: float
    accesses: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)


_FULLY, _H, _NOT = OverlapMode.FULLY_CACHED, OverlapMode.H_CACHED, OverlapMode.RECOMPUTE
_DRAM: Final = (0.5396, 8.294, 0.01599)
POINTS: Final = (
    Point(
        Tiling(4, 72, _FULLY),
        1.8137,
        18.485,
        8_362_594_208,
        9,
        39,
        {
            "dram": _DRAM,
            "activation_global_buffer": (3.47, 16.67, 0.0),
            "weight_global_buffer": (0.0, 0.0, 0.03198),
            "activation_local_buffer": (3.47, 662.6, 0.0),
            "weight_local_buffer": (0.0, 0.0, 523.7),
        },
    ),
    Point(Tiling(4, 72, _H), 1.8513, 19.450, 8_687_604_544, 6, 23),
    Point(Tiling(4, 72, _NOT), 3.4900, 43.894, 15_579_079_680, 3, 17),
    Point(
        Tiling(60, 72, _FULLY),
        2.1547,
        20.188,
        8_362_594_208,
        9,
        39,
        {
            "dram": _DRAM,
            "activation_global_buffer": (26.38, 164.2, 0.0),
            "weight_global_buffer": (0.0, 0.0, 0.03198),
            "activation_local_buffer": (26.38, 808.1, 0.0),
            "weight_local_buffer": (0.0, 0.0, 523.7),
        },
    ),
    Point(Tiling(60, 72, _H), 2.2210, 21.346, 8_687_604_544, 6, 25),
    Point(Tiling(60, 72, _NOT), 2.3614, 22.777, 9_120_123_904, 3, 12),
    *(Point(Tiling(960, 540, mode), 20.265, 29.008, 8_362_594_208, 1, 8.6) for mode in (_FULLY, _H, _NOT)),
)
ENERGY_WITHIN: Final = 1e-4
LATENCY_WITHIN: Final = 1e-4
ROUNDING: Final = 1e-4
"""Relative rounding of the figures above."""
