"""The tests of the verifier, collected once in one process; a fork per mutant runs those that may detect it.

The separate process of a mutant leaves no trace of it, and no module is imported twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from mutation.touched import NumbersByModule, ProbedModules

SECONDS_AT_LEAST = 2.0
TIMES_AS_LONG = 10
"""A test fails if it computes longer than `SECONDS_AT_LEAST` plus this multiple of its time without a mutant."""

SECONDS_OF_ALL = 300.0
"""Seconds of compute for collecting tests and running them together."""

LONGEST_NAME = 4096
BEFORE_TESTS = "before the first test"
TOLD_EVERY = 100
"""Number of tests after which tracing reports its progress."""

FEW_TESTS = 20
"""Number of tests whose files alone are collected first for a mutant of code that runs at import."""

MOST_BYTES = 4 << 30
"""Bytes of memory that an endless mutant may take until its time is over."""

TESTS = (
    "tests/refusals",
    "tests/verify",
    "tests/contract/test_static_packing.py",
    "tests/ops/test_contractions.py",
    "tests/ops/test_layers_of.py",
    "tests/scheduling/test_random_groups.py",
    "tests/transform/test_attention_nests.py",
    "tests/transform/test_channel_slices.py",
    "tests/transform/test_joined_maps.py",
    "tests/transform/test_tile_graph.py",
)
"""Tests of the verifier, and tests in which its reading of loop nests, tiles or packings is compared with another."""

NOT_OF_ONE_MUTANT = (
    "tests/refusals/test_mutations.py",
    "tests/refusals/test_mutants_explained.py",
    "tests/scheduling/test_random_groups.py::test_no_schedule_of_matrices_is_below_the_bound",
    "tests/scheduling/test_random_groups.py::test_no_schedule_with_shuffles_is_below_the_bound",
    "tests/verify/test_plan_figures.py::test_three_clocks_agree_on_ten_thousand_programs",
)
"""Tests that make mutants themselves, of bounds, and one that traces for minutes what a shorter one beside it runs."""


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A function that runs in a forked process; the pipe can be read when it ends."""

    pid: int
    pipe: int

    @classmethod
    def running(cls, function: Callable[[], Any]) -> ChildProcess:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reading)
                _silence()
                answer = json.dumps(function()).encode()
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(answer)
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        return cls(child, reading)

    def answer(self) -> Any:  # noqa: ANN401 (JSON)
        """Return the function's result, passed as JSON; None if the process ended early."""
        with os.fdopen(self.pipe, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(self.pid, 0)
        return json.loads(answer) if answer else None


Begin: TypeAlias = Callable[[str], None]
"""A function that hears of each test before it runs."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Tests of a mutant that run in a separate process; the file holds the name of the last that began."""

    process: ChildProcess
    begun: int

    @classmethod
    def running(cls, first_failure: Callable[[Begin], str | None]) -> Attempt:
        begun = os.memfd_create("begun")

        def begin(name: str) -> None:
            os.pwrite(begun, name.ljust(LONGEST_NAME).encode(), 0)

        return cls(ChildProcess.running(lambda: first_failure(begin) or ""), begun)

    def fileno(self) -> int:
        """Return the descriptor that can be read when the tests have ended."""
        return self.process.pipe

    def killer(self) -> str | None:
        """Return the test that failed or ended the process; None if all passed.

        Raises RuntimeError if the process ended before any test began.
        """
        failed = self.process.answer()
        last = os.pread(self.begun, LONGEST_NAME, 0).decode().strip()
        os.close(self.begun)
        if not last:
            raise RuntimeError("a mutant cannot be put in place")
        return last if failed is None else failed or None


@dataclass(frozen=True, slots=True)
class Trace:
    """Lines of the verifier that a test runs, measured mutants that differ there, and its compute time in seconds."""

    lines: NumbersByModule
    differing: NumbersByModule
    seconds: float


def names_by_number(numbers: Mapping[str, NumbersByModule]) -> Mapping[tuple[str, int], Sequence[str]]:
    """Return the tests that have a number of a module, from the numbers of each test."""
    found: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for name, by_module in numbers.items():
        for module, each in by_module.items():
            for number in each:
                found[module, number].append(name)
    return found


class CollectedTests:
    """A plugin of pytest that collects the tests and then calls a function instead of running them."""

    def __init__(self, then: Callable[[CollectedTests], None]) -> None:
        self._then = then
        self._items: dict[str, pytest.Item] = {}

    def collect(self, files: Iterable[str] = TESTS) -> None:
        """Collect the tests of the files and call the function; an error of collecting skips the call."""
        quick = ("--assert=plain", "--tb=native", "-p", "no:cacheprovider", "-p", "no:xdist")
        pytest.main(["-q", "--no-summary", *quick, *files], plugins=[self])

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._items)

    def pytest_sessionstart(self) -> None:
        """Make examples the same each time, without shrinking and without storing them."""
        settings.register_profile(
            "mutants", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("not all tests are collected")
        self._items = {item.nodeid: item for item in session.items if not item.nodeid.startswith(NOT_OF_ONE_MUTANT)}
        self._then(self)
        return True

    def trace_here(self, file: Path, probed: ProbedModules, report: Callable[[str], None]) -> None:
        """Run all tests that the file does not hold; append to it the trace of each.

        A trace is the name, the digest of the test's file, the lines (None if the test fails), the mutants and the
        seconds. `report` hears of the progress.
        """
        known = {(name, digest) for name, digest, *_ in _read_lines(file)}
        digests = {path: digest_of([path]) for path in {item.path for item in self._items.values()}}
        with file.open("a", encoding="utf-8", buffering=1) as written:
            for at, (name, item) in enumerate(self._items.items()):
                if at % TOLD_EVERY == 0:
                    report(f"tracing: {at} of {len(self._items)} tests")
                if (name, digests[item.path]) not in known:
                    probed.forget()
                    begin = time.process_time()
                    lines = probed.lines() if _passes(item) else None
                    seconds = time.process_time() - begin
                    trace = name, digests[item.path], lines, probed.differing(), seconds
                    written.write(json.dumps(trace) + "\n")

    def attempt(self, prepare: Callable[[], None], tests: Sequence[str], traces: Mapping[str, Trace]) -> Attempt:
        """Start the tests after `prepare` in a separate process, until one fails."""

        def first_failure(begin: Begin) -> str | None:
            prepare()
            begin(BEFORE_TESTS)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            for name in tests:
                begin(name)
                _compute_no_longer_than(SECONDS_AT_LEAST + TIMES_AS_LONG * traces[name].seconds)
                if not _passes(self._items[name]):
                    return name
            return None

        return Attempt.running(first_failure)

    def first_failure_here(self, tests: Sequence[str], begin: Begin) -> str | None:
        """Return the first of the tests that fails in this process, or None if all pass."""
        for name in tests:
            begin(name)
            if not _passes(self._items[name]):
                return name
        return None


def attempt_at_import(prepare: Callable[[], None], tests: Sequence[str]) -> Attempt:
    """Start the tests after `prepare`, which runs before any import of the verifier, in a separate process."""

    def first_failure(begin: Begin) -> str | None:
        prepare()
        begin("collecting the tests")
        _compute_no_longer_than(SECONDS_OF_ALL)
        return _first_failure_of(tests[:FEW_TESTS], begin) or _first_failure_of(tests[FEW_TESTS:], begin)

    return Attempt.running(first_failure)


def _first_failure_of(tests: Sequence[str], begin: Begin) -> str | None:
    """Collect the files of the tests and return the first test that fails, or the collection if it fails."""
    found: list[str | None] = ["collecting the tests"]
    files = dict.fromkeys(name.partition("::")[0] for name in tests)
    if not files:
        return None
    CollectedTests(lambda collected: found.__setitem__(0, collected.first_failure_here(tests, begin))).collect(files)
    return found[0]


def traces_of_all(file: Path, modules: Iterable[str]) -> dict[str, Trace]:
    """Return the trace of each test, run in sequence in a separate process; raises RuntimeError if a test fails.

    The file keeps traces, so that an interrupted run continues, and tests in unchanged files are not traced again.
    """
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1) as loud:

        def report(line: str) -> None:
            print(line, file=loud, flush=True)

        def run() -> Sequence[str]:
            found: list[CollectedTests] = []
            probed = ProbedModules(modules)

            def trace(collected: CollectedTests) -> None:
                collected.trace_here(file, probed, report)
                found.append(collected)

            CollectedTests(trace).collect()
            return [name for one in found for name in one.names]

        names: Sequence[str] = ChildProcess.running(run).answer() or ()
    traced = {name: trace for name, _, *trace in _read_lines(file)}
    failing = [name for name in names if traced[name][0] is None]
    if failing or not names:
        raise RuntimeError(f"fails without a mutant: {failing or 'collecting the tests'}")
    return {name: Trace(*traced[name]) for name in names}


def digest_of(files: Iterable[Path]) -> str:
    """Return the digest of the contents of the files."""
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _read_lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def _compute_no_longer_than(seconds: float) -> None:
    """End the process after that compute time."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def _passes(item: pytest.Item) -> bool:
    return not any(report.failed for report in runtestprotocol(item, nextitem=None, log=False))


def _silence() -> None:
    with Path(os.devnull).open("w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
