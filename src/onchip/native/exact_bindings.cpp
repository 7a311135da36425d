// `ExactMapper` for Python, and what rules ways out one at a time, for whoever holds it against all mappings.

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "exact.hpp"
#include "exact_refine.hpp"
#include "layer_rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace exact;

using Sizes = std::array<Count, layer::loops>;
using Way = std::vector<Index>;

// A space that its searches share.
class WayDoor {
public:
    WayDoor(const Space& space, Objective objective) : space_(space), search_(space_, objective) {}

    std::optional<std::pair<double, double>> floor(const Way& way) {
        check_places(way);
        const auto found = search_.floor(way);
        if (!found) return std::nullopt;
        return std::pair(found->energy_pj, found->cycles);
    }

    bool may_be_below(const Way& way, double cycles, double limit, std::vector<Criterion> criteria) {
        check(way);
        if (criteria.empty()) throw std::invalid_argument("no criterion is in use");
        search_.use(std::move(criteria));
        return search_.may_be_below(way, cycles, limit);
    }

    // Every chain of a way whose bounds are below the limit, with the bounds of its places.
    std::vector<std::pair<std::vector<double>, Nest>> chains(const Way& way, double limit) {
        check(way);
        std::vector<std::pair<std::vector<double>, Nest>> found;
        const StopToken never;
        constexpr Count all = std::numeric_limits<Count>::max();
        for (Index complete_from = 1; complete_from <= search_.patterns(); ++complete_from) {
            if (!search_.prepare(way, complete_from, limit, false)) continue;
            while (search_.descent().next(limit, all, all, never) == Step::leaf)
                found.emplace_back(search_.descent().bounds(), search_.descent().nest());
        }
        return found;
    }

    const std::vector<Criterion>& criteria() const { return search_.criteria(); }

private:
    void check(const Way& way) {
        check_places(way);
        if (!search_.floor(way)) throw std::invalid_argument("loops run out");
    }

    void check_places(const Way& way) const {
        if (way.size() != space_.ways.size()) throw std::invalid_argument("a way is not of each dimension");
        for (std::size_t along = 0; along < way.size(); ++along) {
            if (way[along] < 0 || way[along] >= static_cast<Index>(space_.ways[along].size()))
                throw std::invalid_argument("a way that there is not");
        }
    }

    Space space_;
    WaySearch search_;
};

void add_spaces(nb::module_& module) {
    nb::class_<Space>(
        module, "ExactSpace",
        "A layer on a machine whose memories of an operand are a chain.\n"
        "\n"
        "`bounds` are the loops', `holds` says of each operand and level whether it is kept there, `touched` of each "
        "operand\n"
        "how many different elements the layer uses; `ways` are by dimension of the array the sizes of its loops.")
        .def(
            "__init__",
            [](Space* place, Layer layer, Machine machine, const Sizes& bounds,
               std::array<std::vector<bool>, operands> holds, const std::array<double, operands>& touched,
               const std::vector<std::vector<Sizes>>& ways) {
                new (place) Space(std::move(layer), std::move(machine), bounds, std::move(holds), touched, ways);
            },
            nb::kw_only(), "layer"_a, "machine"_a, "bounds"_a, "holds"_a, "touched"_a, "ways"_a);
    nb::class_<Nest>(module, "ExactNest",
                     "A mapping: loops innermost first, with their sizes and dimensions of the array (-1: in time).\n"
                     "\n"
                     "`kept` is by operand and level how many of them a tile spans, -1 where nothing is kept.")
        .def_prop_ro("loops",
                     [](const Nest& nest) {
                         std::vector<std::tuple<Index, Count, Index>> found;
                         for (const auto& [loop, size, along] : nest.loops) found.emplace_back(loop, size, along);
                         return found;
                     })
        .def_ro("kept", &Nest::kept);
}

