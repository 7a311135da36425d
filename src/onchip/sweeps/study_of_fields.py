"""Conversion of the fields of a study file to a study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from onchip.errors import InputError, UsageError
from onchip.formats.own.study_yaml import (
    CostTableFields,
    ParameterFields,
    PointLimitFields,
    StudyFields,
    read_study_file,
)
from onchip.formats.sizes import parse_size
from onchip.sweeps.expression import Expression
from onchip.sweeps.machine import SIZES
from onchip.sweeps.study import (
    SRAM,
    SRAM_PATH,
    BudgetSize,
    CostTable,
    Parameter,
    PointLimits,
    Study,
    budget_named,
    budget_sizes,
)
from onchip.sweeps.values import DEFAULT_STEPS, Scalar, distinct, doubling, is_size, number_of, range_of_text, stepped
from onchip.sweeps.verbs import VERBS, SweptVerb


def read_study(path: Path) -> Study:
    """Return the study in a file; raises InputError with file, line and field."""
    read = read_study_file(path)
    try:
        return replace(study_of(read.fields, path.stem), located=read.located)
    except InputError as error:
        raise read.located(error) from None


def study_of(fields: StudyFields, name: str) -> Study:
    """Return the study of a file's fields; raises InputError with the field."""
    verb = SweptVerb(fields.get("verb", SweptVerb.PLAN))
    options, swept = _options(fields.get("options", {}), verb)
    return Study(
        tuple(fields["networks"]),
        tuple(fields.get("accelerators", ())),
        _parameters(fields.get("parameters", {})),
        tuple(fields.get("objectives", (VERBS[verb].default_objective,))),
        verb,
        options,
        swept,
        _constraints(fields.get("constraints", [])),
        _costs(fields.get("costs", {})),
        _limits(fields.get("limits", {})),
        fields.get("name", name),
    )


def _parameters(fields: Mapping[str, ParameterFields]) -> tuple[Parameter, ...]:
    found = []
    for name, one in fields.items():
        with _at(f"parameters.{name}"):
            found.append(parameter_of(name, one))
    return tuple(found)


def _constraints(texts: Sequence[str]) -> tuple[Expression, ...]:
    found = []
    for at, text in enumerate(texts):
        with _at(f"constraints[{at}]"):
            found.append(Expression(text))
    return tuple(found)


def _costs(fields: Mapping[str, str | CostTableFields]) -> dict[str, Expression | CostTable]:
    found: dict[str, Expression | CostTable] = {}
    for name, one in fields.items():
        with _at(f"costs.{name}"):
            found[name] = Expression(one) if isinstance(one, str) else CostTable(one["by"], one["table"])
    return found


def parameter_of(name: str, fields: ParameterFields) -> Parameter:
    """Return a parameter from its fields; raises UsageError for invalid or missing values."""
    path = fields.get("path", SRAM_PATH if name == SRAM else name)
    if "." not in path:
        raise UsageError(f"{path!r} is no field of a machine", expected="a path such as memories.NAME.capacity")
    is_bytes = path.rpartition(".")[2] in SIZES
    if ("range" in fields) == ("values" in fields):
        raise UsageError("it has both a range and values, or neither", expected="one of them")
    if "values" in fields:
        if "steps" in fields or "doubling" in fields:
            raise UsageError("steps and doubling are of a range", place="values", expected="a range")
        has_budgets = name == SRAM
        return Parameter(name, path, distinct([_value(one, is_bytes, has_budgets) for one in fields["values"]]))
    return Parameter(name, path, _range(name, fields, is_bytes))


def _value(value: object, is_bytes: bool, has_budgets: bool) -> Scalar | BudgetSize:
    """Return a value of a list, which may be a budget if it is the size of the only scratchpad."""
    budget = budget_named(value) if has_budgets else None
    return _scalar(value, is_bytes) if budget is None else BudgetSize(budget, budget)


def _range(name: str, fields: ParameterFields, is_bytes: bool) -> tuple[Scalar | BudgetSize, ...]:
    ends = range_of_text(fields["range"])
    if ends is None:
        raise UsageError(f"{fields['range']!r} is no range", place="range", expected="such as 256KiB..8MiB, or a list")
    if name == SRAM and any(budget_named(end) for end in ends):
        if fields.get("doubling"):
            raise UsageError("an end of the range is a budget", place="doubling", expected="steps")
        for end in ends:
            _value(end, is_bytes, has_budgets=True)
        return budget_sizes(*ends, fields.get("steps", DEFAULT_STEPS))
    for end in ends:
        _scalar(end, is_bytes)
    if fields.get("doubling"):
        if "steps" in fields:
            raise UsageError("both are given", place="steps, doubling", expected="one of them")
        return doubling(*ends)
    return stepped(*ends, fields.get("steps", DEFAULT_STEPS))


def _scalar(value: object, is_bytes: bool) -> Scalar:
    """Return a value, sizes in bytes as a number; raises UsageError for an unsuitable unit."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"it is {value}", expected="a finite number")
    if not isinstance(value, bool | int | float | str):
        raise UsageError(f"it is {value!r}", expected="a number, a size, a text, true or false")
    if is_bytes:
        return number_of(value)
    if is_size(value):
        raise UsageError(f"{value!r} is a size in bytes, which does not fit", expected="a plain number")
    return value


def _options(given: Mapping[str, object], verb: SweptVerb) -> tuple[dict[str, object], dict[str, tuple[object, ...]]]:
    """Return the options with one value, and those that are swept."""
    options: dict[str, object] = {}
    swept: dict[str, tuple[object, ...]] = {}
    for name, value in given.items():
        with _at("options"):
            if not isinstance(value, list):
                options[name] = VERBS[verb].parsed(name, value)
                continue
            values = [VERBS[verb].parsed(name, one) for one in value]
            if not values:
                raise UsageError("it has no values", place=name, expected="at least one")
            swept[name] = tuple(one for at, one in enumerate(values) if one not in values[:at])
    return options, swept


def _limits(fields: PointLimitFields) -> PointLimits:
    memory, seconds = fields.get("memory"), fields.get("seconds")
    if seconds is not None and not 0 < seconds < math.inf:
        raise UsageError(f"it is {seconds:g}", place="limits.seconds", expected="a number above 0")
    with _at("limits.memory"):
        return PointLimits(None if memory is None else parse_size(str(memory)), seconds)


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Prefix the place of an error in the context with a place in the study."""
    try:
        yield
    except InputError as error:
        error.place = f"{place}.{error.place}" if error.place else place
        raise
