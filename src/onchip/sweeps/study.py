"""A study and its file: networks, machines, objectives and parameters, and the combinations that constraints allow."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from re import split
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, cast

from typing_extensions import TypedDict

from onchip.api.target import CapacityBudget
from onchip.arch.accelerator import Accelerator
from onchip.arch.sizes import parse_size
from onchip.errors import InputError, UsageError
from onchip.formats.files import read_file
from onchip.formats.own.accelerator_yaml import (
    ACCELERATOR_FORMAT,
    AcceleratorFields,
    accelerator_fields,
    accelerator_of,
    accelerator_sha256,
    accelerator_to_yaml,
)
from onchip.formats.validation import Doc, Format, check_format, validate
from onchip.formats.yaml_documents import parse_yaml
from onchip.sweeps.point import (
    DEFAULT_STEPS,
    VERBS,
    Expression,
    Number,
    Scalar,
    SweptMachine,
    SweptVerb,
    Value,
    distinct,
    doubling,
    is_size,
    number_of,
    range_of_text,
    stepped,
)
from onchip.sweeps.stored_row import COLUMNS

STUDY_FORMAT: Final = Format("onchip-study", 1, InputError)


class ParameterFields(TypedDict, total=False):
    """The values of a parameter: a `range` (`256KiB..8MiB`) in `steps` or doubling, or `values`.

    `path` is the field of the accelerator that varies, by default the name of the parameter. In a file the text of a
    range, or a list of values, may stand alone.
    """

    path: Annotated[str, Doc("Field of the accelerator that varies, such as `memories.sram.capacity`.")]
    range: Annotated[str, Doc("First and last value.")]
    steps: Annotated[int, Doc("Number of values, evenly spaced.")]
    doubling: Annotated[bool, Doc("True if each value is twice the one before.")]
    values: Annotated[list[Any], Doc("List of values.")]


class CostTableFields(TypedDict):
    """A cost by the value of a parameter, or by the accelerator."""

    by: Annotated[str, Doc("Name of the parameter, or `accelerator`.")]
    table: Annotated[dict[str, float], Doc("Map from a value to the cost.")]


class PointLimitFields(TypedDict, total=False):
    """Limits for computing one point; the memory limit is bytes, or text with a unit."""

    memory: Annotated[int | str, Doc("Memory of the process that computes a point.")]
    seconds: Annotated[float, Doc("Seconds for one point.")]


class StudyFields(TypedDict):
    """A study file. A list as the value of an option is an axis of the study, as parameters are."""

    format: Annotated[Literal["onchip-study"], Doc("Name of the format.")]
    version: Annotated[Literal[1], Doc("Version of the format.")]
    name: NotRequired[Annotated[str, Doc("Name of the study.")]]
    verb: NotRequired[Literal["plan", "map", "fuse", "schedule"]]
    """Command that answers a point; `plan` if absent."""
    networks: Annotated[list[str], Doc("Networks by name or file.")]
    accelerators: NotRequired[Annotated[list[str], Doc("Accelerators by name or file.")]]
    parameters: NotRequired[Annotated[dict[str, ParameterFields], Doc("Parameters that vary, by name.")]]
    objectives: NotRequired[Annotated[list[str], Doc("Objectives to minimise.")]]
    options: NotRequired[Annotated[dict[str, Any], Doc("Options of the command.")]]
    constraints: NotRequired[list[str]]
    """Conditions that a point must meet, as expressions over parameters and figures."""
    costs: NotRequired[Annotated[dict[str, str | CostTableFields], Doc("Costs of a point, as expressions or tables.")]]
    limits: NotRequired[Annotated[PointLimitFields, Doc("Limits for computing one point.")]]


def study_of_value(value: dict[str, object]) -> StudyFields:
    """Return the fields of a study given as a dict without format and version; raises InputError with the field."""
    whole = {"format": STUDY_FORMAT.name, "version": STUDY_FORMAT.version, **value}
    try:
        json.dumps(spelled := _spelled_out(whole), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"it is no study: {error}", expected="numbers, texts, lists and dictionaries") from None
    return validate(StudyFields, spelled, STUDY_FORMAT, "study")


def _spelled_out(value: Any) -> Any:  # noqa: ANN401 - YAML
    """Return the study with fields for parameters that are written as a range or a list alone."""
    parameters = value.get("parameters")
    if not isinstance(parameters, dict):
        return value
    fields = {name: {"values": one} if isinstance(one, list) else one for name, one in parameters.items()}
    fields = {name: {"range": one} if isinstance(one, str) else one for name, one in fields.items()}
    return value | {"parameters": fields}


SIZES: Final = ("capacity", "alignment")
"""Fields of a memory that may have a unit of bytes."""


def machine_of(accelerator: Accelerator) -> SweptMachine:
    """Return the swept machine of an accelerator."""
    return SweptMachine(accelerator.name, accelerator_to_yaml(accelerator), accelerator_sha256(accelerator))


def is_capacity(path: str) -> bool:
    """Return True if a field is the capacity of a memory: more of it never increases a cost."""
    first, _, rest = path.partition(".")
    return first == "memories" and rest.rpartition(".")[2] == "capacity"


def changed(accelerator: Accelerator, values: Mapping[str, Scalar]) -> Accelerator:
    """Return the accelerator with other values at the paths.

    Raises InputError for an unknown path, an unsuitable unit, and an invalid machine.
    """
    if not values:
        return accelerator
    fields = deepcopy(accelerator_fields(accelerator))
    for path, value in values.items():
        _set(fields, path, value, accelerator.name)
    name = f"accelerator {accelerator.name!r}"
    shaped = validate(AcceleratorFields, fields, ACCELERATOR_FORMAT, name)
    return accelerator_of(shaped, name)


def _set(fields: dict[str, Any], path: str, value: Scalar, machine: str) -> None:
    *parents, last = path.split(".")
    holder: object = fields
    for part in parents:
        holder = _part(holder, part, path, machine)
    before = _part(holder, last, path, machine)
    if isinstance(before, dict | list):
        raise _no_path(path, machine, "a single value, not a group of them")
    after = _fitting(before, value, path, last)
    if isinstance(holder, list):
        holder[int(last)] = after
    else:
        cast("dict[str, object]", holder)[last] = after


def _part(holder: object, part: str, path: str, machine: str) -> object:
    """Return the part with that name; of a list, the entry with that index or name."""
    if isinstance(holder, dict):
        if part in holder:
            return holder[part]
        raise _no_path(path, machine, f"one of {', '.join(holder)} for {part!r}")
    if isinstance(holder, list):
        if part.isdecimal() and len(part) < 6 and int(part) < len(holder):
            return holder[int(part)]
        names = [one["name"] for one in holder if isinstance(one, dict) and "name" in one]
        if part in names:
            return holder[names.index(part)]
        expected = f"0 to {len(holder) - 1}" + (f" or one of {', '.join(map(str, names))}" if names else "")
        raise _no_path(path, machine, f"{expected} for {part!r}")
    raise _no_path(path, machine, f"nothing beyond {part!r}")


def _no_path(path: str, machine: str, expected: str) -> InputError:
    return UsageError(f"accelerator {machine!r} has no such field", place=path, expected=expected)


def _fitting(before: object, value: Scalar, path: str, field: str) -> object:
    """Return the value in the type of the field: a number of the same kind, or bytes for a size."""
    if isinstance(before, bool) or isinstance(value, bool):
        if isinstance(before, bool) and isinstance(value, bool):
            return value
        raise UsageError(
            f"{value!r} is invalid", place=path, expected="true or false" if isinstance(before, bool) else "a number"
        )
    if isinstance(before, str):
        return str(value)
    if is_size(value) and field not in SIZES:
        raise UsageError(f"{value!r} is a size in bytes, which does not fit", place=path, expected="a plain number")
    with _at(path):
        number = number_of(value)
    if isinstance(before, int) and isinstance(number, float):
        if not number.is_integer():
            raise UsageError(f"{value!r} is invalid", place=path, expected="a whole number")
        number = int(number)
    return float(number) if isinstance(before, float) else number


End: TypeAlias = "Scalar | CapacityBudget"

GREATEST_POINTS: Final = 1_000_000
SRAM: Final = "sram"
"""Parameter for the size of one scratchpad, if no accelerator is given."""
SRAM_PATH: Final = "memories.sram.capacity"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A field of the machine, by path, and its values, which may include budgets if it is a size."""

    name: str
    path: str
    values: tuple[Scalar | BudgetSize, ...]

    @property
    def is_capacity(self) -> bool:
        """Return True if the parameter is the size of a memory."""
        return is_capacity(self.path)


