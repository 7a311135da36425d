// `joint::Search` for Python.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "joint.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_joint(nb::module_& module) {
    using namespace joint;
    nb::enum_<Outcome>(module, "JointOutcome",
                       "Why a joint search ended; exhausted: no plan costs less than the upper bound.")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped)
        .value("STATES_SPENT", Outcome::states_spent)
        .value("MEMORY_SPENT", Outcome::memory_spent);
    nb::class_<Tensor>(
        module, "JointTensor",
        "A tensor in units of the alignment; its store costs 0 where DRAM has a copy whenever it could leave.\n"
        "\n"
        "Of what it costs the first of two parts pays `first_load_cost` and `first_store_cost`.")
        .def(
            "__init__",
            [](Tensor* place, Units units, Cost load_cost, Cost store_cost, bool may_end_short, Cost first_load_cost,
               Cost first_store_cost) {
                new (place) Tensor{units, load_cost, store_cost, first_load_cost, first_store_cost, may_end_short};
            },
            nb::kw_only(), "units"_a, "load_cost"_a, "store_cost"_a, "may_end_short"_a, "first_load_cost"_a = 0,
            "first_store_cost"_a = 0);
    using Overwritables = std::vector<std::tuple<Index, Units, Index>>;
    nb::class_<Operator>(
        module, "JointOperator",
        "An operator: tensors and earlier operators by their numbers, each list rising.\n"
        "\n"
        "`overwritables` are what it reads and may write to the bytes of: (tensor, units saved, group), by group.")
        .def(
            "__init__",
            [](Operator* place, std::vector<Index> reads, std::vector<Index> writes, std::vector<Index> predecessors,
               const Overwritables& overwritables) {
                std::vector<Overwritable> inputs;
                for (const auto& [tensor, units, group] : overwritables) inputs.push_back({tensor, units, group});
                new (place) Operator{std::move(reads), std::move(writes), std::move(predecessors), std::move(inputs)};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a, "overwritables"_a = Overwritables());
    nb::class_<Search>(
        module, "JointSearch",
        "Searches for the order and the residencies of least cost below `upper_bound`.\n"
        "\n"
        "Of a problem of two parts every plan costs each of them at least `least_of_first` and `least_of_second`.")
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
        .def("run", &Search::run, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Search, once; raises RuntimeError the second time.")
        .def_prop_ro("states", &Search::states,
                     "States built and kept, and choices listed; may be read while it runs, as may `lower_bound`.")
        .def_prop_ro("lower_bound", &Search::lower_bound, "A bound on what every plan costs that the search may find.")
        .def_prop_ro(
            "cost", &Search::cost,
            "What the plan found costs; -1 before. Several workers that were stopped may have one that is not proven.")
        .def_prop_ro(
            "moves",
            [](const Search& search) {
                std::vector<std::pair<Index, std::vector<Index>>> moves;
                for (Move& one : search.moves()) moves.emplace_back(one.runs, std::move(one.evicted));
                return moves;
            },
            "Each operator of the plan found, and what is evicted before it.");
}

}  // namespace onchip
