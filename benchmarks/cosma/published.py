"""Figures of COSMA's paper (arXiv 2311.18246: section V and Table II; Gurobi on an Apple M1 Pro)."""

from __future__ import annotations

HUMAN_DESIGNED = (
    "resnet50",
    "densenet121",
    "resnext50_32x4d",
    "r2plus1d_18",
    "s3d",
    "fcn_resnet50",
    "lraspp_mobilenet_v3_large",
    "deeplabv3_resnet50",
    "transformer",
    "vit_b_16",
)
NAS = ("pnasnet5large", "amoebanetd_18_256", "nasnetalarge", "darts_v2")
TABLE_II = {
    "given": {
        "pnasnet5large": (12.2, 12.3, 12.2),
        "amoebanetd_18_256": (8.1, 8.3, 8.1),
        "nasnetalarge": (19.8, 20.0, 19.7),
        "darts_v2": (5.0, 5.0, 5.0),
    },
    "min-peak": {
        "pnasnet5large": (24.2, 22.4, 23.5),
        "amoebanetd_18_256": (84.4, 8.2, 8.5),
        "nasnetalarge": (22.4, 22.4, 21.6),
        "darts_v2": (5.2, 5.2, 5.2),
    },
    "divide": {
        "pnasnet5large": (65.9, 63.5, 58.0),
        "amoebanetd_18_256": (62.1, 59.9, 112.8),
        "nasnetalarge": (37.5, 22.9, 39.2),
        "darts_v2": (19.1, 19.1, 19.1),
    },
}
"""Seconds at M_R, M_H and M_P. The mean of nine of the ten human-designed networks is 0.296 s."""
