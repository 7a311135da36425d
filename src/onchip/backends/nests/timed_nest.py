"""Run as a program with one thread: times compiled nests and their peers in turn, and compares what they compute.

It reads a TimedNest's fields as JSON from standard input, and prints what it found as JSON. In a process of its own,
as BLAS takes its number of threads from the environment when numpy is imported.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Final

from onchip.backends.nests.nest_peers import TimedNest, numpy_nest, onnxruntime_nest

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[Any]

ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
SHORTEST_SECONDS: Final = 2e-3
"""Of one measurement: shorter runs are repeated within it."""
ROUNDING: Final = 1e-5
NUMPY: Final = "numpy"
ONNXRUNTIME: Final = "onnxruntime"
NUMPY_RUNS: Final = 3


def measured(nest: TimedNest) -> dict[str, object]:
    """Seconds of the nest and of its peer, the median of their ratios, and the greatest difference of their values.

    Of integers that is from numpy's values: sums of products in pairs may saturate in onnxruntime on older processors.
    """
    import numpy as np

    random = np.random.default_rng(0)
    b = nest.bounds
    shapes = (b["N"], *nest.pixels, b["G"], b["C"]), (b["R"], b["S"], b["C"], b["G"], b["K"])
    source, weight = (
        random.integers(-128, 128, shape, np.int8) if nest.is_integer else random.standard_normal(shape, np.float32)
        for shape in shapes
    )
    output = np.empty((b["N"], b["P"], b["Q"], b["G"], b["K"]), np.int32 if nest.is_integer else np.float32)
    function = ctypes.CDLL(nest.library)[nest.function]
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    pointers = source.ctypes.data, weight.ctypes.data, output.ctypes.data
    in_numpy = numpy_nest(nest, source, weight)
    in_onnxruntime = onnxruntime_nest(nest, source, weight)
    function(*pointers)
    found = _times(lambda: function(*pointers), in_onnxruntime or in_numpy, nest)
    found["numpy_seconds"] = found["peer_seconds"] if in_onnxruntime is None else _numpy_seconds(in_numpy)
    reference = in_numpy() if nest.is_integer or in_onnxruntime is None else in_onnxruntime()
    peer = NUMPY if in_onnxruntime is None else ONNXRUNTIME
    error = float(np.abs(output.astype(np.float64) - reference).max() / max(1.0, float(np.abs(reference).max())))
    return {**found, "peer": peer, "error": error, "is_right": error <= (0.0 if nest.is_integer else ROUNDING * 10)}


def _times(ours: Callable[[], object], theirs: Callable[[], object], nest: TimedNest) -> dict[str, object]:
    """In turn, so that what else the machine does comes to both."""
    inner = [_runs_in(SHORTEST_SECONDS, one) for one in (ours, theirs)]
    end = perf_counter() + nest.seconds
    seconds: list[tuple[float, float]] = []
    while len(seconds) < nest.repeats or perf_counter() < end:
        seconds.append((_seconds(ours, inner[0]), _seconds(theirs, inner[1])))
    return {
        "seconds": min(one for one, _ in seconds),
        "peer_seconds": min(other for _, other in seconds),
        "ratio": median(other / one for one, other in seconds),
        "repeats": len(seconds),
    }


def _numpy_seconds(run: Callable[[], Values]) -> float:
    """Of numpy where it is not the peer: the least of a few runs."""
    inner = _runs_in(SHORTEST_SECONDS, run)
    return min(_seconds(run, inner) for _ in range(NUMPY_RUNS))


def _seconds(run: Callable[[], object], times: int) -> float:
    """Of the processor: what it does for others meanwhile is not counted."""
    begin = process_time()
    for _ in range(times):
        run()
    return (process_time() - begin) / times


def _runs_in(seconds: float, run: Callable[[], object]) -> int:
    run()
    return max(1, int(seconds / max(1e-7, _seconds(run, 1))))


def main() -> None:
    """Measure what standard input says, and print what was found."""
    said = json.load(sys.stdin)
    nest = TimedNest(**{**said, "library": str(Path(said["library"]).resolve())})
    print(json.dumps(measured(nest)))


if __name__ == "__main__":
    main()
