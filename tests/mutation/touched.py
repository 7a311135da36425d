"""Lines of the verifier by test: only tests that run a line can detect a mutant of it.

A probe stands before each statement of the verifier's functions, so that all other code runs at full speed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from mutation.put_in_place import ModulesFromCode, name_of_module
from support.mutants import compiled, source_places, source_tree

LinesByModule: TypeAlias = dict[str, list[int]]
"""The numbers of the lines that ran, by the module's path in `verify`."""

HAS_RUN = "__has_run__"
"""Name of the array of probes in each module."""


class ProbedModules:
    """The verifier's modules with a probe before each statement; they must be made before any import of a module."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._has_run = bytearray()
        self._places: list[tuple[str, range]] = []
        codes = {name_of_module(module): compiled(module, self._probed(module)) for module in modules}
        self._has_run.extend(bytes(len(self._places)))
        ModulesFromCode(codes, {HAS_RUN: self._has_run}).install()

    def forget(self) -> None:
        """Reset all probes."""
        self._has_run[:] = bytes(len(self._has_run))

    def lines(self) -> LinesByModule:
        """Return the lines of the statements that have run since the last reset."""
        found: dict[str, set[int]] = {}
        for (module, lines), has_run in zip(self._places, self._has_run, strict=True):
            if has_run:
                found.setdefault(module, set()).update(lines)
        return {module: sorted(lines) for module, lines in found.items()}

    def _probed(self, module: str) -> ast.Module:
        tree = source_tree(module)
        places = source_places(tree)
        for block in tuple(_blocks_of_functions(tree)):
            before = tuple(block)
            block.clear()
            for statement in before:
                probe = ast.parse(f"{HAS_RUN}[{len(self._places)}] = 1").body[0]
                self._places.append((module, _with_cases(statement, places[id(statement)].lines)))
                block += [ast.copy_location(probe, statement), statement]
        return ast.fix_missing_locations(tree)


def _blocks_of_functions(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    functions = {id(one): one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    inner = {id(one): one for function in functions.values() for one in ast.walk(function)}
    for node in inner.values():
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _with_cases(statement: ast.stmt, lines: range) -> range:
    """Return the lines of the statement; those of a `match` include all of its cases."""
    return range(lines.start, (statement.end_lineno or 0) + 1) if isinstance(statement, ast.Match) else lines
