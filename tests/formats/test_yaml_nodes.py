"""YAML as JSON by libyaml's events, held against ruamel's nodes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from onchip.errors import InputError
from onchip.formats.validation import Format, field_path
from onchip.formats.yaml_events import leading_field_names
from onchip.formats.yaml_nodes import Lines, YamlDocument, parse_yaml, yaml_entries, yaml_with_entries
from oracles.yaml_values import NoValueError, Values, yaml_values

ROOT = Path(__file__).parents[2]
FORMAT = Format("some", 1, InputError)
TAGGED = ROOT / "tests" / "found" / "machines" / "nodes.arch.yaml"
"""Its tags are Timeloop's, which has a reader of its own."""
FILES = sorted({path for room in ("src", "tests", "examples") for path in (ROOT / room).rglob("*.yaml")} - {TAGGED})
WORDS = r"""
yes no on off y n Yes NO true True TRUE tRUE false False FALSE null Null NULL nULL ~ 0 00 -0 +7 010 08 0o10 0b11 0x1F
1_000 1:20 12:30:45 0b 0o 0x - -- --- ... . .. + +. -a a-b a:b a#b http://a/b ?a a? a,b a/b << = 12345678901234567890
9223372036854775807 9223372036854775808 -9223372036854775808 1e3 1E+3 1e 1.5e-3 1. .5 -.5 +1.5 1.e3 .inf -.INF +.inf
.nan .NaN inf nan 1e400 1_0.5 1__0.5 1_.5 1e1_0 ._ 0.1 1e-400 0e0 2001-01-01 2001-1-1 2001-01-01T00:00:00Z 'it''s' ''
"" "a\nb" "\u00e9" "\/" "\x41" "\q" 'true' "12" é 日本 😀 @a `a %a *a |a >a [a {a ]a }a !a a! a* a& a% a|b <a <<< ==
'1e3' "~" [] {} {"a":1}
"""
SCALARS = (
    *WORDS.split(),
    *("", "!!str 1", '!!int "7"', "!!int 0x10", "!!float 1", "!!float a", "!!bool true", "!!null a", "!b a", "! 1"),
    *('! "1"', "&x a", "a b", "a  b # c", "'a # b'", "a: b", "[1, a, [b]]", "{a: 1, b: {}}", "[a: 1]", "[a, ]", "a #b"),
    *("{a, b: }", "[? a : b]", "!!seq [a]", "!!map {a: b}", "!!set {a}", "!!str [a]", "#a", "|\n  a\n  b\n", "!!seq a"),
    *(">-\n  a\n  b\n", "a\n  b", "'a\n  b'", "|+\n  a\n\n", "[a,\tb]", '"a\tb"'),
)
TABS_AND_MARKS = ("\ta", "a\t", "&a", "!!str", "!")
"""libyaml reads some of these where ruamel does not."""
AROUND = ("{}", "{}\n", "a: {}\n", "- {}\n", "[{}]", "{{a: {}}}", "{}: a\n", "[{}, b]", "a:\n {}\n")
NAMES = ("a", "b", "long name", "'q'", '"d"', "é", "a-b", "x1")


