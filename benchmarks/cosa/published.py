"""Figures of CoSA's paper (Huang et al., ISCA 2021, arXiv 2105.01898: sections V-A to V-C, Table VI)."""

from __future__ import annotations

WORKLOADS = ("resnet50", "resnext50", "deepbench-ocr", "deepbench-face-recognition")
"""The paper's four workloads, with one geometric mean over all; its mapper is Timeloop's Hybrid with 32 threads."""

BASELINE = "simba"
# Speed-up over random (best of 5 valid) and over hybrid, by the preset for its machine; Timeloop's cycles.
LATENCY = {"simba": (5.2, 1.5), "simba-64-pes": (4.4, 1.1), "simba-large-buffers": (5.7, 1.4)}
# "22% more energy-efficient than the best Timeloop Hybrid solutions"; over random only drawn, not said.
ENERGY_OVER_HYBRID = 1.22
# The same two speed-ups on the authors' simulator of the network on the chip, baseline machine.
LATENCY_ON_NETWORK = (3.3, 2.5)
# Of one layer, 3_7_512_512_1, against both.
LATENCY_OF_ONE_LAYER = 7.0
# A hybrid search of twice as many valid mappings is that much faster hardware.
HYBRID_WITH_TWICE_THE_MAPPINGS = 0.075

# The slowest mapping over the fastest: figure 3, orders at the global buffer; figure 4, spatial loops.
SPREAD_OF_ORDERS, SPREAD_OF_ELEMENTS = 1.7, 4.3

# Seconds, mappings drawn and mappings costed for each layer (Table VI).
SECONDS = {"cosa": 4.2, "random": 4.6, "hybrid": 379.9}
DRAWN = {"cosa": 1, "random": 20_000, "hybrid": 67_000_000}
COSTED = {"cosa": 1, "random": 5, "hybrid": 16_000}
