// A machine and a timing for Python.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "latency.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace latency;

void add_machine(nb::module_& module) {
    nb::class_<Machine>(module, "LatencyMachine",
                        "Scratchpads and their DMA; with one channel loads and stores take turns.\n"
                        "\n"
                        "Of each scratchpad (capacity, addressed) bytes: sizes are rounded up to its alignment, "
                        "together they may be its\n"
                        "capacity, and they lie within as many as are addressed.")
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
    nb::enum_<Placing>(
        module, "LatencyPlacing",
        "Whether stays get addresses while they are timed, and which of those that are as good, or `AFTERWARDS`.")
        .value("NONE", Placing::none)
        .value("LOWEST", Placing::lowest)
        .value("HIGHEST", Placing::highest)
        .value("AFTERWARDS", Placing::afterwards);
    nb::class_<Room>(
        module, "LatencyRoom",
        "Shares of each scratchpad: of what stays, and of what is loaded ahead of its step or waits for its store.\n"
        "\n"
        "Where the share is 0 nothing stays from one step to the next, and operators have all room.\n"
        "\n"
        "What is written is placed first, by its bytes, or `is_longest_first`; with `has_place_for_all` loads, too, "
        "which\n"
        "may find a better place later. Afterwards all are placed in `rounds`: what had no place, or a late one, is "
        "placed\n"
        "sooner in the next.")
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
    nb::class_<Tensor>(module, "LatencyTensor", "A band of a tensor in one scratchpad, by number.")
        .def_ro("memory", &Tensor::memory)
        .def_ro("same_as", &Tensor::same_as,
                "The band, in the scratchpad where it is written or read first, that this is in another one; -1 of "
                "itself.");
    nb::class_<Stay>(
        module, "LatencyStay",
        "One tensor over the half-open range of steps [start, stop); it begins with a load or with its operator.")
        .def_ro("tensor", &Stay::tensor)
        .def_ro("start", &Stay::start)
        .def_ro("stop", &Stay::stop)
        .def_ro("is_loaded", &Stay::is_loaded)
        .def_ro("is_stored", &Stay::is_stored);
    nb::class_<Transfer>(module, "LatencyTransfer",
                         "A load or a store of a stay, by number, over the half-open range of cycles [start, stop).\n"
                         "\n"
                         "At `position` p it stands between the operators of steps p - 1 and p.")
        .def_ro("stay", &Transfer::stay)
        .def_ro("is_store", &Transfer::is_store)
        .def_ro("position", &Transfer::position)
        .def_ro("start", &Transfer::start)
        .def_ro("stop", &Transfer::stop);
    nb::class_<Timing>(
        module, "LatencyTiming",
        "What an order comes to in cycles; without room for an operator `fits` is false, and nothing else is said.\n"
        "\n"
        "Nor is it where stays are to be placed, and no place for one was found.")
        .def_ro("fits", &Timing::fits)
        .def_ro("latency", &Timing::latency)
        .def_ro("transfer_cycles", &Timing::transfer_cycles)
        .def_ro("stays", &Timing::stays)
        .def_ro("transfers", &Timing::transfers, "As they are begun.")
        .def_ro("ends", &Timing::ends, "By step the cycle in which its operator ends.")
        .def_ro("offsets_bytes", &Timing::offsets, "By stay its address; empty where they are not placed.");
}

}  // namespace

void add_latency(nb::module_& module) {
    add_machine(module);
    add_room(module);
    add_timing(module);
}

}  // namespace onchip
