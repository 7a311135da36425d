from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.errors import InputError
from onchip.formats.minimalloc import BufferTable, packing_to_csv, read_buffers

INSTANCES = Path(__file__).parent.parent / "data" / "minimalloc"


def read(tmp_path: Path, text: str) -> BufferTable:
    path = tmp_path / "buffers.csv"
    path.write_text(text)
    return read_buffers(path)


def test_minimalloc_s_own_example() -> None:
    table = read_buffers(INSTANCES / "input.12.csv")

    assert table.ids == ("b1", "b2", "b3", "b4", "b5")
    assert table.buffers[1] == Buffer(3, 9, 4)
    assert table.alignment_bytes is None


def test_all_eleven_instances_are_read() -> None:
    counts = {path.name[0]: len(read_buffers(path).buffers) for path in INSTANCES.glob("?.1048576.csv")}

    assert counts == {
        "A": 154, "B": 170, "C": 203, "D": 213, "E": 215, "F": 296, "G": 308, "H": 316, "I": 374, "J": 409, "K": 454,
    }  # fmt: skip


def test_columns_stand_in_any_order_and_have_other_names(tmp_path: Path) -> None:
    table = read(tmp_path, "size,buffer_id,end,start\n4,a,2,0\n")

    assert (table.ids, table.buffers) == (("a",), (Buffer(0, 3, 4),))


def test_an_offset_is_fixed_and_an_empty_one_is_open(tmp_path: Path) -> None:
    table = read(tmp_path, "id,lower,upper,size,offset\na,0,3,4,100\nb,0,3,4,\n")
    assert table.buffers == (Buffer(0, 3, 4, 100), Buffer(0, 3, 4))


def test_gaps_and_an_alignment_for_each_buffer_are_read_and_written(tmp_path: Path) -> None:
    table = read(tmp_path, "id,lower,upper,size,alignment,gaps\na,0,9,4,2,3-5 6-7\nb,0,3,4,4,\n")
    first, second = table.buffers
    assert (table.alignment_bytes, first.alignment_bytes, second.alignment_bytes) == (None, 2, 4)
    assert (first.gaps, second.gaps) == (((3, 5), (6, 7)), ())
    written = packing_to_csv(table.ids, PackingProblem(table.buffers, 8), Packing((0, 4)))
    assert written == "id,lower,upper,size,alignment,gaps,offset\na,0,9,4,2,3-5 6-7,0\nb,0,3,4,4,,4\n"


def test_windows_line_ends_empty_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeffid,lower,upper,size\r\na,0,3,4\r\n\r\n").buffers == (Buffer(0, 3, 4),)


REFUSED = {
    "": ("line 1", "column 'id' is missing"),
    "id,lower,upper\n": ("line 1", "column 'size' is missing"),
    "id,lower,size\n": ("line 1", "there is not one of columns 'upper' and 'end'"),
    "id,lower,upper,end,size\n": ("line 1", "there is not one of columns 'upper' and 'end'"),
    "id,lower,upper,size,colour\n": ("line 1", "column 'colour' is unknown"),
    "id,lower,start,upper,size\n": ("line 1", "column 'lower' is there twice"),
    "id,lower,upper,size\na,0,3\n": ("line 2", "it has 3 fields"),
    "id,lower,upper,size\na,0,3,4,5\n": ("line 2", "it has 5 fields"),
    "id,lower,upper,size\na,0,3,4\nb,0,x,4\n": ("line 3, upper", "'x' is out of range"),
    "id,lower,upper,size\na,-1,3,4\n": ("line 2, lower", "'-1' is out of range"),
    "id,lower,upper,size\na,0,3,4.5\n": ("line 2, size", "'4.5' is out of range"),
    "id,lower,upper,size\na,0,3,99999999999999999999\n": ("line 2, size", "'99999999999999999999' is out of range"),
    "id,lower,upper,size\na,0,3,0\n": ("line 2, size", "'0' is out of range"),
    "id,lower,upper,size\na,3,3,1\n": ("line 2", "a buffer lives over [3, 3)"),
    "id,lower,upper,size\na,0,3,4\na,0,3,4\n": ("line 3, id", "'a' is the id of line 2 too"),
    "id,lower,upper,size,gaps\na,0,3,4,1-2@0:2\n": ("line 2, gaps", "'1-2@0:2' is no gap without a window"),
    "id,lower,upper,size,gaps\na,0,3,4,2-4\n": ("line 2", "a buffer has the gaps [(2, 4)]"),
    "id,lower,upper,size,offset\na,0,3,4,-8\n": ("line 2, offset", "'-8' is out of range"),
    "id,lower,upper,size,alignment\na,0,3,4,0\n": ("line 2, alignment", "'0' is out of range"),
    'id,lower,upper,size\n"a,0,3,4\n': ("line 2", "it is no CSV (unexpected end of data)"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_input_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)

    place, what = REFUSED[text]
    assert (caught.value.place, caught.value.what) == (place, what)
    assert caught.value.file == str(tmp_path / "buffers.csv")
    assert caught.value.expected


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "buffers.csv"
    path.write_bytes(b"id,lower\xff\n")

    with pytest.raises(InputError, match="is not text"):
        read_buffers(path)


def test_more_bytes_than_any_memory_has_are_refused(tmp_path: Path) -> None:
    lines = "".join(f"b{index},0,1,{2**49}\n" for index in range(3))

    with pytest.raises(InputError, match="too large"):
        read(tmp_path, f"id,lower,upper,size\n{lines}")


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 50), st.integers(1, 10**6), st.integers(0, 10**9)), max_size=20
    )
)
def test_what_is_written_is_read_again(rows: list[tuple[int, int, int, int]]) -> None:
    buffers = tuple(Buffer(start, start + life, size) for start, life, size, _ in rows)
    ids = tuple(f'b{index}, "{index}"' for index in range(len(rows)))
    text = packing_to_csv(ids, PackingProblem(buffers, 1), Packing(tuple(row[3] for row in rows)))

    import csv
    import io

    lines = list(csv.reader(io.StringIO(text)))
    assert lines[0] == ["id", "lower", "upper", "size", "offset"]
    assert [tuple(map(int, line[1:])) for line in lines[1:]] == [(s, s + life, z, o) for s, life, z, o in rows]
    assert [line[0] for line in lines[1:]] == list(ids)
