"""A worker process: it answers one point after another until nobody asks any more, and dies with whoever asks."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, Self

from onchip.sweeps.point import PointAnswer, PointStatus, SweepPoint

SET_DEATH_SIGNAL: Final = 1
"""Linux's PR_SET_PDEATHSIG."""
OUT_OF_MEMORY: Final = "it takes more memory than it may"
SECONDS_BETWEEN_ANSWERS: Final = 0.02
"""How long an answer waits for others, to be sent with them: a message costs as much as a small point."""
COUNT_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """How many points a worker has answered, in memory that who made it shares: known even if it ends at once."""

    descriptor: int
    shared: mmap.mmap

    @classmethod
    def made(cls) -> Self:
        """Return a count of 0 in memory of its own."""
        if sys.platform == "linux":
            descriptor = os.memfd_create("onchip")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, COUNT_BYTES)
        return cls.at(descriptor)

    @classmethod
    def at(cls, descriptor: int) -> Self:
        """Return the count that is behind a descriptor."""
        return cls(descriptor, mmap.mmap(descriptor, COUNT_BYTES))

    @property
    def value(self) -> int:
        """How many points are answered by now."""
        return int.from_bytes(self.shared[:COUNT_BYTES], "little")

    def add(self) -> None:
        """Count one more answered point."""
        self.shared[:COUNT_BYTES] = (self.value + 1).to_bytes(COUNT_BYTES, "little")

    def close(self) -> None:
        """Give the shared memory back."""
        self.shared.close()
        os.close(self.descriptor)


def main() -> None:
    """Serve the connection whose descriptor, whose count's and whose maker's process id are the arguments."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which ends its workers
    warnings.simplefilter("ignore")  # networks' are said where they are read first, and the cache's cost time alone
    _die_with(int(sys.argv[3]))
    connection, count = Connection(int(sys.argv[1])), AnswerCount.at(int(sys.argv[2]))
    with suppress(EOFError, OSError):
        sys.path[:] = connection.recv()  # so that it finds what it is to call
        prepare, answer_point, memory_bytes = connection.recv()
        prepare()
        outbox = _outbox(connection)  # its thread needs memory before there is a limit
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        connection.send([])  # ready: the time of a point does not count what it takes to begin
        _serve(connection, outbox, count, answer_point)


def _outbox(connection: Connection) -> SimpleQueue[PointAnswer]:
    """What is put into it is sent."""
    outbox: SimpleQueue[PointAnswer] = SimpleQueue()
    Thread(target=_send_together, args=(connection, outbox), daemon=True).start()
    return outbox


def _serve(
    connection: Connection,
    outbox: SimpleQueue[PointAnswer],
    count: AnswerCount,
    answer_point: Callable[[SweepPoint], PointAnswer],
) -> None:
    """Answer points as they come, until nobody asks any more; raises EOFError then."""
    while True:
        for point in connection.recv():
            answer = answered(answer_point, point)
            count.add()
            outbox.put(answer)


def _send_together(connection: Connection, outbox: SimpleQueue[PointAnswer]) -> None:
    """Send answers as they come, those together that come within a moment."""
    with suppress(OSError):
        while True:
            answers = [outbox.get()]
            time.sleep(SECONDS_BETWEEN_ANSWERS)
            with suppress(Empty):
                while True:
                    answers.append(outbox.get_nowait())
            connection.send(answers)


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
