// `joint::Search` for Python.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "doors.hpp"
#include "joint.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_joint(nb::module_& module) {
    using namespace joint;
    nb::enum_<Outcome>(module, "JointOutcome")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped)
        .value("STATES_SPENT", Outcome::states_spent)
        .value("MEMORY_SPENT", Outcome::memory_spent);
    nb::class_<Tensor>(module, "JointTensor")
        .def(
            "__init__",
            [](Tensor* place, Units units, Cost load_cost, Cost store_cost, bool may_end_short, Cost first_load_cost,
               Cost first_store_cost) {
                new (place) Tensor{units, load_cost, store_cost, first_load_cost, first_store_cost, may_end_short};
            },
            nb::kw_only(), "units"_a, "load_cost"_a, "store_cost"_a, "may_end_short"_a, "first_load_cost"_a = 0,
            "first_store_cost"_a = 0);
    using Overwritables = std::vector<std::tuple<Index, Units, Index>>;
    nb::class_<Operator>(module, "JointOperator")
        .def(
            "__init__",
            [](Operator* place, std::vector<Index> reads, std::vector<Index> writes, std::vector<Index> predecessors,
               const Overwritables& overwritables) {
                std::vector<Overwritable> inputs;
                for (const auto& [tensor, units, group] : overwritables) inputs.push_back({tensor, units, group});
                new (place) Operator{std::move(reads), std::move(writes), std::move(predecessors), std::move(inputs)};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a, "overwritables"_a = Overwritables());
    nb::class_<Search>(module, "JointSearch")
        .def(
            "__init__",
            [](Search* place, std::vector<Tensor> tensors, std::vector<Operator> operators, Units capacity_units,
               Cost upper_bound, Cost greed, std::uint64_t seed, std::int64_t most_states, std::int64_t most_bytes,
               Index workers, Cost least_of_first, Cost least_of_second) {
                new (place) Search(Problem{std::move(tensors), std::move(operators), capacity_units},
                                   Options{upper_bound, greed, seed, most_states, most_bytes, least_of_first,
                                           least_of_second, workers});
            },
            "tensors"_a, "operators"_a, nb::kw_only(), "capacity_units"_a, "upper_bound"_a = unlimited, "greed"_a = 0,
            "seed"_a = 0, "most_states"_a = unlimited, "most_bytes"_a = unlimited, "workers"_a = 1,
            "least_of_first"_a = 0, "least_of_second"_a = 0)
        .def("run", &Search::run, "stop"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("states", &Search::states)
        .def_prop_ro("lower_bound", &Search::lower_bound)
        .def_prop_ro("cost", &Search::cost)
        .def_prop_ro("moves", [](const Search& search) {
            std::vector<std::pair<Index, std::vector<Index>>> moves;
            for (Move& one : search.moves()) moves.emplace_back(one.runs, std::move(one.evicted));
            return moves;
        });
}

}  // namespace onchip