@dataclass(frozen=True, slots=True)
class CostTable:
    """A cost that depends on the value of a parameter or on the accelerator; `named` is that parameter."""

    named: str
    table: Mapping[str, Number] = field(hash=False)

    @property
    def names(self) -> frozenset[str]:
        """Return the names whose values the cost needs."""
        return frozenset((self.named,))

    def value(self, values: Mapping[str, Value]) -> Value:
        """Return the cost; raises InputError for a value that the table does not contain."""
        value = values[self.named]
        if str(value) not in self.table:
            raise InputError(f"the table has no entry for {self.named} {value!r}", expected="an entry for each value")
        return self.table[str(value)]


@dataclass(frozen=True, slots=True)
class PointLimits:
    """Limits of memory and time for the computation of one point; None is no limit."""

    memory_bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StudyQuestion:
    """A question of a study before resolution, with names as the user wrote them."""

    network: str
    accelerator: str | None
    objective: str
    options: Mapping[str, object]
    parameters: Mapping[str, Scalar]
    costs: Mapping[str, Number]


SizesFinder: TypeAlias = Callable[[str, str, Mapping[str, object], CapacityBudget], int]
"""A function from network, objective, options and budget to the budget's size in bytes."""


def _resolved(value: Scalar | BudgetSize, network: str, size_of: Callable[[CapacityBudget], int] | None) -> Scalar:
    """Return a value as a number; raises UsageError for an unknown budget, or an empty range."""
    place = f"parameters.{SRAM} of {network}"
    if not isinstance(value, BudgetSize):
        return value
    if size_of is None:
        raise UsageError(f"{value.first} is a budget", place=place, expected="a size")
    try:
        return value.bytes_of(size_of)
    except InputError as error:
        error.place = place
        raise