void add_ways(nb::module_& module) {
    nb::class_<Criterion>(module, "ExactCriterion",
                          "What is added up over boundaries: energy, or cycles of a port and of one preloading.")
        .def_prop_ro("is_energy", &Criterion::is_energy);
    nb::class_<WayDoor>(module, "ExactWay",
                        "What rules out ways to use the array, one at a time; a way is by dimension a place in `ways`.")
        .def(nb::init<const Space&, Objective>(), "space"_a, "objective"_a)
        .def_prop_ro("criteria", &WayDoor::criteria)
        .def("floor", &WayDoor::floor, "way"_a,
             "Energy in pJ and cycles (0 for an objective of energy); None where loops run out.")
        .def(
            "may_be_below", &WayDoor::may_be_below, "way"_a, "cycles"_a, "limit"_a, "criteria"_a,
            "Whether none of these criteria is at the limit; an energy before others makes the limit one for products.")
        .def("chains", &WayDoor::chains, "way"_a, "limit"_a,
             "Every chain of tiles that no bound rules out, with the bounds of its places.");
}

// Of the one mapping of a row.
void add_refiner(nb::module_& module) {
    using layer::Cuts, layer::Row, layer::Table;
    nb::class_<Refiner>(
        module, "ExactRefiner",
        "One mapping, in a row, made better step by step; `unrolls` is by dimension of the array, and loop.")
        .def(
            "__init__",
            [](Refiner* place, Layer layer, Machine machine, Objective objective,
               std::vector<std::vector<bool>> unrolls, std::uint32_t seed, Row turn_count, Table turn_loop,
               Table turn_size, Row beside_count, Table beside_loop, Table beside_size, Table beside_along,
               Table beside_at, Cuts cut) {
                const layer::Chosen chosen{turn_count,  turn_loop,    turn_size, beside_count, beside_loop,
                                           beside_size, beside_along, beside_at, cut};
                if (turn_count.shape(0) != 1) throw std::invalid_argument("it is not one mapping");
                const layer::Costs costs(layer, machine);
                layer::Reader reader(chosen, costs.dimensions(), costs.levels());
                const layer::Mapping read = reader.read(0);
                UnevenNest start{{read.turns.begin(), read.turns.end()},
                                 {read.beside.begin(), read.beside.end()},
                                 {read.cuts.begin(), read.cuts.end()}};
                new (place) Refiner(std::move(layer), std::move(machine), objective, std::move(unrolls),
                                    std::move(start), seed);
            },
            "layer"_a, "machine"_a, "objective"_a, "unrolls"_a, "seed"_a, "turn_count"_a.noconvert(),
            "turn_loop"_a.noconvert(), "turn_size"_a.noconvert(), "beside_count"_a.noconvert(),
            "beside_loop"_a.noconvert(), "beside_size"_a.noconvert(), "beside_along"_a.noconvert(),
            "beside_at"_a.noconvert(), "cut"_a.noconvert())
        .def("go_on", &Refiner::go_on, "mappings"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Cost about so many more mappings.")
        .def_prop_ro("value", &Refiner::value,
                     "Of the best so far, in femtojoules, cycles or their product; infinite where none fits.")
        .def_prop_ro("nest", &Refiner::nest);
}

}  // namespace

void add_exact(nb::module_& module) {
    nb::enum_<Objective>(module, "ExactObjective",
                         "What the exact mapper makes least; the product is of energy and cycles.")
        .value("ENERGY", Objective::energy)
        .value("LATENCY", Objective::latency)
        .value("PRODUCT", Objective::product);
    add_spaces(module);
    add_ways(module);
    add_refiner(module);
    nb::class_<Mapper>(module, "ExactMapper", "The best mapping of all ways.")
        .def(nb::init<Space, Objective>(), "space"_a, "objective"_a)
        .def("run", &Mapper::run, "best"_a, "stop"_a, "workers"_a, "most_nodes"_a, "most_work"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Look for better than `best`, in femtojoules, cycles or their product; the properties say how far it is.\n"
             "\n"
             "It ends after about so many nodes, or so much work, too.")
        .def_prop_ro("best", &Mapper::best)
        .def_prop_ro("proven", &Mapper::proven, "What no mapping is below, unless the run is at its end.")
        .def_prop_ro("nodes", &Mapper::nodes)
        .def_prop_ro("work", &Mapper::work,
                     "How many tiles were priced, or what takes as long: the same on every machine.")
        .def_prop_ro(
            "answer", [](const Mapper& mapper) { return mapper.answer(); }, "Of the run that ended, if it found any.");
}

}  // namespace onchip
