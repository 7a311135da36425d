"""The run over the verifier's modules: tries mutants one by one, and counts their outcomes."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from select import select

import onchip.verify
from mutation import touched
from mutation.collected import (
    TESTS,
    TOLD_EVERY,
    Attempt,
    CollectedTests,
    Trace,
    attempt_at_import,
    digest_of,
    names_by_number,
    traces_of_all,
)
from mutation.equivalent import EQUIVALENT, explanation
from mutation.order import TestOrder
from mutation.outcomes import Outcome, Outcomes, Tally, table
from mutation.put_in_place import ImportedFunctions, import_instead
from support.mutants import Mutant, mutants, source_tree

RESULTS = Path(".mutation")
"""Results of runs, relative to the folder in which they start."""

PRELOADED = (
    "hypothesis",
    "numpy",
    "onchip.transform.groups.tiled",
    "onchip.model.program.figures",
    "onchip.api.networks",
)
"""Slow imports of the tests; none of them imports the verifier."""

MODULES = tuple(
    str(path.relative_to(onchip.verify.__path__[0]).with_suffix(""))
    for path in sorted(Path(onchip.verify.__path__[0]).rglob("*.py"))
    if path.stem not in ("__init__", "rules", "setting")
)
"""Modules with any computation."""

OF_SOME_TESTS = ""
"""Digest of an outcome for which `--seconds` left no time for all tests; a later run tries the mutant again."""

BEGIN_LINE = "\r\x1b[K" if sys.stderr.isatty() else ""
"""Prefix of a progress line within a module: in a terminal it replaces the preceding line."""


class MutationRun:
    """A run over the modules asked for, without the mutants that an earlier run tried on the same files."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._digest = digest_of([*_sources(), *_tests()])
        RESULTS.mkdir(exist_ok=True)
        self._outcomes = Outcomes(RESULTS / "outcomes.jsonl")
        self._trees = {module: source_tree(module) for module in asked.modules or MODULES}
        self._tallies = {module: Tally() for module in self._trees}
        self._running: dict[Attempt, tuple[Mutant, Sequence[str], str]] = {}
        self.is_anything_wrong = False

    def start(self) -> None:
        """Try the code that runs at import first, before any import of the verifier; then its functions."""
        for name in PRELOADED:
            import_module(name)
        traces = self._traces()
        self._order = TestOrder({name: trace.seconds for name, trace in traces.items()})
        for module in self._trees:
            self._stale(module)
            touching = [name for name in traces if module in traces[name].lines]
            for mutant in self._to_try(module, of_functions=False):
                self._try(mutant, touching, partial(attempt_at_import, partial(import_instead, mutant)))
        self._await_all()
        CollectedTests(partial(self._functions, traces)).collect()

    def table(self) -> str:
        """Return the number of mutants per module and their outcomes, as a table."""
        return table(self._tallies)

    def _functions(self, traces: Mapping[str, Trace], tests: CollectedTests) -> None:
        gc.unfreeze()  # frozen objects are not listed
        functions = ImportedFunctions()
        gc.freeze()
        tests_of_line = names_by_number({name: trace.lines for name, trace in traces.items()})
        tests_of_mutant = names_by_number({name: trace.differing for name, trace in traces.items()})
        for module, tree in self._trees.items():
            numbers = {mutant.key: number for number, mutant in enumerate(mutants(module, tree))}
            with_probe = touched.measured(module)
            for mutant in self._to_try(module, of_functions=True):
                number = numbers[mutant.key]
                lines = [tests_of_line[module, line] for line in mutant.place.lines]
                touching = [tests_of_mutant[module, number]] if number in with_probe else lines
                some = tuple(dict.fromkeys(chain.from_iterable(touching)))
                self._try(mutant, some, partial(tests.attempt, partial(functions.replace, mutant), traces=traces))
            self._await_all()
            print(f"{BEGIN_LINE}{module}: {self._tallies[module]}", file=sys.stderr, flush=True)

    def _to_try(self, module: str, *, of_functions: bool) -> Iterator[Mutant]:
        """Yield the mutants to try, in the order of their lines; known outcomes are counted at once."""
        some = islice(mutants(module, self._trees[module]), 0, None, self._asked.every)
        for mutant in sorted(some, key=lambda mutant: mutant.place.lines.start):
            if (mutant.place.function is not None) is not of_functions:
                continue
            last = self._outcomes.of(mutant)
            if last is not None and (last.digest == self._digest or (self._asked.survivors and last.killer)):
                self._count(mutant, last.killer)
            elif explanation(mutant) is not None and not self._asked.explained:
                self._tallies[module].count(mutant, None)
            else:
                yield mutant

    def _try(self, mutant: Mutant, touching: Sequence[str], start: Callable[[Sequence[str]], Attempt]) -> None:
        """Start the tests that touch the mutant; if so many processes run, wait for the end of one."""
        if len(self._running) == self._asked.workers:
            self._await_one()
        last = self._outcomes.of(mutant)
        tests = self._order.promising_first(mutant, touching, last.killer if last else None)
        some = self._order.within(self._asked.seconds, tests)
        self._running[start(some)] = mutant, some, self._digest if len(some) == len(tests) else OF_SOME_TESTS

    def _await_all(self) -> None:
        while self._running:
            self._await_one()

    def _await_one(self) -> None:
        ended: list[Attempt] = select([*self._running], [], [])[0]
        attempt = ended[0]
        mutant, tests, digest = self._running.pop(attempt)
        killer = attempt.killer()
        self._outcomes.add(Outcome(mutant.module, mutant.key, killer, digest if killer is None else self._digest))
        self._order.learn(mutant, tests, killer)
        self._count(mutant, killer)

    def _count(self, mutant: Mutant, killer: str | None) -> None:
        tally = self._tallies[mutant.module]
        tally.count(mutant, killer)
        if sys.stderr.isatty() or tally.mutants % TOLD_EVERY == 0:
            end = "" if sys.stderr.isatty() else "\n"
            print(f"{BEGIN_LINE}{mutant.module}: {tally}", end=end, file=sys.stderr, flush=True)
        if killer is None and explanation(mutant) is None:
            self._tell(f"survives: {mutant}")
        if killer is not None and explanation(mutant) is not None:
            self._tell(f"explained, and found out by {killer}: {mutant}")

    def _stale(self, module: str) -> None:
        keys = {mutant.key for mutant in mutants(module, self._trees[module])}
        for key in EQUIVALENT.get(module, {}).keys() - keys:
            self._tell(f"explained, and there is none: {module} {key}")

    def _tell(self, what: str) -> None:
        self.is_anything_wrong = True
        print(f"{BEGIN_LINE if sys.stdout.isatty() else ''}{what}", flush=True)

    def _traces(self) -> dict[str, Trace]:
        """Return the traces, made once for the same verifier, support code and test file."""
        file = RESULTS / f"lines-{digest_of([*_sources(), Path(touched.__file__)])}.jsonl"
        for old in set(RESULTS.glob("lines-*")) - {file}:
            old.unlink()
        return traces_of_all(file, MODULES)


def _sources() -> list[Path]:
    return [*Path(onchip.verify.__path__[0]).rglob("*.py"), *Path("tests/support").rglob("*.py")]


def _tests() -> list[Path]:
    return [file for test in TESTS for file in ([Path(test)] if test.endswith(".py") else Path(test).rglob("*.py"))]
