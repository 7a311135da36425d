"""The C library of packing: compiled against by C programs, called by several threads, and with fuzzed input."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onchip.native

FOLDER = Path(onchip.native.__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")
SOURCES = [
    FOLDER / name
    for name in ("onchip_pack.cpp", "packing_task.cpp", "packing_attempt.cpp", "packing_search.cpp", "arena.cpp")
]
pytestmark = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="there is no C compiler")

TEN_LINES = """
#include <stdio.h>
#include "onchip_pack.h"
int main(void) {
    const int64_t gaps[] = {3, 5};
    onchip_pack_buffer buffers[] = {{0, 9, 8, 4, ONCHIP_PACK_NO_OFFSET, gaps, 1},
                                    {3, 5, 8, 1, ONCHIP_PACK_NO_OFFSET, NULL, 0}};
    onchip_pack_options options = {.capacity = 1 << 20, .minimize = 1, .seconds = 10};
    int64_t offsets[2];
    onchip_pack_result result;
    onchip_pack_status status = onchip_pack(buffers, 2, &options, offsets, &result);
    printf("%d %d %d %d", status, (int)result.arena, (int)offsets[0], onchip_pack_abi() == ONCHIP_PACK_ABI);
    return 0;
}
"""

REFUSALS = """
#include <stdio.h>
#include "onchip_pack.h"
static int stopped(int64_t arena, int64_t bound, int64_t nodes, void* user) {
    ++*(int*)user;
    return arena < bound && nodes < 0;
}
int main(void) {
    onchip_pack_buffer b[3] = {{0, 2, 6, 1, -1, NULL, 0}, {1, 3, 5, 1, -1, NULL, 0}, {4, 5, 9, 1, -1, NULL, 0}};
    int calls = 0;
    onchip_pack_options o = {.capacity = 10, .progress = stopped, .user = &calls};
    int64_t offsets[3];
    unsigned char is_in[3];
    onchip_pack_result r;
    printf("%d ", onchip_pack(b, 3, &o, offsets, &r));
    printf("%d ", onchip_pack_conflict(b, 3, &o, is_in, &r));
    printf("%d%d%d ", is_in[0], is_in[1], is_in[2]);
    printf("%d ", onchip_pack(b, 3, NULL, offsets, &r));
    printf("%d ", onchip_pack(NULL, 3, &o, offsets, &r));
    printf("%d ", onchip_pack(b, 3, &o, offsets, NULL));
    printf("%d ", onchip_pack(b, 0, &o, NULL, &r));
    b[0].size = 0;
    printf("%d %s", onchip_pack(b, 3, &o, offsets, &r), r.message);
    return 0;
}
"""

FUZZ = """
#include <atomic>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>
#include "onchip_pack.h"
std::atomic<int> packed{0}, refused{0}, wrong{0};
bool live(const onchip_pack_buffer& one, int64_t step) {
    for (size_t g = 0; g < one.gap_count; ++g) {
        if (one.gaps[2 * g] <= step && step < one.gaps[2 * g + 1]) return false;
    }
    return one.start <= step && step < one.stop;
}
void check(const std::vector<onchip_pack_buffer>& b, const std::vector<int64_t>& at, int64_t capacity) {
    for (size_t i = 0; i < b.size(); ++i) {
        if (at[i] < 0 || at[i] + b[i].size > capacity || at[i] % b[i].alignment) ++wrong;
        for (size_t j = 0; j < i; ++j) {
            if (at[i] + b[i].size <= at[j] || at[j] + b[j].size <= at[i]) continue;
            for (int64_t step = 0; step < 60; ++step) wrong += live(b[i], step) && live(b[j], step);
        }
    }
}
void fuzz(unsigned seed) {
    std::mt19937_64 chance(seed);
    const int64_t odd[] = {0, -1, 1, INT64_MAX, INT64_MIN, int64_t{1} << 60, int64_t{1} << 62, 3};
    for (int round = 0; round < ROUNDS; ++round) {
        std::vector<onchip_pack_buffer> b(chance() % 20);
        std::vector<int64_t> gaps(2 * b.size()), at(b.size());
        const bool is_odd = chance() % 3 == 0;
        for (size_t i = 0; i < b.size(); ++i) {
            const int64_t start = chance() % 40, stop = start + 1 + chance() % 15;
            const int64_t size = 1 + chance() % 9, alignment = 1 + chance() % 4;
            b[i] = {start, stop, size, alignment, -1, 0, 0};
            if (chance() % 4 == 0 && stop - start > 2) {
                gaps[2 * i] = start + chance() % (stop - start - 1);
                gaps[2 * i + 1] = gaps[2 * i] + 1;
                b[i].gaps = &gaps[2 * i];
                b[i].gap_count = 1;
            }
            if (chance() % 8 == 0) b[i].offset = b[i].alignment * (chance() % 6);
            int64_t* fields[] = {&b[i].start, &b[i].stop, &b[i].size, &b[i].alignment, &b[i].offset, &gaps[2 * i]};
            if (is_odd && chance() % 4 == 0) *fields[chance() % 6] = odd[chance() % 8];
        }
        onchip_pack_options o{};
        o.capacity = is_odd && chance() % 4 == 0 ? odd[chance() % 8] : static_cast<int64_t>(chance() % 60);
        o.minimize = chance() % 2;
        o.most_nodes = 20000;
        onchip_pack_result r;
        std::vector<unsigned char> is_in(b.size() + 1);
        const auto status = onchip_pack(b.data(), b.size(), &o, at.data(), &r);
        packed += status <= ONCHIP_PACK_FEASIBLE;
        refused += status == ONCHIP_PACK_INVALID;
        if (status <= ONCHIP_PACK_FEASIBLE && !is_odd) check(b, at, r.arena);
        if (status != ONCHIP_PACK_INFEASIBLE || chance() % 4 != 0) continue;
        onchip_pack_conflict(b.data(), b.size(), &o, is_in.data(), &r);
    }
}
int main() {
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(fuzz, seed);
    for (std::thread& one : threads) one.join();
    std::printf("%d %d %d", packed > 0, refused > 0, wrong.load());
}
"""


def ran(tmp_path: Path, source: str) -> str:
    """Compile a C program against the installed library, and return its output."""
    program = tmp_path / "program.c"
    program.write_text(source)
    assert COMPILER is not None
    flags = ["-std=c11", "-Wall", "-Werror", f"-I{FOLDER}", f"-L{FOLDER}", "-lonchip_pack", f"-Wl,-rpath,{FOLDER}"]
    subprocess.run([COMPILER, program, *flags, "-o", tmp_path / "program"], check=True)
    return subprocess.run([tmp_path / "program"], check=True, capture_output=True, text=True).stdout


def test_a_c_program_of_ten_lines_packs(tmp_path: Path) -> None:
    assert ran(tmp_path, TEN_LINES) == "0 8 0 1"


def test_invalid_arguments_are_refused_and_conflicts_named(tmp_path: Path) -> None:
    expected = "2 0 110 4 4 4 0 4 buffer 0 has a size that is not between 1 and 2^58"
    assert ran(tmp_path, REFUSALS) == expected


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_fuzzed_input_in_several_threads_is_clean(tmp_path: Path, sanitizers: str) -> None:
    program, compiler = tmp_path / "fuzz.cpp", shutil.which("c++") or "c++"
    program.write_text(FUZZ.replace("ROUNDS", "300"))
    flags = ["-std=c++20", "-O1", "-g1", "-fwrapv", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    subprocess.run(
        [compiler, *flags, f"-I{FOLDER}", program, *SOURCES, "-pthread", "-o", tmp_path / "fuzz"], check=True
    )
    ended = subprocess.run([tmp_path / "fuzz"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1 1 0", "")
