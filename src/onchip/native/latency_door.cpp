// A machine and a timing for Python.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "doors.hpp"
#include "latency.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace latency;

void add_machine(nb::module_& module) {
    nb::class_<Machine>(module, "LatencyMachine")
        .def(
            "__init__",
            [](Machine* place, const std::vector<std::pair<Bytes, Bytes>>& scratchpads, Index queues,
               Cycles setup_cycles, bool has_one_channel) {
                std::vector<Scratchpad> found;
                for (const auto& [capacity_bytes, addressed_bytes] : scratchpads) {
                    found.push_back({capacity_bytes, addressed_bytes});
                }
                new (place) Machine{std::move(found), queues, setup_cycles, has_one_channel};
            },
            nb::kw_only(), "scratchpads"_a, "queues"_a, "setup_cycles"_a, "has_one_channel"_a);
}

void add_room(nb::module_& module) {
    nb::enum_<Placing>(module, "LatencyPlacing")
        .value("NONE", Placing::none)
        .value("LOWEST", Placing::lowest)
        .value("HIGHEST", Placing::highest)
        .value("AFTERWARDS", Placing::afterwards);
    nb::class_<Room>(module, "LatencyRoom")
        .def(
            "__init__",
            [](Room* place, double share, double ahead_share, Placing placing, bool is_longest_first,
               bool has_place_for_all, Index rounds) {
                new (place) Room{share, ahead_share, placing, is_longest_first, has_place_for_all, rounds};
            },
            "share"_a, "ahead_share"_a, "placing"_a = Placing::none, "is_longest_first"_a = false,
            "has_place_for_all"_a = false, "rounds"_a = 1)
        .def_ro("share", &Room::share)
        .def_ro("ahead_share", &Room::ahead_share);
}

void add_timing(nb::module_& module) {
    nb::class_<Tensor>(module, "LatencyTensor").def_ro("memory", &Tensor::memory).def_ro("same_as", &Tensor::same_as);
    nb::class_<Stay>(module, "LatencyStay")
        .def_ro("tensor", &Stay::tensor)
        .def_ro("start", &Stay::start)
        .def_ro("stop", &Stay::stop)
        .def_ro("is_loaded", &Stay::is_loaded)
        .def_ro("is_stored", &Stay::is_stored);
    nb::class_<Transfer>(module, "LatencyTransfer")
        .def_ro("stay", &Transfer::stay)
        .def_ro("is_store", &Transfer::is_store)
        .def_ro("position", &Transfer::position)
        .def_ro("start", &Transfer::start)
        .def_ro("stop", &Transfer::stop);
    nb::class_<Timing>(module, "LatencyTiming")
        .def_ro("fits", &Timing::fits)
        .def_ro("latency", &Timing::latency)
        .def_ro("transfer_cycles", &Timing::transfer_cycles)
        .def_ro("stays", &Timing::stays)
        .def_ro("transfers", &Timing::transfers)
        .def_ro("ends", &Timing::ends)
        .def_ro("offsets_bytes", &Timing::offsets);
}

}  // namespace

void add_latency(nb::module_& module) {
    add_machine(module);
    add_room(module);
    add_timing(module);
}

}  // namespace onchip
