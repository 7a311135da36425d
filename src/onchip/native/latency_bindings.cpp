// Python bindings of machines, timings and `LatencyBands`.

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "latency.hpp"
#include "latency_bands.hpp"

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
        .def(nb::init<double, double, Placing, bool, bool, Index>(), "share"_a, "ahead_share"_a,
             "placing"_a = Placing::none, "is_longest_first"_a = false, "has_place_for_all"_a = false, "rounds"_a = 1)
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

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `LatencyBands`.

namespace {

using namespace latency;

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Rate rate_of(const Pairs& terms) {
    Rate rate;
    for (const auto& [unit_bits, cycles] : terms) rate.push_back({unit_bits, cycles});
    return rate;
}

std::vector<Operand> operands_of(const std::vector<std::pair<Index, bool>>& operands) {
    std::vector<Operand> found;
    for (const auto& [tensor, is_cut] : operands) found.push_back({tensor, is_cut});
    return found;
}

std::vector<Way> ways_of(const Pairs& ways) {
    std::vector<Way> found;
    for (const auto& [parts, cycles] : ways) found.push_back({static_cast<Index>(parts), cycles});
    return found;
}

void add_network(nb::module_& module) {
    nb::class_<WholeTensor>(
        module, "LatencyWholeTensor",
        "A tensor in one scratchpad that may be split along its channels.\n"
        "\n"
        "A tensor without a shape has one channel. `same_as` is the number of the tensor of which this is a\n"
        "copy in another scratchpad, or -1. `is_in_dram` is True if DRAM has the tensor from the start or\n"
        "once the original has been stored.")
        .def(nb::init<Bytes, Index, std::int64_t, bool, bool, Index, Index>(), nb::kw_only(), "size_bytes"_a,
             "channels"_a, "bits_per_channel"_a, "is_in_dram"_a, "is_output"_a, "memory"_a, "same_as"_a);
    nb::class_<Access>(
        module, "LatencyAccess",
        "The alignment of a scratchpad in bytes, and the rates of transfers to and from DRAM.\n"
        "\n"
        "`load` and `store` are lists of terms (bits of a unit, cycles of a unit). A transfer takes the sum\n"
        "over the terms, each with its last unit counted in full.")
        .def(
            "__init__",
            [](Access* place, Bytes alignment_bytes, const Pairs& load, const Pairs& store) {
                new (place) Access{alignment_bytes, rate_of(load), rate_of(store)};
            },
            nb::kw_only(), "alignment_bytes"_a, "load"_a, "store"_a);
    nb::class_<WholeOperator>(
        module, "LatencyWholeOperator",
        "An operator that may run in bands along its channels.\n"
        "\n"
        "`reads` and `writes` are pairs of a tensor and True if each band uses only its part of the tensor.\n"
        "`ways` are pairs of a number of bands and the cycles of one band; the first is one band.\n"
        "`cuts_inputs` is True if the split divides the inputs.")
        .def(
            "__init__",
            [](WholeOperator* place, const std::vector<std::pair<Index, bool>>& reads,
               const std::vector<std::pair<Index, bool>>& writes, const Pairs& ways, bool cuts_inputs) {
                new (place) WholeOperator{operands_of(reads), operands_of(writes), ways_of(ways), cuts_inputs};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "ways"_a, "cuts_inputs"_a);
}

}  // namespace

void add_latency_bands(nb::module_& module) {
    add_network(module);
    nb::class_<BandSearch>(
        module, "LatencyBands",
        "Heuristic search for a split of operators into bands and an order of the bands with low latency.\n"
        "\n"
        "Pieces (whole operators or bands) are numbered operator by operator, bands of tensors tensor by\n"
        "tensor. `accesses` has an entry for each scratchpad. `has_given_order` is True if the order of the\n"
        "operators is fixed. The best pieces and order found so far are called the incumbent. Raises\n"
        "ValueError, with the entry, if the network is invalid.")
        .def(
            "__init__",
            [](BandSearch* place, std::vector<WholeTensor> tensors, std::vector<WholeOperator> operators,
               Machine machine, std::vector<Access> accesses, bool has_given_order) {
                new (place) BandSearch(Network{std::move(tensors), std::move(operators), std::move(machine),
                                               std::move(accesses), has_given_order});
            },
            "tensors"_a, "operators"_a, "machine"_a, nb::kw_only(), "accesses"_a, "has_given_order"_a)
        .def("begin", &BandSearch::begin, "parts"_a, "seed"_a, "order"_a = std::vector<Index>{},
             "Restart from a number of bands per operator and an order of the pieces, or the given order.")
        .def("limit_room", &BandSearch::limit_room, "room"_a, "Set the room in which orders are timed from now on.")
        .def("cut_otherwise", &BandSearch::cut_otherwise, "enough"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Try each change of the bands once; end early at a latency of at most `enough` cycles.")
        .def("reorder", &BandSearch::reorder, "most_evaluations"_a, "hottest"_a, "enough"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Improve the order of the incumbent by simulated annealing.\n"
             "\n"
             "`hottest` is the increase in cycles that is typically accepted at first. Ends after\n"
             "`most_evaluations` orders or at a latency of at most `enough` cycles.")
        .def("anneal", &BandSearch::anneal, "most_evaluations"_a, "hottest"_a, "enough"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Improve the bands and the order of the incumbent together by simulated annealing.\n"
             "\n"
             "The arguments are those of `reorder`.")
        .def(
            "evaluate",
            [](const BandSearch& search, const Room& room, const std::vector<Bytes>& first, const StopToken* stop) {
                const nb::gil_scoped_release released;
                return search.evaluate(room, first, stop);
            },
            "room"_a, "first_offsets_bytes"_a = std::vector<Bytes>{}, "stop"_a = nb::none(),
            "Return the timing of the incumbent in the given room.\n"
            "\n"
            "`first_offsets_bytes` are initial offsets of all stays as they are without loads ahead of their\n"
            "step. Placement rounds end if `stop` is asked. Raises IndexError if there are fewer offsets than\n"
            "stays.")
        .def_prop_ro("parts", &BandSearch::parts, "Number of bands of each operator in the incumbent.")
        .def_prop_ro("order", &BandSearch::order, "Pieces of the incumbent in execution order.")
        .def_prop_ro("sizes_bytes", &BandSearch::sizes_bytes,
                     "Size in bytes of each band of a tensor in the incumbent.")
        .def_prop_ro("tensors", &BandSearch::tensors,
                     "Bands of tensors in the incumbent; copies in further scratchpads follow all originals.")
        .def_prop_ro("worth", &BandSearch::worth,
                     "Latency in cycles, cycles of all transfers and number of pieces, compared in this order.");
}

}  // namespace onchip
