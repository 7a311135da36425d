"""A mutant in place of a module: the code of a function if the module is imported, else all of its code."""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import _lru_cache_wrapper
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType

import onchip.verify
from support.mutants import Mutant

MADE_BY_DATACLASS = "<string>"
"""File name in the code of functions that come from no file."""


class CannotReplaceError(Exception):
    """The function that the mutant changes does not occur exactly once in the process."""


class ImportedFunctions:
    """The functions of all imported modules of the verifier, collected once because the search takes long."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        everything = gc.get_objects()
        self._cached = [one for one in everything if isinstance(one, _lru_cache_wrapper) and is_of_verifier(one)]
        for one in everything:
            if isinstance(one, FunctionType) and one.__code__.co_filename != MADE_BY_DATACLASS:
                self._found[one.__module__, one.__code__.co_qualname].append(one)

    def replace(self, mutant: Mutant) -> None:
        """Give the mutant's code to all callers; raises CannotReplaceError if the function does not occur exactly once.

        Values cached without the mutant are dropped.
        """
        for cached in self._cached:
            cached.cache_clear()
        found = self._found[name_of_module(mutant.module), mutant.place.function or ""]
        code = next((one for one in _codes(mutant.compiled()) if one.co_qualname == mutant.place.function), None)
        if code is None or len(found) != 1:
            raise CannotReplaceError(str(mutant))
        if code.co_freevars == found[0].__code__.co_freevars:
            found[0].__code__ = code
        else:
            _replace_method(found[0], code)


def import_instead(mutant: Mutant) -> None:
    """Give the mutant to all later imports of the module."""
    ModulesFromCode({name_of_module(mutant.module): mutant.compiled()}).install()


def name_of_module(module: str) -> str:
    """Return the name under which the module with that path in `verify` is imported."""
    return f"onchip.verify.{module.replace('/', '.')}"


def _replace_method(method: FunctionType, code: CodeType) -> None:
    """Replace a method by a function without closure variables, as the mutant has lost its `super()`."""
    owner = getattr(sys.modules[method.__module__], code.co_qualname.split(".")[0])
    other = FunctionType(code, method.__globals__, code.co_name, method.__defaults__)
    other.__kwdefaults__ = method.__kwdefaults__
    setattr(owner, code.co_name, other)


def is_of_verifier(function: _lru_cache_wrapper[object]) -> bool:
    return function.__wrapped__.__module__.startswith(onchip.verify.__name__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class ModulesFromCode(MetaPathFinder, Loader):
    """An import hook that loads modules from other code than their files', and gives names to each."""

    def __init__(self, codes: Mapping[str, CodeType], given: Mapping[str, object] | None = None) -> None:
        self._codes, self._given = codes, given or {}

    def install(self) -> None:
        """Apply to all later imports."""
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self._codes else None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self._given)
        exec(self._codes[module.__name__], module.__dict__)