@dataclass(frozen=True, slots=True)
class Study:
    """Networks, machines, parameters, objectives and options; the points are all combinations.

    `swept_options` are options with several values. `located` adds file and line to an error if the study is a file.
    Raises UsageError, with the place, for parts that do not fit together.
    """

    networks: tuple[str, ...]
    accelerators: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    objectives: tuple[str, ...] = ()
    verb: SweptVerb = SweptVerb.PLAN
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    swept_options: Mapping[str, tuple[object, ...]] = field(default_factory=dict, hash=False)
    constraints: tuple[Expression, ...] = ()
    costs: Mapping[str, Expression | CostTable] = field(default_factory=dict, hash=False)
    limits: PointLimits = PointLimits()
    name: str = "study"
    located: Callable[[InputError], InputError] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._names_are_free()
        self._the_machine_is_given()
        self._objectives_are_those_of_the_verb()
        self._expressions_name_parameters()
        points = self.greatest_count
        if points > GREATEST_POINTS:
            raise UsageError(
                f"the study has {points:,} points", place="parameters", expected=f"at most {GREATEST_POINTS:,}"
            )

    @property
    def greatest_count(self) -> int:
        """Return the number of combinations before constraints."""
        axes = [self.networks, self.accelerators or (None,), self.objectives, *self.swept_options.values()]
        return math.prod(map(len, axes)) * math.prod(len(parameter.values) for parameter in self.parameters)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of its rows: those of every row, parameters, costs and options."""
        named = (parameter.name for parameter in self.parameters)
        return (*COLUMNS, *named, *self.costs, *self.options, *self.swept_options)

    def combinations(self, sized: SizesFinder | None = None) -> Iterator[StudyQuestion]:
        """Yield every question that the constraints allow, in order; raises InputError for a cost without a value.

        `sized` returns the size of a budget for a network, an objective and options.
        """
        axes = [parameter.values for parameter in self.parameters]
        swept = list(self.swept_options.items())
        machines: Sequence[str | None] = self.accelerators or (None,)
        choices = product(
            self.networks, machines, self.objectives, product(*(values for _, values in swept)), product(*axes)
        )
        names = [parameter.name for parameter in self.parameters]
        asked: set[str] = set()
        for network, accelerator, objective, chosen, values in choices:
            options = {**self.options, **dict(zip((name for name, _ in swept), chosen, strict=True))}
            size_of = None if sized is None else partial(sized, network, objective, options)
            found = [_resolved(one, network, size_of) for one in values]
            parameters = dict(zip(names, found, strict=True))
            place = repr((network, accelerator, objective, chosen, found))
            if place in asked:
                continue  # budgets of a network may be equal
            asked.add(place)
            known: dict[str, Value] = {**parameters, "accelerator": accelerator or SRAM}
            if not self._is_allowed(known):
                continue
            yield StudyQuestion(network, accelerator, objective, options, parameters, self._costs_of(known))

    def paths_of(self, combination: StudyQuestion) -> dict[str, Scalar]:
        """Return the machine fields that a combination sets, by path."""
        return {one.path: combination.parameters[one.name] for one in self.parameters}

    def _is_allowed(self, values: Mapping[str, Value]) -> bool:
        for at, constraint in enumerate(self.constraints):
            with _at(f"constraints[{at}]"):
                if not constraint.holds(values):
                    return False
        return True

    def _costs_of(self, values: Mapping[str, Value]) -> dict[str, Number]:
        found: dict[str, Number] = {}
        for name, cost in self.costs.items():
            with _at(f"costs.{name}"):
                value = cost.value(values)
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise InputError(f"{value!r} is invalid", expected="a number")
            found[name] = value
        return found

    def _names_are_free(self) -> None:
        """Check that no parameter or cost has the name of another column of the store's rows."""
        taken = {*COLUMNS, *VERBS[self.verb].options}
        for group, names in (("parameters", [one.name for one in self.parameters]), ("costs", [*self.costs])):
            for name in names:
                if name in taken or not name:
                    raise UsageError(f"the name {name!r} is taken", place=group, expected="another name, and `path`")
                taken.add(name)

    def _the_machine_is_given(self) -> None:
        if not self.networks:
            raise UsageError("the study names no network", place="networks", expected="at least one")
        has_sram = any(parameter.path == SRAM_PATH and parameter.name == SRAM for parameter in self.parameters)
        if has_sram and self.accelerators:
            what = "the study has accelerators and the parameter sram"
            raise UsageError(what, place="accelerators", expected="one of them")
        if has_sram and VERBS[self.verb].needs_accelerator:
            raise UsageError(f"`{self.verb}` needs a whole machine", place="accelerators", expected="at least one")
        if not has_sram and not self.accelerators:
            raise UsageError(
                "the study names no target", place="accelerators", expected="an accelerator, or values of `sram`"
            )

    def _objectives_are_those_of_the_verb(self) -> None:
        known = tuple(VERBS[self.verb].objectives)
        for at, objective in enumerate(self.objectives):
            if objective not in known:
                expected = f"one of {', '.join(known)}"
                raise UsageError(f"{objective!r} is invalid", place=f"objectives[{at}]", expected=expected)
        if not self.objectives:
            raise UsageError("the study names no objective", place="objectives", expected="at least one")

    def _expressions_name_parameters(self) -> None:
        known = frozenset((*(parameter.name for parameter in self.parameters), "accelerator"))
        places = [(f"constraints[{at}]", one) for at, one in enumerate(self.constraints)]
        for place, one in (*places, *((f"costs.{name}", cost) for name, cost in self.costs.items())):
            unknown = sorted(one.names - known)
            if unknown:
                expected = f"one of {', '.join(sorted(known))}"
                raise UsageError(f"{unknown[0]!r} is not a parameter", place=place, expected=expected)


