"""The constant arrays of a project: each once, large ones in files of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from onchip.backends.c.names import identifier
from onchip.backends.c.project.calls import Table
from onchip.backends.c.project.literals import rows

OWN_FILE_ELEMENTS: Final = 4096
"""A table of more elements has a file of its own."""
LONGEST_NAME: Final = 200
"""Letters of a table's name, which also names a file: file systems take 255 bytes."""
_INCLUDES: Final = "#include <math.h>\n#include <stdint.h>\n"


@dataclass(slots=True)
class Tables:
    """Names for tables: the same elements under the same name are one array.

    No table gets one of the `reserved` names, which other things in the project have.
    """

    prefix: str
    reserved: frozenset[str] = frozenset()
    _names: dict[tuple[str, str, bytes], str] = field(default_factory=dict)
    _tables: dict[str, Table] = field(default_factory=dict)

    def name(self, table: Table) -> str:
        """Return the identifier of a table, which is new or has been asked for before."""
        key = (table.name, table.element, sha256(table.values.tobytes()).digest())
        if key not in self._names:
            wanted = f"{self.prefix}_{identifier(table.name).lower()}"[:LONGEST_NAME].rstrip("_")
            name, number = wanted, 1
            while name in self._tables or name in self.reserved:
                number += 1
                name = f"{wanted}_{number}"
            self._names[key] = name
            self._tables[name] = table
        return self._names[key]

    @property
    def size_bytes(self) -> int:
        """Return what all arrays take together."""
        return sum(table.values.nbytes for table in self._tables.values())

    def header(self) -> str:
        """Return the file that declares every array."""
        guard = f"{self.prefix.upper()}_CONSTANTS_H"
        lines = [
            f"extern const {table.element} {name}[{table.values.size}];" for name, table in sorted(self._tables.items())
        ]
        text = "\n".join(lines)
        return (
            f"/* Constant arrays: weights, and what kernels are told. */\n#ifndef {guard}\n#define {guard}\n\n"
            f"#include <stdint.h>\n\n{text}\n\n#endif\n"
        )

    def sources(self) -> Iterator[tuple[str, str]]:
        """Yield the names and the text of the files that define them; the first has all small ones."""
        small = {name: one for name, one in self._tables.items() if one.values.size <= OWN_FILE_ELEMENTS}
        definitions = "\n\n".join(definition(name, one) for name, one in small.items())
        yield "constants.c", f'{_INCLUDES}\n#include "constants.h"\n\n{definitions}\n'
        for name, one in self._tables.items():
            if name not in small:
                yield f"constants/{name}.c", f'{_INCLUDES}\n#include "../constants.h"\n\n{definition(name, one)}\n'


def definition(name: str, table: Table, storage: str = "const") -> str:
    """Return the definition of an array."""
    lines = "\n".join(rows(table.values))
    return f"{storage} {table.element} {name}[{table.values.size}] = {{\n{lines}\n}};"
