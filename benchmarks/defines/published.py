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

LAYER_BY_LAYER_MJ: Final = 19.1
LAYER_BY_LAYER_MCYCLES: Final = 29.0
"""Latency layer by layer in figure 12, at limit 8."""
LAYER_BY_LAYER_AT_8: Final = (19.118, 28.989, 523.0)
"""Results of the program, and its seconds."""
WORST_TO_BEST_ENERGY: Final = 26.0
WORST_TO_BEST_LATENCY: Final = 57.0
"""Over the 108 points of figure 12."""
CASE_STUDY_1_HOURS: Final = {8: 18.0, 6: 0.75}
"""Hours by limit, with one thread."""

# Case study 2 (figure 16): single layers divided by tiles of 4 x 72, fully cached, on the three networks of large maps.
SINGLE_LAYERS_TO_4X72: Final = {"fsrcnn": 10.0, "dmcnn-vd": 10.0, "mc-cnn": 10.0}
# Tiles of 4 x 72 divided by the best combination, and single layers by it.
MOBILENET_4X72_TO_BEST: Final = 2.0
MOBILENET_SINGLE_LAYERS_TO_BEST: Final = 5.7

# Case study 3 (figure 17), geometric means over the five networks, in energy: layer by layer divided by depth-first.
GREATEST_GAIN_AS_DESIGNED: Final = 4.1
NO_GAIN_AS_DESIGNED: Final = "tpu-like-defines"
# Depth-first on the machine as designed divided by depth-first on its variant.
GAIN_BY_VARIANT: Final = {"tpu-like-defines": 6.0, "edge-tpu-like": 4.3}
# The variant divided by the machine as designed, layer by layer, at most.
VARIANT_LAYER_BY_LAYER: Final = 1.012
# Layer by layer as designed divided by depth-first on the variant: the greatest.
GAIN_OF_BOTH: Final = {"edge-tpu-like": 4.9}

# Figure 18. (a) The best for DRAM traffic alone divided by the best in energy, FSRCNN.
DRAM_ONLY: Final = {"meta-prototype-df": 5.64}
# (b) The share of energy that skipping levels on the chip saves.
SKIPPING_LEVELS: Final = (0.17, 0.18)
# (c) The best for activations alone divided by the best in energy.
ACTIVATIONS_ONLY: Final = {"meta-prototype-df": 2.34, "edge-tpu-like-df": 10.2}

FEATURES: Final = (
    "recompute",
    "h-cached",
    "fully-cached",
    "data on the chip modelled",
    "several levels skipped",
    "weights modelled",
    "made least",
)
"""Table II's columns; one cell of its rows cannot be read."""
FRAMEWORKS: Final = {
    "DNNVM": ("no", "yes", "no", "?", "no", "yes", "latency"),
    "Efficient-S": ("yes", "no", "no", "yes", "no", "no", "latency"),
    "LBDF": ("yes", "no", "yes", "no", "no", "no", "DRAM"),
    "ConvFusion": ("yes", "no", "yes", "no", "no", "yes", "DRAM"),
    "Optimus": ("yes", "no", "yes", "no", "no", "yes", "DRAM"),
    "DNNFuser": ("yes", "no", "no", "yes", "no", "yes", "DRAM, memory"),
    "DeFiNES": ("yes", "yes", "yes", "yes", "yes", "yes", "energy, latency"),
}

# Figure 11 (a): cycles of FSRCNN measured on DepFiN, as KULeuven-MICAS/stream (branch validation) has them; the other
# two networks' are drawn alone. By how much the paper's own latencies are off.
DEPFIN_CYCLES: Final = {"fsrcnn": 6.18e6}
DEPFIN_WITHIN: Final = {"fsrcnn": 0.10, "mc-cnn": 0.03, "reference": 0.03}