@dataclass(frozen=True, slots=True)
class BudgetSize:
    """A size at a given share of the way from one end to another, where ends are budgets or sizes."""

    first: End
    last: End
    share: Fraction = Fraction(0)

    def bytes_of(self, size_of: Callable[[CapacityBudget], int]) -> int:
        """Return the size in bytes for a network with these budgets; raises UsageError for an empty range."""
        low, high = (
            size_of(end) if isinstance(end, CapacityBudget) else int(number_of(end)) for end in (self.first, self.last)
        )
        if low > high:
            what = f"the range from {self.first} to {self.last} is empty: {low} to {high} bytes"
            raise UsageError(what, expected="a first value that is not above the last")
        return int(low + (high - low) * self.share)


def budget_named(value: object) -> CapacityBudget | None:
    """Return the budget of that name; None for any other value."""
    name = value.strip().lower() if isinstance(value, str) else ""
    return CapacityBudget(name) if name in tuple(CapacityBudget) else None


def budget_sizes(first: Scalar, last: Scalar, steps: int) -> tuple[BudgetSize, ...]:
    """Return `steps` evenly spaced sizes from one end to another; at least one end is a budget."""
    ends = budget_named(first) or first, budget_named(last) or last
    return tuple(BudgetSize(*ends, Fraction(at, max(1, steps - 1))) for at in range(steps))


