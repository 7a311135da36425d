"""A worker process: it answers points until the connection closes, and dies with its parent."""

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
"""Delay in which answers are collected into one message, which costs as much as a small point."""
COUNT_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """The number of points that a worker has answered, in memory shared with its parent, so that it survives a kill."""

    descriptor: int
    shared: mmap.mmap

    @classmethod
    def made(cls) -> Self:
        """Return a count of 0 in new shared memory."""
        if sys.platform == "linux":
            descriptor = os.memfd_create("onchip")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, COUNT_BYTES)
        return cls.at(descriptor)

    @classmethod
    def at(cls, descriptor: int) -> Self:
        """Return the count in the memory of a descriptor."""
        return cls(descriptor, mmap.mmap(descriptor, COUNT_BYTES))

    @property
    def value(self) -> int:
        """Return the number of points answered so far."""
        return int.from_bytes(self.shared[:COUNT_BYTES], "little")

    def add(self) -> None:
        """Count one more answered point."""
        self.shared[:COUNT_BYTES] = (self.value + 1).to_bytes(COUNT_BYTES, "little")

    def close(self) -> None:
        """Release the shared memory and its descriptor."""
        self.shared.close()
        os.close(self.descriptor)


def main() -> None:
    """Serve a connection; the arguments are its descriptor, that of the count, and the parent's process id."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep handles Ctrl-C and ends its workers
    warnings.simplefilter("ignore")  # networks' warnings were shown by the parent; the cache's cost only time
    _die_with(int(sys.argv[3]))
    connection, count = Connection(int(sys.argv[1])), AnswerCount.at(int(sys.argv[2]))
    with suppress(EOFError, OSError):
        sys.path[:] = connection.recv()  # to find the function to call
        prepare, answer_point, memory_bytes = connection.recv()
        prepare()
        outbox = _outbox(connection)  # its thread needs memory before there is a limit
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        connection.send([])  # ready: the start does not count as time of a point
        _serve(connection, outbox, count, answer_point)


def _outbox(connection: Connection) -> SimpleQueue[PointAnswer]:
    """Return a queue whose items are sent."""
    outbox: SimpleQueue[PointAnswer] = SimpleQueue()
    Thread(target=_send_together, args=(connection, outbox), daemon=True).start()
    return outbox


def _serve(
    connection: Connection,
    outbox: SimpleQueue[PointAnswer],
    count: AnswerCount,
    answer_point: Callable[[SweepPoint], PointAnswer],
) -> None:
    """Answer points until the connection closes; raises EOFError then."""
    while True:
        for point in connection.recv():
            answer = answered(answer_point, point)
            count.add()
            outbox.put(answer)


def _send_together(connection: Connection, outbox: SimpleQueue[PointAnswer]) -> None:
    """Send answers as they come, with those of a short interval in one message."""
    with suppress(OSError):
        while True:
            answers = [outbox.get()]
            time.sleep(SECONDS_BETWEEN_ANSWERS)
            with suppress(Empty):
                while True:
                    answers.append(outbox.get_nowait())
            connection.send(answers)


def answered(answer_point: Callable[[SweepPoint], PointAnswer], point: SweepPoint) -> PointAnswer:
    """Return the answer of a point, or a failed one: no error of one point ends a sweep."""
    try:
        return answer_point(point)
    except MemoryError:
        return PointAnswer(PointStatus.FAILED, reason=OUT_OF_MEMORY)
    except Exception as error:  # a defect of one point must not end the others
        reason = " ".join(str(error).split()) or type(error).__name__
        return PointAnswer(PointStatus.FAILED, reason=f"{type(error).__name__}: {reason}")


def _die_with(parent: int) -> None:
    """Ask the system to end this process when its parent ends for any reason."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)
