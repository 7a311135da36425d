"""`python -m mutation [MODULE ...]`: every mutant of the verifier's modules, each against the tests of its module.

A module is named by its path in `verify`, such as `schedule/boxes`. Ends with 1 if a mutant survives that
`equivalent.py` does not explain.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from mutation.equivalent import EQUIVALENT
from support.mutants import mutants

SECONDS = 300
"""After which a mutant that goes on for ever counts as found out."""

PRELOADED = (
    "hypothesis",
    "numpy",
    "onchip.lower.schedule.tiled",
    "onchip.cost.schedule.figures",
    "onchip.app.networks",
)
"""What tests import and takes long; nothing of it imports the verifier."""

_PLANS = ("tests/refusals/test_verifier_refusals.py", "tests/verify/test_figures.py")
_SCHEDULES = ("tests/refusals/test_schedule_rules.py", "tests/verify")
_IN_TILES = (*_SCHEDULES, "tests/lower/test_tile_graph_verified.py")
TESTS = {
    **dict.fromkeys(("figures", "reporting", "names", "placement", "addresses", "replay", "verifier"), _PLANS),
    "packing": ("tests/refusals/test_packing_refusals.py",),
    "strategy": ("tests/refusals/test_strategy_refusals.py",),
    "mapping": ("tests/refusals/test_mapping_refusals.py", "tests/refusals/test_schedule_rules.py"),
    **dict.fromkeys(("schedule/boxes", "schedule/costs", "schedule/machine", "schedule/mappings"), _SCHEDULES),
    **dict.fromkeys(("schedule/operands", "schedule/streaming", "schedule/timeline"), _SCHEDULES),
    **dict.fromkeys(("schedule/verdict", "schedule/verifier"), _SCHEDULES),
    **dict.fromkeys(("schedule/nests", "schedule/products", "schedule/windows"), _IN_TILES),
    **dict.fromkeys(("schedule/tiles", "schedule/stacks"), _IN_TILES),
}
"""The tests of each module; those that find most come first."""


class _MutantFinder(MetaPathFinder, Loader):
    """Imports one module from other code than its file's."""

    def __init__(self, name: str, code: CodeType) -> None:
        self._name, self._code = name, code

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def survivors(module: str, *, every: int = 1) -> Iterator[str]:
    """The mutants of a module that its tests do not find out; of `every` so many one is tried."""
    for number, (what, code) in enumerate(mutants(module)):
        if number % every == 0 and what.split(": ", 1)[1] not in EQUIVALENT and _passes(module, code, TESTS[module]):
            yield what


def _passes(module: str, code: CodeType, tests: Sequence[str]) -> bool:
    """In a process of its own, so that nothing of a mutant is left behind."""
    child = os.fork()
    if child == 0:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        signal.alarm(SECONDS)
        sys.meta_path.insert(0, _MutantFinder(f"onchip.verify.{module.replace('/', '.')}", code))
        os._exit(0 if pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]) == 0 else 1)
    _, status = os.waitpid(child, 0)
    return status == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", default=[], help="of `verify`; all without any")
    parser.add_argument("--every", type=int, default=1, help="try one mutant of so many")
    asked = parser.parse_args()
    for name in PRELOADED:
        import_module(name)
    found = 0
    for module in asked.modules or TESTS:
        for what in survivors(module, every=asked.every):
            found += 1
            print(what, flush=True)
        print(f"{module}: done", file=sys.stderr, flush=True)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
