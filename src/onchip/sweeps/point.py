"""A point of a study and its answer, with the values and formulas of parameters and the options of each verb."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fractions import Fraction
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

from onchip.answer.document import Granularity
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.choices import GREATEST_ALIGNMENT, GREATEST_BITS, Described, all_described
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions, MapOptions, PlanOptions, ScheduleOptions
from onchip.answer.problem import Count, Objective
from onchip.answer.result import Status
from onchip.arch.sizes import parse_size
from onchip.errors import InputError, UsageError
from onchip.model.accounting.accounting import AccountingName

Value: TypeAlias = "int | float | str | bool | None"

GREATEST_LENGTH: Final = 1000
GREATEST_DEPTH: Final = 50
GREATEST_EXPONENT: Final = 64
GREATEST_INTEGER: Final = 2**128
"""Limit of an operation's result, in absolute value: a formula of areas or bytes stays far below."""
_SIZE: Final = re.compile(r"(?<![\w.'\"])([0-9]+(?:\.[0-9]+)?(?:[KMG]i?B|B))(?![\w'\"])")
_TEXT: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_BINARY: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARED: Final[Mapping[type, Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
}
EXPECTED: Final = f"numbers, sizes, names, + - * / // % **, comparisons, and, or, not, and {', '.join(_FUNCTIONS)}(...)"


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula; `names` are the names that it uses, with dotted ones whole (`memories.sram.capacity`).

    Raises InputError if the text is not an arithmetic expression.
    """

    text: str
    compute: Callable[[Mapping[str, Value]], Any] = field(init=False, repr=False, compare=False)
    names: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.text) > GREATEST_LENGTH:
            raise InputError("the expression is too long", expected=f"at most {GREATEST_LENGTH} characters")
        try:
            tree = ast.parse(_without_units(self.text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(f"{self.text!r} is no expression", expected=EXPECTED) from None
        names = set[str]()
        object.__setattr__(self, "compute", _compiled(tree, self.text, names, 0))
        object.__setattr__(self, "names", frozenset(names))

    def value(self, values: Mapping[str, Value]) -> Value:
        """Return the value; None as soon as a part of it is None. Raises InputError for an undefined value."""
        try:
            found: Value = self.compute(values)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InputError(f"{self.text!r} has no value: {error}", expected="an expression that has one") from None
        if isinstance(found, float) and not math.isfinite(found):
            raise InputError(f"{self.text!r} is {found}", expected="a finite number")
        return found

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Return True if the expression is true; an order comparison with None is false.

        Raises InputError for an undefined value.
        """
        return bool(self.value(values))

    def ensure_names_are(self, known: frozenset[str]) -> None:
        """Raise InputError for an unknown name."""
        if unknown := sorted(self.names - known):
            expected = f"one of {', '.join(sorted(known))}" if known else "no name: nothing has one here"
            raise InputError(f"{self.text!r} names {unknown[0]!r}, which is nothing", expected=expected)


def _without_units(text: str) -> str:
    """Return the text with sizes as numbers of bytes; quoted strings are unchanged."""
    parts, at = [], 0
    for quoted in _TEXT.finditer(text):
        parts += [_SIZE.sub(lambda size: str(parse_size(size[1])), text[at : quoted.start()]), quoted[0]]
        at = quoted.end()
    return "".join([*parts, _SIZE.sub(lambda size: str(parse_size(size[1])), text[at:])])


def _compiled(node: ast.expr, text: str, names: set[str], depth: int) -> Callable[[Mapping[str, Value]], Any]:
    """Return an expression as a function of the values of names, and add the names that it uses.

    Raises InputError for any other Python syntax.
    """
    if depth > GREATEST_DEPTH:
        raise InputError(f"{text!r} is nested too deeply", expected=f"at most {GREATEST_DEPTH} levels")
    if (name := _dotted(node)) is not None:
        names.add(name)
        return operator.itemgetter(name)

    def inner(*parts: ast.expr) -> list[Callable[[Mapping[str, Value]], Any]]:
        return [_compiled(part, text, names, depth + 1) for part in parts]

    match node:
        case ast.Constant(value=value) if value is None or type(value) in (int, float, str, bool):
            return lambda _: value
        case ast.BinOp(left=left, op=binary, right=right) if type(binary) in _BINARY:
            first, second = inner(left, right)
            return lambda values: _of_two(binary, first(values), second(values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            (one,) = inner(operand)
            return lambda values: not one(values)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            (signed,) = inner(operand)
            sign = operator.neg if isinstance(op, ast.USub) else operator.pos
            return lambda values: None if (found := signed(values)) is None else sign(found)
        case ast.BoolOp(op=op, values=parts):
            conditions, joined = inner(*parts), all if isinstance(op, ast.And) else any
            return lambda values: joined(one(values) for one in conditions)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARED for op in ops):
            ends = inner(left, *others)

            def compared(values: Mapping[str, Value]) -> bool:
                found = [one(values) for one in ends]
                return all(_compared(op, *pair) for op, *pair in zip(ops, found, found[1:], strict=False))

            return compared
        case ast.Call(func=ast.Name(id=called), args=arguments, keywords=[]) if called in _FUNCTIONS and arguments:
            given, function = inner(*arguments), _FUNCTIONS[called]

            def applied(values: Mapping[str, Value]) -> Value:
                found = [one(values) for one in given]
                return None if None in found else function(*found)

            return applied
    raise InputError(f"{text!r} is no expression of a study", expected=EXPECTED)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)) is not None:
        return f"{before}.{node.attr}"
    return None


