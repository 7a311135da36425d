"""A call of a kernel as lines of C: what it is told stands in constants before it, so that the stack has none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from onchip.backends.c.project.calls import Argument, KernelCall, Record, Symbol, Table, TensorOperand
from onchip.backends.c.project.literals import integer, real

_A_LINE: Final = 112
_INDENT: Final = "    "


@dataclass(slots=True)
class CallText:
    """Writes one call; `address` says where a tensor lies, `name` how a table is called."""

    address: Callable[[TensorOperand], str]
    name: Callable[[Table], str]
    _constants: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, call: KernelCall) -> Iterator[str]:
        """Yield the lines: the call alone, or a block of constants and the call."""
        arguments = [self._argument(one) for one in call.arguments]
        indent = _INDENT * (2 if self._constants else 1)
        if self._constants:
            yield f"{_INDENT}{{"
            for constant in self._constants.values():
                yield from (f"{indent}{line}" for line in constant)
        yield from (f"{indent}{line}" for line in _wrapped(f"{call.function}(", arguments, ");"))
        if self._constants:
            yield f"{_INDENT}}}"

    def _argument(self, argument: Argument) -> str:
        match argument:
            case TensorOperand():
                return self.address(argument)
            case Record(struct, _):
                name = self._fresh(struct)
                self._constants[name] = list(self._struct(f"static const struct {struct} {name} = ", argument))
                return f"&{name}"
            case Symbol(symbol):
                return symbol
            case tuple():
                name = self._fresh("numbers")
                self._constants[name] = [f"static const int32_t {name}[] = {self._value(argument)};"]
                return name
            case None:
                return "NULL"
        return self._value(argument)

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._constants:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def _struct(self, declared: str, record: Record) -> Iterator[str]:
        """What a struct says of itself in one line, and each struct within in a line of its own."""
        together = f"{declared}{self._value(record)};"
        if len(together) <= _A_LINE:
            yield together
            return
        yield f"{declared}{{"
        own = ", ".join(self._named(name, one) for name, one in _said(record) if not _is_wide(one))
        wide = [self._named(name, one) for name, one in _said(record) if _is_wide(one)]
        yield from (f"{_INDENT}{line}," for line in ([own] if own else []) + wide)
        yield "};"

    def _named(self, name: str, value: object) -> str:
        return f".{name} = {self._value(value)}"

    def _value(self, value: object) -> str:
        match value:
            case Record():
                return f"{{{', '.join(self._named(name, one) for name, one in _said(value))}}}"
            case Table():
                return self.name(value)
            case tuple():
                return f"{{{', '.join(self._value(one) for one in value)}}}"
            case float():
                return real(value)
            case int():
                return integer(value)
        raise TypeError(f"no value of C: {value!r}")


def _said(record: Record) -> Iterator[tuple[str, object]]:
    """Yield the fields that are not 0, as those left out are; the first where all are."""
    said = [(name, value) for name, value in record.fields if not isinstance(value, int) or value]
    yield from said or record.fields[:1]


def _is_wide(value: object) -> bool:
    return isinstance(value, Record | Table) or (isinstance(value, tuple) and not isinstance(value[0], int))


def _wrapped(start: str, arguments: list[str], end: str) -> Iterator[str]:
    """Yield arguments in as few lines as hold them."""
    line = start
    for at, argument in enumerate(arguments):
        piece = argument + (end if at == len(arguments) - 1 else ",")
        if len(line) + len(piece) > _A_LINE:
            yield line.rstrip()
            line = _INDENT
        line += f"{piece} "
    yield line.rstrip()