def read_study(path: Path) -> Study:
    """Return the study in a file; raises InputError with file, line and field."""
    file = str(path)
    document = parse_yaml(read_file(path), STUDY_FORMAT, file)

    def located(error: InputError) -> InputError:
        """Return the error with the file, and with the line if its place is a field of the study."""
        place = error.place or ""
        if split(r"\W", place, maxsplit=1)[0] in StudyFields.__annotations__:
            error.place = document.place(place)
        return error.in_file(file)

    try:
        check_format(document.value, STUDY_FORMAT, file)
        fields = validate(StudyFields, _spelled_out(document.value), STUDY_FORMAT, file)
    except InputError as error:
        head, _, last = (error.place or "").rpartition(".")
        is_alternative = last in ("str", "int", "CostTableFields")  # pydantic adds the alternative that it tried
        error.place = document.place(head if is_alternative else error.place or "")
        raise error.in_file(file) from None
    try:
        return replace(study_of(fields, path.stem), located=located)
    except InputError as error:
        raise located(error) from None


def study_of(fields: StudyFields, name: str) -> Study:
    """Return the study of a file's fields; raises InputError with the field."""
    verb = SweptVerb(fields.get("verb", SweptVerb.PLAN))
    options, swept = _options(fields.get("options", {}), verb)
    parameters, constraints = list[Parameter](), list[Expression]()
    costs: dict[str, Expression | CostTable] = {}
    for named, parameter in fields.get("parameters", {}).items():
        with _at(f"parameters.{named}"):
            parameters.append(parameter_of(named, parameter))
    for at, text in enumerate(fields.get("constraints", [])):
        with _at(f"constraints[{at}]"):
            constraints.append(Expression(text))
    for named, cost in fields.get("costs", {}).items():
        with _at(f"costs.{named}"):
            costs[named] = Expression(cost) if isinstance(cost, str) else CostTable(cost["by"], cost["table"])
    return Study(
        tuple(fields["networks"]),
        tuple(fields.get("accelerators", ())),
        tuple(parameters),
        tuple(fields.get("objectives", (VERBS[verb].default_objective,))),
        verb,
        options,
        swept,
        tuple(constraints),
        costs,
        _limits(fields.get("limits", {})),
        fields.get("name", name),
    )


def parameter_of(name: str, fields: ParameterFields) -> Parameter:
    """Return a parameter from its fields; raises UsageError for invalid or missing values."""
    path = fields.get("path", SRAM_PATH if name == SRAM else name)
    if "." not in path:
        raise UsageError(f"{path!r} is no field of a machine", expected="a path such as memories.NAME.capacity")
    is_bytes = path.rpartition(".")[2] in SIZES
    if ("range" in fields) == ("values" in fields):
        raise UsageError("a parameter has either a range or values", expected="one of them")
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
            raise UsageError("steps and doubling exclude each other", place="steps, doubling", expected="one of them")
        return doubling(*ends)
    return stepped(*ends, fields.get("steps", DEFAULT_STEPS))


def _scalar(value: object, is_bytes: bool) -> Scalar:
    """Return a value, sizes in bytes as a number; raises UsageError for an unsuitable unit."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{value} is invalid", expected="a finite number")
    if not isinstance(value, bool | int | float | str):
        raise UsageError(f"{value!r} is invalid", expected="a number, a size, a text, true or false")
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
        raise UsageError(f"{seconds:g} is invalid", place="limits.seconds", expected="a number above 0")
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
