// Python bindings of `ExactMapper`, and of the bounds for single unrollings (which tests compare with all mappings).

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
#include "layer_rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace exact;

using Sizes = std::array<Count, layer::loops>;
using Way = std::vector<Index>;

// A search with the space that it refers to.
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

    // Returns each chain of a way with bounds below the limit, and the bounds of its places.
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
        "Search space of the exact mapper; the memories of each operand must form a chain.\n"
        "\n"
        "`bounds` are the loop bounds in the order of LOOPS. `holds` is True per operand and level if the\n"
        "level keeps tiles of the operand. `touched` is the number of distinct elements of each operand\n"
        "that the layer uses. `ways` lists, for each dimension of the array, the possible unrollings as\n"
        "sizes of all loops. Raises ValueError if the arguments are inconsistent or too large.")
        .def(
            "__init__",
            [](Space* place, Layer layer, Machine machine, const Sizes& bounds,
               std::array<std::vector<bool>, operands> holds, const std::array<double, operands>& touched,
               const std::vector<std::vector<Sizes>>& ways) {
                new (place) Space(std::move(layer), std::move(machine), bounds, std::move(holds), touched, ways);
            },
            nb::kw_only(), "layer"_a, "machine"_a, "bounds"_a, "holds"_a, "touched"_a, "ways"_a);
    nb::class_<Nest>(
        module, "ExactNest",
        "A mapping.\n"
        "\n"
        "`loops` are innermost first, as tuples of the loop, its size and its dimension of the array, or -1\n"
        "in time. `kept` is the number of innermost loops inside a tile per operand and level, or -1 if the\n"
        "level keeps no tile.")
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
                          "A sum over the boundaries of a chain: energy, or cycles of a port and of one preload.")
        .def_prop_ro("is_energy", &Criterion::is_energy, "True if the sum is an energy.");
    nb::class_<WayDoor>(
        module, "ExactWay",
        "Bounds for single unrollings of the array.\n"
        "\n"
        "A way is one choice from `ExactSpace.ways` for each dimension of the array. Raises ValueError if a\n"
        "way does not exist.")
        .def(nb::init<const Space&, Objective>(), "space"_a, "objective"_a)
        .def_prop_ro("criteria", &WayDoor::criteria, "All criteria of the objective.")
        .def("floor", &WayDoor::floor, "way"_a,
             "Return lower bounds on the energy in pJ and the cycles of all mappings with this unrolling.\n"
             "\n"
             "The cycles are 0 if the objective is energy. Returns None if the way unrolls a loop beyond its\n"
             "bound.")
        .def("may_be_below", &WayDoor::may_be_below, "way"_a, "cycles"_a, "limit"_a, "criteria"_a,
             "Return True if no criterion proves that all mappings of the way have at least the value `limit`.\n"
             "\n"
             "`cycles` is the way's floor. If an energy criterion precedes others, `limit` is a product of\n"
             "energy and cycles. Raises ValueError if `criteria` is empty or if the way unrolls a loop beyond\n"
             "its bound.")
        .def("chains", &WayDoor::chains, "way"_a, "limit"_a,
             "Return each chain of tiles that no bound excludes below `limit`, with its lower bounds.\n"
             "\n"
             "Raises ValueError if the way unrolls a loop beyond its bound.");
}

void add_refiner(nb::module_& module) {
    using layer::Cuts, layer::Row, layer::Table;
    nb::class_<Refiner>(
        module, "ExactRefiner",
        "Local search that improves one mapping, in which each operand has its own cuts.\n"
        "\n"
        "`unrolls` is True per dimension of the array and loop if the loop may be unrolled along it. The\n"
        "start is one row of the tables that `LayerCosts.of` takes. The same seed gives the same steps.\n"
        "Raises ValueError if the tables do not hold exactly one valid mapping.")
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
             "Evaluate about `mappings` more mappings.")
        .def_prop_ro("value", &Refiner::value,
                     "Value of the best mapping so far, or infinity if none fits.\n"
                     "\n"
                     "The unit is femtojoules, cycles or their product, depending on the objective.")
        .def_prop_ro("nest", &Refiner::nest, "Best mapping so far.");
}

}  // namespace

void add_exact(nb::module_& module) {
    nb::enum_<Objective>(module, "ExactObjective", "Objective of the exact mapper; PRODUCT is energy times cycles.")
        .value("ENERGY", Objective::energy)
        .value("LATENCY", Objective::latency)
        .value("PRODUCT", Objective::product);
    add_spaces(module);
    add_ways(module);
    add_refiner(module);
    nb::class_<Mapper>(
        module, "ExactMapper",
        "Branch-and-bound search for the best even mapping over all unrollings of the array.\n"
        "\n"
        "Values are in femtojoules, cycles or their product, depending on the objective. All properties but\n"
        "`answer` may be read while the search runs.")
        .def(nb::init<Space, Objective>(), "space"_a, "objective"_a)
        .def("run", &Mapper::run, "best"_a, "stop"_a, "workers"_a, "most_nodes"_a, "most_work"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Search for a mapping with a value below `best`.\n"
             "\n"
             "Stops early if `stop` is asked, or after about `most_nodes` nodes or `most_work` units of work.\n"
             "With one worker, equal arguments give equal results. Raises ValueError if there is no worker or if\n"
             "a limit is negative.")
        .def_prop_ro("best", &Mapper::best, "Least value found so far, or the value that `run` was given.")
        .def_prop_ro("proven", &Mapper::proven,
                     "Lower bound on the value of all mappings while the search is incomplete.\n"
                     "\n"
                     "After a complete run the best value itself is proven.")
        .def_prop_ro("nodes", &Mapper::nodes, "Number of nodes of the search.")
        .def_prop_ro("work", &Mapper::work, "Work done, counted in priced tiles: the same on every machine.")
        .def_prop_ro(
            "answer", [](const Mapper& mapper) { return mapper.answer(); },
            "Best mapping of the last run, or None if it found none.");
}

}  // namespace onchip