@dataclass(frozen=True, slots=True)
class Chance:
    """Makes documents: any of SCALARS where a value may stand, a few names, both ways to write lists and mappings."""

    random: random.Random

    def document(self) -> str:
        head = self.random.choice(("", "", "", "---\n", "# of what\n", "%YAML 1.2\n---\n", "\n\n"))
        end = self.random.choice(("", "", "\n", "# that was it\n", "...\n", "---\n"))
        return f"{head}{self.block(0, self.random.randint(1, 4))}{end}"

    def block(self, indent: int, depth: int) -> str:
        is_list = self.random.random() < 0.4
        lines = []
        for _ in range(self.random.randint(1, 4)):
            start = "-" if is_list else f"{self.random.choice(NAMES)}:"
            lines.append(f"{' ' * indent}{start}{self.inner(indent, depth)}")
            if self.random.random() < 0.1:
                lines.append(self.random.choice(("", "# said\n", f"{' ' * indent}# said\n", "\n")))
        return "".join(lines)

    def inner(self, indent: int, depth: int) -> str:
        if depth > 1 and self.random.random() < 0.6:
            return f"\n{self.block(indent + self.random.randint(1, 3), depth - 1)}"
        return f" {self.flow(self.random.choice((0, 0, 1, 2)))}\n"

    def flow(self, depth: int) -> str:
        if not depth:
            plain = self.random.choice(("a", "12", "1.5", "true", "''", "b c", "-3"))
            return plain if self.random.random() < 0.7 else self.random.choice(SCALARS)
        between = self.random.choice((", ", ",", ",\n      "))
        parts = [self.flow(depth - 1) for _ in range(self.random.randint(0, 3))]
        if self.random.random() < 0.5:
            return f"[{between.join(parts)}]"
        return f"{{{between.join(f'{self.random.choice(NAMES)}: {part}' for part in parts)}}}"


def read(text: str, *, last_field_counts: bool) -> YamlDocument:
    """As the readers of formats do, or as those of lists do."""
    if not last_field_counts:
        return parse_yaml(text, FORMAT, "file")
    entries = list(yaml_entries(text, FORMAT, "file"))
    if [one.at for one in entries] == [""]:
        return entries[0]
    parts: Lines = {number: (one.line, one.lines) for number, one in enumerate(entries)}
    return YamlDocument([one.value for one in entries], 1, parts)


def is_read_alike(text: str, *, last_field_counts: bool = False, by_both: bool = True) -> bool:
    """Whether both read it; then they agree on value and lines, and with `by_both` on whether it can be read."""
    try:
        expected: Values | None = yaml_values(text, last_field_counts=last_field_counts)
    except NoValueError:
        expected = None
    try:
        found = read(text, last_field_counts=last_field_counts)
    except InputError:
        found = None
    assert not by_both or (expected is None) == (found is None), (text, expected, found)
    if expected is None or found is None:
        return False
    assert repr(found.value) == repr(expected.value), text
    for path, line in expected.line_of.items():
        if path:
            assert found.place(field_path(path)) == f"line {line}: {field_path(path)}", (text, path)
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_of_the_repository_means_what_it_meant(path: Path) -> None:
    assert is_read_alike(path.read_text(encoding="utf-8"))
    assert is_read_alike(path.read_text(encoding="utf-8"), last_field_counts=True)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("scalar", SCALARS)
def test_a_scalar_means_what_it_meant(around: str, scalar: str) -> None:
    is_read_alike(around.format(scalar))


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("scalar", TABS_AND_MARKS)
def test_what_both_read_they_read_alike(around: str, scalar: str) -> None:
    is_read_alike(around.format(scalar), by_both=False)


