// Python bindings of machines and timings.

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
    nb::class_<Machine>(
        module, "LatencyMachine",
        "Scratchpads with their DMA queues.\n"
        "\n"
        "`scratchpads` are pairs of the capacity and the addressable bytes. Sizes are rounded up to the\n"
        "alignment; their sum is limited by the capacity, and addresses lie within the addressable bytes.\n"
        "`setup_cycles` precede each transfer. If `has_one_channel`, loads and stores take turns.")
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
        "Rule for the addresses of stays.\n"
        "\n"
        "NONE counts bytes only. LOWEST and HIGHEST choose an address while timing and break ties by the\n"
        "lowest or the highest offset. AFTERWARDS chooses addresses once everything is timed in bytes.")
        .value("NONE", Placing::none)
        .value("LOWEST", Placing::lowest)
        .value("HIGHEST", Placing::highest)
        .value("AFTERWARDS", Placing::afterwards);
    nb::class_<Room>(
        module, "LatencyRoom",
        "Limits on the use of each scratchpad, and the rule for addresses.\n"
        "\n"
        "`share` is the largest fraction that stays may fill. `ahead_share` limits loads ahead of their\n"
        "step and tensors that wait for their store. With a share of 0 nothing stays from one step to the\n"
        "next, and each operator has all room.\n"
        "\n"
        "Written tensors are placed first, the largest first, or if `is_longest_first` those with the\n"
        "longest lifetime. If `has_place_for_all`, loads have a reserved address from the start too, which\n"
        "may be improved later. AFTERWARDS repeats the placement `rounds` times: tensors without an\n"
        "address, or with a late one, are placed earlier in the next round.")
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
    nb::class_<Tensor>(module, "LatencyTensor", "A band of a tensor in one scratchpad.")
        .def_ro("memory", &Tensor::memory)
        .def_ro("same_as", &Tensor::same_as,
                "Number of the band in the home scratchpad of which this is a copy, or -1 for an original.");
    nb::class_<Stay>(module, "LatencyStay",
                     "Residency of a tensor over the steps `start` to `stop - 1`.\n"
                     "\n"
                     "It begins with a load or with the operator that writes the tensor.")
        .def_ro("tensor", &Stay::tensor)
        .def_ro("start", &Stay::start)
        .def_ro("stop", &Stay::stop)
        .def_ro("is_loaded", &Stay::is_loaded)
        .def_ro("is_stored", &Stay::is_stored);
    nb::class_<Transfer>(module, "LatencyTransfer",
                         "A load or a store of a stay, over the cycles `start` to `stop - 1`.\n"
                         "\n"
                         "`stay` is a number in `LatencyTiming.stays`. In the program the transfer stands between the\n"
                         "operators of the steps `position - 1` and `position`.")
        .def_ro("stay", &Transfer::stay)
        .def_ro("is_store", &Transfer::is_store)
        .def_ro("position", &Transfer::position)
        .def_ro("start", &Transfer::start)
        .def_ro("stop", &Transfer::stop);
    nb::class_<Timing>(
        module, "LatencyTiming",
        "Timing of an order in cycles.\n"
        "\n"
        "`fits` is False if an operator does not fit, or if stays need addresses and none were found. No\n"
        "other attribute is valid then.")
        .def_ro("fits", &Timing::fits)
        .def_ro("latency", &Timing::latency)
        .def_ro("transfer_cycles", &Timing::transfer_cycles)
        .def_ro("stays", &Timing::stays)
        .def_ro("transfers", &Timing::transfers, "Transfers in the order in which they start.")
        .def_ro("ends", &Timing::ends, "Cycle in which the operator of each step ends.")
        .def_ro("offsets_bytes", &Timing::offsets, "Offset of each stay in bytes; empty if stays are not placed.");
}

}  // namespace

void add_latency(nb::module_& module) {
    add_machine(module);
    add_room(module);
    add_timing(module);
}

}  // namespace onchip