def _of_two(op: ast.operator, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if isinstance(left, str) or isinstance(right, str):
        raise ValueError("a text is no number")
    if isinstance(op, ast.Pow) and abs(right) > GREATEST_EXPONENT:
        raise ValueError(f"its exponent is beyond {GREATEST_EXPONENT}")
    found: Value = _BINARY[type(op)](left, right)
    if isinstance(found, complex) or (isinstance(found, int) and abs(found) > GREATEST_INTEGER):
        raise ValueError("it is out of range")
    return found


def _compared(op: ast.cmpop, left: Value, right: Value) -> bool:
    """Return the comparison of two values; None equals only None, and is neither more nor less than any value."""
    if isinstance(op, ast.Eq | ast.NotEq) or (left is not None and right is not None):
        return _COMPARED[type(op)](left, right)
    return False


Scalar: TypeAlias = "int | float | str | bool"
ValueT = TypeVar("ValueT")

GREATEST_VALUES: Final = 100_000
RANGE: Final = ".."
DEFAULT_STEPS: Final = 20


def number_of(value: Scalar) -> int | float:
    """Return the number, or the bytes of a size; raises UsageError for any other text."""
    if isinstance(value, bool):
        raise UsageError(f"{str(value).lower()} is invalid", expected="a number or a size")
    if not isinstance(value, str):
        return value
    text = value.strip()
    for convert in (int, parse_size, float):
        with suppress(ValueError, UsageError):
            if convert is not float or text.replace(".", "", 1).isdecimal():
                return convert(text)
    raise UsageError(f"{value[:40]!r} is neither a number nor a size", expected="such as 64, 0.5 or 512KiB")


def is_size(value: Scalar) -> bool:
    """Return True if a value is written with a unit of bytes."""
    return isinstance(value, str) and value.strip()[-1:] == "B"


def range_of_text(text: str) -> tuple[str, str] | None:
    """Return the two ends of `256KiB..8MiB`; None for a text that is no range."""
    first, dots, last = text.partition(RANGE)
    return (first.strip(), last.strip()) if dots and first.strip() and last.strip() else None


def stepped(first: Scalar, last: Scalar, steps: int, unit: int = 1) -> tuple[int | float, ...]:
    """Return `steps` evenly spaced values from first to last, integers rounded down to multiples of `unit`.

    The ends are not rounded. Raises UsageError for an empty range, and for an invalid number of steps.
    """
    ends = _ends(first, last)
    if not 1 <= steps <= GREATEST_VALUES:
        raise UsageError(f"there are {steps} steps", expected=f"1 to {GREATEST_VALUES}")
    if steps == 1 and ends[0] != ends[1]:
        raise UsageError("one step is one value, and the range has two ends", expected="at least 2 steps")
    low, high = map(Fraction, ends)
    are_whole = all(isinstance(end, int) for end in ends)
    values: list[int | float] = [ends[0]]
    for at in range(1, steps - 1):
        exact = low + (high - low) * at / (steps - 1)
        values.append(int(exact) // unit * unit if are_whole else float(exact))
    return tuple(sorted({one for one in (*values, ends[1]) if ends[0] <= one <= ends[1]}))


def doubling(first: Scalar, last: Scalar) -> tuple[int | float, ...]:
    """Return first, twice first, and so on, up to last; raises UsageError for an empty range, or one from 0 on."""
    low, high = _ends(first, last)
    if low <= 0:
        raise UsageError("a doubled range begins above 0", expected="a range that begins above 0")
    values = [low]
    while values[-1] * 2 <= high:
        values.append(values[-1] * 2)
        if len(values) > GREATEST_VALUES:
            raise UsageError("the range has too many values", expected=f"at most {GREATEST_VALUES}")
    return tuple(values)


def _ends(first: Scalar, last: Scalar) -> tuple[int | float, int | float]:
    low, high = number_of(first), number_of(last)
    if low > high:
        raise UsageError(
            f"the range from {first} to {last} is empty", expected="a first value that is not above the last"
        )
    return low, high


def distinct(values: Sequence[ValueT]) -> tuple[ValueT, ...]:
    """Return the values, each once, in the order given; raises InputError for none or too many."""
    found = tuple(dict.fromkeys(values))
    if not 1 <= len(found) <= GREATEST_VALUES:
        raise InputError(f"it has {len(found)} values", expected=f"1 to {GREATEST_VALUES}")
    return found


OptionValue = object
Parser: TypeAlias = Callable[[object], OptionValue]
"""A parser of the values of an option in a study; raises InputError."""
GREATEST_WHOLE: Final = 2**31 - 1


class SweptVerb(StrEnum):
    """The verbs that a study can use."""

    PLAN = "plan"
    MAP = "map"
    FUSE = "fuse"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class Option:
    """The default of an option, and the parser of its values in a study."""

    default: OptionValue
    parse: Parser


@dataclass(frozen=True, slots=True)
class VerbOptions:
    """The objectives of a verb, its default objective, and its options by name.

    `for_objectives` are defaults for an objective that replace the options' own.
    """

    objectives: type[StrEnum]
    default_objective: str
    needs_accelerator: bool
    options: Mapping[str, Option] = field(hash=False)
    for_objectives: Mapping[str, Mapping[str, OptionValue]] = field(default_factory=dict, hash=False)

    def defaults(self, objective: str) -> dict[str, OptionValue]:
        """Return the default of each option for an objective."""
        own = {name: option.default for name, option in self.options.items()}
        return {**own, **self.for_objectives.get(objective, {})}

    def parsed(self, name: str, value: object) -> OptionValue:
        """Return the value of an option; raises UsageError for an unknown option or an invalid value."""
        if name not in self.options:
            raise UsageError(
                "there is no such option", place=name, expected=f"one of {', '.join(sorted(self.options))}"
            )
        try:
            return self.options[name].parse(value)
        except InputError as error:
            error.place = error.place or name
            raise


def _refusing(expected: str, is_valid: Callable[[Any], bool], kind: Callable[[Any], object]) -> Parser:
    """Return a parser of the values that are valid, which raises UsageError for others."""

    def parse(value: object) -> OptionValue:
        if not is_valid(value):
            raise UsageError(f"{value!r} is invalid", expected=expected)
        return kind(value)

    return parse


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def choice(kind: type[StrEnum]) -> Parser:
    """Return a parser of the names of an enumeration."""
    return _refusing(f"one of {', '.join(kind)}", lambda value: value in tuple(kind), str)


def _whole(least: int = 1, most: int = GREATEST_WHOLE) -> Parser:
    def is_valid(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return _refusing(f"a whole number from {least} to {most}", is_valid, int)


_SECONDS: Final = _refusing(
    "a number of seconds above 0", lambda value: _is_number(value) and 0 < value < math.inf, float
)
_PRICE: Final = _refusing("a number of at least 0", lambda value: _is_number(value) and 0 <= value < math.inf, float)
_TEXT_VALUE: Final = _refusing("a text", lambda value: isinstance(value, str) and bool(value), str)
_TRUTH: Final = _refusing("true or false", lambda value: isinstance(value, bool), bool)


def _named_sizes(parse: Parser, expected: str) -> Parser:
    """Return a parser of a map from names to values, as for `--dim` and `--shape`."""

    def parsed(value: object) -> OptionValue:
        if not isinstance(value, Mapping) or not value:
            raise UsageError(f"{value!r} is invalid", expected=expected)
        return {str(name): parse(one) for name, one in sorted(value.items())}

    return parsed


def _shape(value: object) -> OptionValue:
    if not isinstance(value, list) or not value:
        raise UsageError(f"{value!r} is invalid", expected="a list of sizes")
    return [_whole(least=0)(size) for size in value]


def _options(defaults: object, **others: Option) -> dict[str, Option]:
    """Return the options of every verb, the described ones with the values of `defaults`, and others."""
    kind = type(defaults)
    types, found = get_type_hints(kind), dict(_COMMON)
    for one, described in all_described(kind):
        if described.is_flag and described.is_swept:
            value = getattr(defaults, one.name)
            parse = choice(AccountingName) if one.name == "accounting" else _parser(types[one.name], described)
            found[one.name] = Option(str(value) if isinstance(value, StrEnum) else value, parse)
    return {**found, "bits": Option(None, _whole(most=GREATEST_BITS)), **others}


def _parser(kind: object, described: Described) -> Parser:
    """Return the parser of a described option, by its type; a text that `parse` accepts stays a text."""
    if (parse := described.parse) is not None:

        def parsed(value: object) -> OptionValue:
            parse(str(_TEXT_VALUE(value)))
            return value

        return parsed
    (own,) = (one for one in (get_args(kind) or (kind,)) if one is not NoneType)
    if issubclass(own, StrEnum):
        return choice(own)
    if own is int:
        return _whole(int(described.least or 0), int(described.most or GREATEST_WHOLE))
    return {bool: _TRUTH, float: _PRICE, str: _TEXT_VALUE}[own]


_COMMON: Final = {
    "dims": Option(None, _named_sizes(_whole(least=0), "a size for each symbol, such as {batch: 1}")),
    "shapes": Option(None, _named_sizes(_shape, "a list of sizes for each input, such as {x: [1, 3, 224, 224]}")),
    "granularity": Option(Granularity.FUSED.value, choice(Granularity)),
    "time_limit": Option(None, _SECONDS),
    "seed": Option(0, _whole(least=0)),
}
_PLANS: Final = PlanOptions(method="exact", count=Count.ACTIVATIONS, tiles=TilesOption.NEVER)
VERBS: Final[Mapping[SweptVerb, VerbOptions]] = {
    SweptVerb.PLAN: VerbOptions(
        Objective,
        Objective.TRAFFIC,
        False,
        _options(_PLANS, alignment=Option(None, _whole(most=GREATEST_ALIGNMENT))),
        {Objective.LATENCY: {"method": "timed", "count": Count.ALL.value}},
    ),
    SweptVerb.MAP: VerbOptions(MappingObjective, MappingObjective.ENERGY, True, _options(MapOptions())),
    SweptVerb.FUSE: VerbOptions(FusionObjective, FusionObjective.ENERGY, True, _options(FusionOptions())),
    SweptVerb.SCHEDULE: VerbOptions(ScheduleObjective, ScheduleObjective.ENERGY, True, _options(ScheduleOptions())),
}


Number: TypeAlias = "int | float"


class PointStatus(StrEnum):
    """The status of a point: its method's claim, or FAILED if the computation did not finish."""

    OPTIMAL = Status.OPTIMAL.value
    FEASIBLE = Status.FEASIBLE.value
    INFEASIBLE = Status.INFEASIBLE.value
    UNKNOWN = Status.UNKNOWN.value
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SweptMachine:
    """A machine as the text of its accelerator file; `sha256` is that of its canonical fields."""

    name: str
    yaml: str
    sha256: str


@dataclass(frozen=True, slots=True)
class NeighbourAnswers:
    """Answers at other sizes of a memory: a smaller one's answer, as its compressed file, and a larger one's bound."""

    document: bytes | None = field(repr=False)
    value: Number | None
    lower_bound: Number


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """A question of a study, with the values of its parameters and its costs.

    `key` is a hash of exactly the data that decide the answer. `accelerator` is the user's name of the machine;
    `sram_bytes` is the size if the machine is one scratchpad that holds everything. `options` are those that differ
    from the verb's defaults. `neighbours` are earlier answers, which change no optimum.
    """

    key: str
    verb: SweptVerb
    network: str
    network_sha256: str
    accelerator: str
    machine: SweptMachine
    sram_bytes: int | None
    objective: str
    options: Mapping[str, object] = field(hash=False)
    parameters: Mapping[str, Scalar] = field(hash=False)
    costs: Mapping[str, Number] = field(default_factory=dict, hash=False)
    neighbours: NeighbourAnswers | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PointFigures:
    """Figures of an answer in bytes, cycles and picojoules, each None if the verb does not compute it."""

    traffic_bytes: int | None = None
    non_compulsory_bytes: int | None = None
    peak_bytes: int | None = None
    arena_bytes: int | None = None
    latency_cycles: int | None = None
    energy_pj: float | None = None


FIGURES: Final = tuple(one.name for one in fields(PointFigures))


@dataclass(frozen=True, slots=True)
class PointAnswer:
    """The answer of a point. `reason` explains a missing answer; `document` is the compressed answer file.

    `settled_by` is the key of the point whose answer this one shares, if nothing was computed.
    """

    status: PointStatus
    objective_value: Number | None = None
    lower_bound: Number | None = None
    unit: str = ""
    figures: PointFigures = PointFigures()
    seconds: float = 0.0
    reason: str | None = None
    document: bytes | None = field(default=None, repr=False)
    settled_by: str | None = None

    @property
    def has_value(self) -> bool:
        """Return True if there is an answer."""
        return self.objective_value is not None
