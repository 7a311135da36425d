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

# Seconds at M_R, M_H, M_P.
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

HUMAN_DESIGNED_MEAN_SECONDS = 0.296  # nine of the ten; DeepLabV3 with parameters: see below
DEEPLAB_WITH_PARAMETERS_SECONDS = (6.96, 17.242, 0.12)  # M_R, M_H, M_P
MEAN_REDUCTION_HUMAN_DESIGNED = 0.84
MEAN_REDUCTION_NAS = 0.85
HOURS_WITHOUT_PROOF = 24  # free order, each NAS network
