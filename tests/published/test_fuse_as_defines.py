"""`fuse --accounting defines --method loma` compared with a local run of DeFiNES (commit 7097d60, `loma_lpf_limit` 6).

Both keep the first of several mappings of equal energy, so latencies agree as well.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.stacks import OverlapMode
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.arch.energies import stated
from onchip.model.accounting.accounting import AccountingName
from support.series import with_slow

FULLY, H, NOT = OverlapMode.FULLY_CACHED, OverlapMode.H_CACHED, OverlapMode.RECOMPUTE
META = "meta-prototype-df"
POINTS = (
    ("fsrcnn", META, 4, 72, FULLY, 1.813734, 18.484958),
    ("fsrcnn", META, 4, 72, H, 1.851289, 19.449710),
    ("fsrcnn", META, 4, 72, NOT, 3.490012, 43.894413),
    ("fsrcnn", META, 60, 72, FULLY, 2.154700, 20.187977),
    ("fsrcnn", META, 60, 72, H, 2.220992, 21.345958),
    ("fsrcnn", META, 60, 72, NOT, 2.361363, 22.776595),
    ("fsrcnn", META, 16, 18, FULLY, 1.822761, 20.523395),
    ("fsrcnn", META, 16, 18, H, 1.992690, 23.095923),
    ("fsrcnn", META, 16, 18, NOT, 2.338878, 29.767053),
    ("fsrcnn", META, 960, 540, FULLY, 20.265262, 29.008303),
    ("fsrcnn", META, 960, 540, H, 20.265262, 29.008303),
    ("fsrcnn", META, 960, 540, NOT, 20.265262, 29.008303),
    ("fsrcnn", "tpu-like-df", 60, 72, FULLY, 3.477400, 57.725523),
    ("fsrcnn", "tpu-like-df", 240, 270, NOT, 19.920876, 68.287848),
    ("fsrcnn", "edge-tpu-like-df", 60, 72, FULLY, 1.966807, 16.578707),
    ("fsrcnn", "edge-tpu-like-df", 16, 18, H, 2.045896, 21.556798),
    ("fsrcnn", "ascend-like-df", 60, 72, FULLY, 2.397509, 25.671460),
    ("fsrcnn", "ascend-like-df", 16, 18, H, 2.566935, 34.868889),
    ("fsrcnn", "tesla-npu-like-df", 60, 72, FULLY, 2.099515, 18.840865),
    ("fsrcnn", "tesla-npu-like-df", 240, 270, NOT, 18.403614, 31.456394),
    ("mc-cnn", META, 4, 72, FULLY, 8.363588, 53.805794),
    ("mc-cnn", META, 60, 72, FULLY, 8.570587, 53.455471),
    ("mc-cnn", META, 16, 18, H, 8.710536, 62.491464),
    ("mc-cnn", META, 240, 270, NOT, 27.812233, 57.340640),
)
"""Columns and rows of a tile, mode, mJ, millions of cycles; the paper lacks figures of other machines and networks."""


@pytest.mark.parametrize(
    ("network", "machine", "columns", "rows", "mode", "millijoules", "megacycles"),
    with_slow(POINTS, lambda point: point not in POINTS[::4]),
)
def test_the_command_gives_what_defines_gives(
    network: str, machine: str, columns: int, rows: int, mode: OverlapMode, millijoules: float, megacycles: float
) -> None:
    options = FusionOptions(groups="one", tile=(columns, rows), mode=mode)
    asked = FusionRequest(
        f"{network}-defines",
        machine,
        options=replace(options, mapper="loma", accounting=AccountingName.DEFINES),
        reading=Reading(bits=8),
    )
    figures = fuse_network(asked).figures
    assert figures is not None
    assert stated(figures.energy_pj) / 1e9 == pytest.approx(millijoules, rel=1e-6)
    assert figures.latency_cycles / 1e6 == pytest.approx(megacycles, rel=1e-6)
