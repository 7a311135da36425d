"""Plug-ins: functions that other installed packages add to onchip, each as an entry point of one group.

A package names its function in its `pyproject.toml`, below `[project.entry-points."onchip.GROUP"]`. What onchip has
itself comes first: a plug-in adds a name, and never replaces one. docs/architecture.md lists the groups.
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
    """A plug-in that cannot be loaded, fails, or returns something else than its group says."""


@dataclass(frozen=True)
class PluginGroup(Generic[Given, Returned]):
    """The plug-ins of the entry point group `name`, functions that return instances of `returns`."""

    name: str
    returns: type | tuple[type, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plug-ins that are installed, sorted; none of them is loaded."""
        return tuple(sorted(_installed(self.name, tuple(sys.path))))

    def find(self, name: str) -> Callable[Given, Returned] | None:
        """Return the plug-in of that name, None where none is installed.

        Raises PluginError where two packages add the name, or it cannot be loaded or called. What is returned raises
        PluginError for whatever goes wrong in it, but for refusals (OnchipError) and files (OSError).
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
        except Exception as error:  # whatever the import of an outside module raises
            what = f"{found[0].value!r} cannot be loaded: {type(error).__name__}: {error}"
            raise PluginError(what, place=place, expected=f"package {_package(found[0])} to be mended") from error
        if not callable(function):
            raise PluginError(f"{found[0].value!r} is a {type(function).__name__}", place=place, expected="a function")
        return guarded(function, self.returns, place)


def guarded(
    function: Callable[Given, Returned], returns: type | tuple[type, ...], place: str
) -> Callable[Given, Returned]:
    """Return an outside function that raises PluginError, naming `place`, for errors that are no refusal of input.

    The same is raised where it returns no instance of `returns`.
    """

    @wraps(function)
    def call(*arguments: Given.args, **options: Given.kwargs) -> Returned:
        try:
            found = function(*arguments, **options)
        except (OnchipError, OSError):
            raise
        except Exception as error:  # whatever else outside code raises is its defect
            raise PluginError(f"it fails: {type(error).__name__}: {error}", place=place) from error
        if not isinstance(found, returns):
            names = " or ".join(one.__name__ for one in (returns if isinstance(returns, tuple) else (returns,)))
            raise PluginError(f"it returns a {type(found).__name__}", place=place, expected=f"a {names}")
        return found

    return call


@cache
def _installed(group: str, _search_path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of a group by name, as long as the search path for packages stays the same."""
    from importlib.metadata import entry_points

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unnamed package"
