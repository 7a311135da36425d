"""Figures of CoSA's paper (Huang et al., ISCA 2021, arXiv 2105.01898: sections V-A to V-C, Table VI).

CoSA needs 1.22 times less energy than hybrid search on the baseline machine. On the authors' network on a chip it is
3.3 times faster than random and 2.5 times faster than hybrid search; for the layer 3_7_512_512_1 7 times faster than
both. The slowest mapping over the fastest is 1.7 for orders (figure 3) and 4.3 for spatial loops (figure 4). Seconds a
layer (Table VI): CoSA 4.2, random 4.6 for 20,000 mappings drawn, hybrid 379.9 for 67 million.
"""

from __future__ import annotations

WORKLOADS = ("resnet50", "resnext50", "deepbench-ocr", "deepbench-face-recognition")
"""The paper's four workloads, with one geometric mean over all; its mapper is Timeloop's Hybrid with 32 threads."""
BASELINE = "simba"
LATENCY = {"simba": (5.2, 1.5), "simba-64-pes": (4.4, 1.1), "simba-large-buffers": (5.7, 1.4)}
"""Speed-up over random (best of five valid mappings) and over hybrid, by machine; Timeloop's cycles."""
