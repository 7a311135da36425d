"""A worker process: it answers one point after another until nobody asks any more, and dies with whoever asks."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

from onchip.sweeps.point import PointAnswer, PointStatus, SweepPoint

SET_DEATH_SIGNAL: Final = 1
"""Linux's PR_SET_PDEATHSIG."""
OUT_OF_MEMORY: Final = "it takes more memory than it may"


def main() -> None:
    """Serve the connection whose descriptor and whose maker's process id are the arguments."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which ends its workers
    warnings.simplefilter("ignore")  # networks' are said where they are read first, and the cache's cost time alone
    _die_with(int(sys.argv[2]))
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        sys.path[:] = connection.recv()  # so that it finds what it is to call
        prepare, answer_point, memory_bytes = connection.recv()
        prepare()
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        connection.send(None)  # ready: the time of a point does not count what it takes to begin
        while True:
            connection.send(answered(answer_point, connection.recv()))


def answered(answer_point: Callable[[SweepPoint], PointAnswer], point: SweepPoint) -> PointAnswer:
    """The answer of a point, or why it has none: nothing that one point raises ends a sweep."""
    try:
        return answer_point(point)
    except MemoryError:
        return PointAnswer(PointStatus.FAILED, reason=OUT_OF_MEMORY)
    except Exception as error:  # a defect of one point is no end of the others
        reason = " ".join(str(error).split()) or type(error).__name__
        return PointAnswer(PointStatus.FAILED, reason=f"{type(error).__name__}: {reason}")


def _die_with(parent: int) -> None:
    """Ask the system to end this process when the one that made it ends, however that comes to pass."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before it could be asked
        os._exit(1)