@pytest.mark.parametrize("seed", range(40))
def test_random_documents_mean_what_they_meant(seed: int) -> None:
    chance = random.Random(seed)
    documents = [Chance(chance).document() for _ in range(30)]
    assert sum(is_read_alike(text, last_field_counts=chance.random() < 0.5) for text in documents) > 3
    for text in documents:
        is_read_alike(damaged(text, chance), by_both=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# nothing\n", "line 1: it is empty; expected a mapping"),
        ("%YAML 1.1\n---\na: yes\n", "line 1: the whole file: it is YAML 1.1; expected YAML 1.2"),
        ("a: 1\n---\nb: 2\n", "line 2: the whole file: another document begins; expected one document"),
        ("a: &x [1]\nb: *x\n", "line 2: b: it is an alias of another value; expected each value written out"),
        ("a: 1\nb: 2\na: 3\n", "line 3: a: the field stands twice; expected each field once"),
        ("a: 1\nb: !!set {c}\n", 'line 2: b: it is tagged "tag:yaml.org,2002:set"; expected a plain mapping or list'),
        ("a:\n- b\n- 0x10\n", 'line 3: a[1]: it is "0x10"; expected a decimal integer'),
        ("a:\n  <<: {b: 1}\n", 'line 2: a: it is "<<"; expected text, a finite number, true or false'),
        ("a:\n  12: 1\n", 'line 2: a: the field name "12" is no text; expected plain names of fields'),
        ("a: 1\n[b]: 2\n", "line 2: the whole file: the field name is a list; expected plain names of fields"),
        (f"{'a' * 1001}: 2\n", "line 1: the whole file: a field name is too long; expected at most 1000 characters"),
        ("a: [1\nb: 2\n", "line 2: malformed YAML: did not find expected ',' or ']'; expected YAML"),
        ("a: 1\nb: \x07\n", "line 2: malformed YAML: control characters are not allowed; expected YAML"),
        (
            f"a:\n {'[' * 2000}",
            f"line 2: a{'[0]' * 98}[0...: it is nested too deeply; expected the format's few levels",
        ),
    ],
)
def test_what_is_refused_has_its_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_yaml(text, FORMAT, "file")
    assert str(raised.value) == f"file: {said}"


@pytest.mark.parametrize("seed", range(40))
def test_entries_of_a_field_mean_what_they_mean_in_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    documents = [text for text in (Chance(chance).document() for _ in range(30)) if is_read_alike(text)]
    for text in documents:
        whole, parts = parse_yaml(text, FORMAT, "file"), list(yaml_with_entries(text, FORMAT, "file", "a"))
        rest, entries = parts[-1], [part for part in parts if part.at]
        listed = whole.value.get("a") if isinstance(whole.value, dict) else None
        if not entries:
            assert (rest.value, rest.lines) == (whole.value, whole.lines)
            continue
        assert isinstance(whole.value, dict)
        assert [part.value for part in entries] == listed
        assert rest.value == whole.value | {"a": []}
        for number, part in enumerate(entries):
            assert part.at == f"a[{number}]"
            assert (part.line, part.lines) == whole.lines["a"][1][number]


def test_a_value_of_a_million_parts_is_too_large() -> None:
    with pytest.raises(
        InputError, match=r"file: line 2: a\[99999\d\]: it is too large; expected at most 1000000 values"
    ):
        parse_yaml("a:\n [" + "1," * 1_000_000 + "]", FORMAT, "file")


def test_entries_come_one_by_one_until_one_is_wrong() -> None:
    entries = yaml_entries("- {a: 1}\n- {a: 2,\n   a: 3}\n- *b\n", FORMAT, "file")
    first, second = next(entries), next(entries)
    assert (first.value, second.value) == ({"a": 1}, {"a": 3})
    assert (first.place("a"), second.place("a")) == ("line 1: [0].a", "line 3: [1].a")
    assert second.place("b.c") == "line 2: [1].b.c"
    with pytest.raises(InputError, match=r"file: line 4: \[2\]: it is an alias"):
        next(entries)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a: 1\nb: {c: [d]}\ne:\n", {"a", "b", "e"}),
        ("- a: [1]\n  b: 2\n- c: 3\n", {"a", "b"}),
        ("a: 1\nb: [\n", {"a", "b"}),
        ("- - a: 1\n", set()),
        ("a", set()),
        ("", set()),
        ("[{a: 1", {"a"}),
        (f"a: {'[' * 10**5}", {"a"}),
        ("a: 1\nb: \xff", set()),
    ],
)
def test_the_fields_that_tell_formats_apart(text: str, names: set[str]) -> None:
    assert leading_field_names(text.encode("latin-1")) == names


def damaged(text: str, chance: random.Random) -> str:
    """With a few characters less or more."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        more = chance.choice(
            ("", "", " ", "\n", ":", "-", "[", "]", "{", "}", ",", "#", "'", '"', "!", "&", "*", "|", "a", "\t")
        )
        text = text[:at] + more + text[at + chance.randint(0, 2) :]
    return text
