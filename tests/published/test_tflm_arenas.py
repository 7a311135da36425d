"""Arenas of TFLite Micro's own planner: the heads that `print_allocations` of tflite_micro reports for its models.

A head also holds the scratch buffers of kernels, which neither a file nor a plan contains: 32,256 bytes of the
transposed convolution's (eight for each of its 4,032 sums).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.answer.problem import Objective
from onchip.answer.result import Status
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.formats.tflite.arena import ALIGNMENT_BYTES

MODELS = Path(__file__).parents[1] / "data" / "tflite"
HEADS = {
    "hello_world_int8": 32,
    "micro_speech_quantized": 5_968,
    "seanet_transpose_conv2": 41_616 - 32_256,
    "trained_lstm_int8": 1_536,
}


@pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
@pytest.mark.parametrize("name", HEADS)
def test_no_arena_is_larger_than_that_of_tflite_micro(name: str) -> None:
    target = Target(sram=2**20, alignment_bytes=ALIGNMENT_BYTES)
    outcome = plan_network(Request(str(MODELS / f"{name}.tflite"), target=target, objective=Objective.PEAK))
    assert outcome.result.status is Status.OPTIMAL
    assert outcome.figures is not None
    assert outcome.figures.arena_bytes <= HEADS[name]
