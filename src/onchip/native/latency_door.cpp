// `LatencySearch` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "doors.hpp"
#include "latency.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace latency;

void add_problem(nb::module_& module) {
    nb::class_<Tensor>(module, "LatencyTensor")
        .def(
            "__init__",
            [](Tensor* place, Bytes bytes, Cycles load_cycles, Cycles store_cycles, bool is_in_dram, bool is_output) {
                new (place) Tensor{bytes, load_cycles, store_cycles, is_in_dram, is_output};
            },
            nb::kw_only(), "size_bytes"_a, "load_cycles"_a, "store_cycles"_a, "is_in_dram"_a, "is_output"_a);
    nb::class_<Operator>(module, "LatencyOperator")
        .def(
            "__init__",
            [](Operator* place, Cycles cycles, std::vector<Index> reads, std::vector<Index> writes,
               std::vector<Index> predecessors) {
                new (place) Operator{cycles, std::move(reads), std::move(writes), std::move(predecessors)};
            },
            nb::kw_only(), "cycles"_a, "reads"_a, "writes"_a, "predecessors"_a);
    nb::class_<Machine>(module, "LatencyMachine")
        .def(
            "__init__",
            [](Machine* place, Bytes capacity_bytes, Index queues, Cycles setup_cycles, bool has_one_channel) {
                new (place) Machine{capacity_bytes, queues, setup_cycles, has_one_channel};
            },
            nb::kw_only(), "capacity_bytes"_a, "queues"_a, "setup_cycles"_a, "has_one_channel"_a);
}

void add_timing(nb::module_& module) {
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
        .def_ro("ends", &Timing::ends);
}

}  // namespace

void add_latency(nb::module_& module) {
    add_problem(module);
    add_timing(module);
    nb::class_<OrderSearch>(module, "LatencySearch")
        .def(
            "__init__",
            [](OrderSearch* place, std::vector<Tensor> tensors, std::vector<Operator> operators, Machine machine) {
                new (place) OrderSearch(Problem{std::move(tensors), std::move(operators), machine});
            },
            "tensors"_a, "operators"_a, "machine"_a)
        .def("evaluate", &OrderSearch::evaluate, "order"_a, "capacity_bytes"_a, "ahead_bytes"_a)
        .def(
            "run",
            [](OrderSearch& search, std::vector<Index> order, std::uint64_t seed, Bytes ahead_bytes,
               std::int64_t most_evaluations, double hottest, Cycles enough, const StopToken& stop) {
                const nb::gil_scoped_release without_lock;
                return search.run(std::move(order), {seed, ahead_bytes, most_evaluations, hottest, enough}, stop);
            },
            "order"_a, nb::kw_only(), "seed"_a, "ahead_bytes"_a, "most_evaluations"_a, "hottest"_a, "enough"_a,
            "stop"_a)
        .def_prop_ro("order", &OrderSearch::order)
        .def_prop_ro("latency", &OrderSearch::latency);
}

}  // namespace onchip
