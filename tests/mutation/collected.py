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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from mutation.touched import LinesByModule, ProbedModules

SECONDS_AT_LEAST = 2.0
TIMES_AS_LONG = 10
"""A test fails if it computes longer than `SECONDS_AT_LEAST` plus this multiple of its time without a mutant."""

SECONDS_OF_ALL = 300.0
"""Seconds of compute for collecting tests and running them together."""

LONGEST_NAME = 4096
PREPARED = "before the first test"
TOLD_EVERY = 100
"""Number of tests after which tracing reports its progress."""

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
class Trace:
    """Lines of the verifier that a test runs, and its compute time in seconds."""

    lines: LinesByModule
    seconds: float

    def touches(self, module: str, lines: range) -> bool:
        return any(line in lines for line in self.lines.get(module, ()))


class CollectedTests:
    """A plugin of pytest that collects the tests and then calls a function instead of running them."""

    def __init__(self, then: Callable[[CollectedTests], None]) -> None:
        self._then = then
        self._items: dict[str, pytest.Item] = {}

    def collect(self, files: Iterable[str] = TESTS) -> None:
        """Collect the tests of the files and call the function; an error of collecting skips the call."""
        pytest.main(["-q", "--no-summary", "-p", "no:cacheprovider", "-p", "no:xdist", *files], plugins=[self])

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

        A trace is the name, the digest of the test's file, the lines (None if the test fails) and the seconds. `report`
        hears of the progress.
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
                    trace = name, digests[item.path], lines, time.process_time() - begin
                    written.write(json.dumps(trace) + "\n")

    def first_failure(
        self, prepare: Callable[[], None], tests: Sequence[str], traces: Mapping[str, Trace]
    ) -> str | None:
        """Return the first of the tests that fails after `prepare`, in a separate process; None if all pass.

        Raises RuntimeError if `prepare` fails.
        """

        def run() -> str:
            prepare()
            os.pwrite(begun, PREPARED.ljust(LONGEST_NAME).encode(), 0)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            for name in tests:
                os.pwrite(begun, name.ljust(LONGEST_NAME).encode(), 0)
                _compute_no_longer_than(SECONDS_AT_LEAST + TIMES_AS_LONG * traces[name].seconds)
                if not _passes(self._items[name]):
                    return name
            return ""

        begun = os.memfd_create("begun")
        failed = _in_a_process(run)
        last = os.pread(begun, LONGEST_NAME, 0).decode().strip()
        os.close(begun)
        if not last:
            raise RuntimeError("a mutant cannot be put in place")
        return last if failed is None else failed or None

    def first_failure_here(self, tests: Sequence[str]) -> str | None:
        """Return the first of the tests that fails in this process, or None if all pass."""
        return next((name for name in tests if not _passes(self._items[name])), None)


def first_failure_at_import(prepare: Callable[[], None], tests: Sequence[str]) -> str | None:
    """Return the first of the tests that fails after `prepare`, which runs before any import of the verifier."""
    found: list[str | None] = ["collecting the tests"]

    def run() -> str:
        prepare()
        _compute_no_longer_than(SECONDS_OF_ALL)
        files = dict.fromkeys(name.partition("::")[0] for name in tests) or TESTS
        CollectedTests(lambda collected: found.__setitem__(0, collected.first_failure_here(tests))).collect(files)
        return found[0] or ""

    failed = _in_a_process(run)
    return "a test that goes on for ever" if failed is None else failed or None


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

        names: Sequence[str] = _in_a_process(run) or ()
    traced = {name: (lines, seconds) for name, _, lines, seconds in _read_lines(file)}
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


def _in_a_process(run: Callable[[], Any]) -> Any:  # noqa: ANN401 (JSON)
    """Return the result of `run` in a child process, passed as JSON; None if the child ends early."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            _silence()
            answer = json.dumps(run()).encode()
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(answer)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


def _silence() -> None:
    with Path(os.devnull).open("w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
