"""Plug-ins: functions that other installed packages add to onchip, each as an entry point of one group.

A package declares its function in its `pyproject.toml`, below `[project.entry-points."onchip.GROUP"]`. A plug-in adds a
name and never replaces a built-in one. docs/architecture.md lists the groups.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from onchip.errors import OnchipError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


class PluginError(OnchipError):
    """A plug-in that cannot be loaded, fails, or returns a value of the wrong type for its group."""


@dataclass(frozen=True)
class PluginGroup(Generic[Given, Returned]):
    """The plug-ins of the entry point group `name`: functions that return instances of `returns`."""

    name: str
    returns: type | tuple[type, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted names of all installed plug-ins, found without loading them."""
        return tuple(sorted(_installed(self.name, tuple(sys.path))))

    def find(self, name: str) -> Callable[Given, Returned] | None:
        """Return the plug-in with this name, or None if it is not installed.

        Raises PluginError if two packages add the name, or if the plug-in cannot be loaded or called. The returned
        function raises PluginError for all its errors except OnchipError and OSError.
        """
        found = _installed(self.name, tuple(sys.path)).get(name, ())
        if not found:
            return None
        place = f"plug-in {name!r} of {self.name}"
        if len(found) > 1:
            packages = " and ".join(sorted(_package(one) for one in found))
            raise PluginError(f"{packages} both add it", place=place, expected="one package that does")
        try:
            function = found[0].load()
        except Exception as error:  # the import of an external module may raise anything
            what = f"{found[0].value!r} cannot be loaded: {type(error).__name__}: {error}"
            raise PluginError(what, place=place, expected=f"package {_package(found[0])} to be mended") from error
        if not callable(function):
            raise PluginError(f"{found[0].value!r} is a {type(function).__name__}", place=place, expected="a function")
        return guarded(function, self.returns, place)


def guarded(
    function: Callable[Given, Returned], returns: type | tuple[type, ...], place: str
) -> Callable[Given, Returned]:
    """Return an external function wrapped so that it raises PluginError with `place` for its defects.

    Defects are exceptions other than OnchipError and OSError, and results that are no instance of `returns`.
    """

    @wraps(function)
    def call(*arguments: Given.args, **options: Given.kwargs) -> Returned:
        try:
            found = function(*arguments, **options)
        except (OnchipError, OSError):
            raise
        except Exception as error:  # any other exception of external code is its defect
            raise PluginError(f"it fails: {type(error).__name__}: {error}", place=place) from error
        if not isinstance(found, returns):
            names = " or ".join(one.__name__ for one in (returns if isinstance(returns, tuple) else (returns,)))
            raise PluginError(f"it returns a {type(found).__name__}", place=place, expected=f"a {names}")
        return found

    return call


@cache
def _installed(group: str, _search_path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Map the names of a group to their entry points, cached by the search path for packages."""
    from importlib.metadata import entry_points

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unnamed package"
