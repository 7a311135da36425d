// The search over unrollings (ways) of the array, and its Python bindings.

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "exact.hpp"
#include "layer_rows.hpp"

namespace onchip::exact {

namespace {

constexpr Count ways_at_once = Count{1} << 20;
constexpr Count ways_of_a_dive = 40;
constexpr Count nodes_of_a_dive = 100;
constexpr std::size_t ways_weighed = 512;  // by their floors, before the first search
constexpr Count ways_scouted = 4;
constexpr Count all_nodes = Count{1} << 60;
constexpr double slack = 1 + 1e-9;  // tolerance: sums of equal energies in another order differ by less
constexpr double femto_per_pico = 1000.0;

}  // namespace

double value_of(Objective objective, double energy_pj, double cycles) {
    if (objective == Objective::latency) return cycles;
    const double energy_fj = energy_pj * femto_per_pico;
    return objective == Objective::energy ? energy_fj : energy_fj * cycles;
}

Mapper::Mapper(Space space, Objective objective)
    : space_(std::move(space)), objective_(objective), scale_(value_of(objective, 1.0, 1.0)) {
    for (const Count bound : space_.bounds) iterations_ *= static_cast<double>(bound);
    for (const auto& along : space_.ways) {
        std::vector<double>& own = units_.emplace_back();
        for (const Unrolled& one : along) {
            double units = 1.0;
            for (const Count size : one.sizes) units *= static_cast<double>(size);
            own.push_back(units);
        }
    }
}

void Mapper::run(double best, const StopToken& stop, Index workers, Count most_nodes, Count most_work) {
    if (workers < 1) throw std::invalid_argument("a run has no worker");
    if (most_nodes < 0 || most_work < 0)
        throw std::invalid_argument("a run has fewer than 0 nodes, or less than no work");
    best_ = best;
    most_nodes_ = most_nodes > all_nodes - nodes_ ? all_nodes : nodes_ + most_nodes;
    most_work_ = most_work > all_nodes - work_ ? all_nodes : work_ + most_work;
    workers_.clear();
    while (static_cast<Index>(workers_.size()) < workers)
        workers_.push_back(std::make_unique<Worker>(space_, objective_));
    scout(stop);
    for (Count number = 0; number >= 0 && !is_over(stop);) {
        std::vector<Way> ways = list_ways(number, stop);
        search_ways(ways, number < 0, stop);
    }
}

// Returns the result of a worker's action and counts its work.
template <typename Act>
auto Mapper::counted(Worker& worker, Act act) {
    const Count before = worker.search.work();
    auto found = act();
    work_ += worker.search.work() - before;
    return found;
}

Count Mapper::count_ways() const {
    Count count = 1;
    for (const auto& along : space_.ways) count *= static_cast<Count>(along.size());
    return count;
}

// Returns true if the unrollings of all dimensions together divide the loop bounds.
bool Mapper::divides(const std::vector<Index>& way) const {
    std::array<Count, layer::loops> beside;
    beside.fill(1);
    for (std::size_t along = 0; along < way.size(); ++along) {
        const auto& sizes = space_.ways[along][way[along]].sizes;
        for (Index loop = 0; loop < layer::loops; ++loop) beside[loop] *= sizes[loop];
    }
    for (Index loop = 0; loop < layer::loops; ++loop) {
        if (space_.bounds[loop] % beside[loop] != 0) return false;
    }
    return true;
}

// Returns the temporal iterations of a way: a lower bound on its cycles.
double Mapper::turns(const std::vector<Index>& way) const {
    double at_work = 1.0;
    for (std::size_t along = 0; along < way.size(); ++along) at_work *= units_[along][way[along]];
    return iterations_ / at_work;
}

// Runs short dives in some ways with the fewest temporal iterations, before the ways are listed, which takes long if
// there are many.
void Mapper::scout(const StopToken& stop) {
    std::vector<Way> ways = most_at_work(stop);
    const Count first = std::min(static_cast<Count>(ways.size()), ways_scouted);
    std::partial_sort(ways.begin(), ways.begin() + first, ways.end());
    for (Count at = 0; at < first; ++at) {
        if (ways[at].floor * scale_ < limit(stop))
            search_chains(*workers_.front(), ways[at], nodes_of_a_dive, false, stop);
    }
}

// Returns an even selection of the ways with the fewest temporal iterations.
std::vector<Mapper::Way> Mapper::most_at_work(const StopToken& stop) {
    std::vector<Count> best;
    double fewest = std::numeric_limits<double>::infinity();
    std::vector<Index> way = way_of(0);
    const Count count = count_ways();
    for (Count number = 0; number < count && !is_over(stop); ++number, go_on(way)) {
        const double own = turns(way);
        if (own > fewest || !divides(way)) continue;
        if (own < fewest) best.clear();
        fewest = own;
        if (static_cast<Count>(best.size()) < ways_at_once) best.push_back(number);
    }
    std::vector<Way> found;
    const std::size_t step = 1 + best.size() / ways_weighed;
    for (std::size_t at = 0; at < best.size(); at += step) {
        if (const auto one = measured(best[at], way_of(best[at]))) found.push_back(*one);
    }
    return found;
}

// Returns none if the way unrolls a loop beyond its bound.
std::optional<Mapper::Way> Mapper::measured(Count number, const std::vector<Index>& way) {
    Worker& worker = *workers_.front();
    const auto floor = counted(worker, [&] { return worker.search.floor(way); });
    if (!floor) return std::nullopt;
    const double value = objective_ == Objective::energy    ? floor->energy_pj
                         : objective_ == Objective::latency ? floor->cycles
                                                            : floor->energy_pj * floor->cycles;
    return Way{value, floor->cycles, number};
}

// Lists ways from `number` on, except those whose loops alone take too long. Sets `number` to the first way not listed,
// or to -1 after the last.
std::vector<Mapper::Way> Mapper::list_ways(Count& number, const StopToken& stop) {
    std::vector<Way> found;
    const double of_a_turn = objective_ == Objective::energy    ? 0.0
                             : objective_ == Objective::latency ? 1.0
                                                                : space_.layer.mac_energy_pj;
    const Count count = count_ways();
    std::vector<Index> way = way_of(number);
    for (; number < count && static_cast<Count>(found.size()) < ways_at_once && !is_over(stop); ++number, go_on(way)) {
        if (turns(way) * of_a_turn * scale_ >= limit(stop)) continue;
        if (const auto one = measured(number, way)) found.push_back(*one);
    }
    if (number == count) number = -1;
    return found;
}

// Sorts the ways from position `first` on by floor, and removes those whose floor reaches the limit.
void Mapper::sort_below(std::vector<Way>& ways, Count first, double limit) const {
    const auto from = ways.begin() + first;
    ways.erase(std::remove_if(from, ways.end(), [&](const Way& one) { return one.floor * scale_ >= limit; }),
               ways.end());
    std::sort(from, ways.end());
}

std::vector<Index> Mapper::way_of(Count number) const {
    std::vector<Index> found;
    for (const auto& along : space_.ways) {
        found.push_back(static_cast<Index>(number % static_cast<Count>(along.size())));
        number /= static_cast<Count>(along.size());
    }
    return found;
}

// Advances to the next way.
void Mapper::go_on(std::vector<Index>& way) const {
    for (std::size_t along = 0; along < way.size(); ++along) {
        if (++way[along] < static_cast<Index>(space_.ways[along].size())) return;
        way[along] = 0;
    }
}

// Dives into each of the first ways, completes the unfinished ones, then searches all others.
void Mapper::search_ways(std::vector<Way>& ways, bool is_last, const StopToken& stop) {
    const Count dives = std::min(static_cast<Count>(ways.size()), ways_of_a_dive);
    if (dives == 0) return;
    std::partial_sort(ways.begin(), ways.begin() + dives, ways.end());
    for (const auto& one : workers_) one->at = 0;
    has_proven(ways, is_last, stop);
    std::vector<char> is_paused(static_cast<std::size_t>(dives), false);
    in_turn(0, dives, [&](Worker& worker, Count at) {
        const bool is_ruled_out = ways[at].floor * scale_ >= limit(stop);
        is_paused[at] = !is_ruled_out && !search_chains(worker, ways[at], nodes_of_a_dive, false, stop);
        return true;
    });
    in_turn(0, dives, [&](Worker& worker, Count at) {
        if (!is_paused[at]) return true;
        has_proven(ways, is_last, stop);
        search_chains(worker, ways[at], all_nodes, false, stop);
        return true;
    });
    sort_below(ways, dives, limit(stop));
    in_turn(dives, static_cast<Count>(ways.size()), [&](Worker& worker, Count at) {
        has_proven(ways, is_last, stop);
        const double least = limit(stop) / scale_;
        if (ways[at].floor >= least) return false;
        const Way& way = ways[at];
        if (counted(worker, [&] { return worker.search.may_be_below(way_of(way.number), way.cycles, least); }) &&
            !search_chains(worker, way, nodes_of_a_dive, true, stop))
            search_chains(worker, way, all_nodes, false, stop);
        return true;
    });
}

// Hands out the numbers from `first` on to free workers, until `look` returns false.
template <typename Look>
void Mapper::in_turn(Count first, Count stop_at, Look look) {
    Count next = first;
    std::exception_ptr error;
    const auto take = [&](Worker& worker) {
        const std::scoped_lock held(lock_);
        worker.at = std::min(next++, stop_at);
        return worker.at < stop_at;
    };
    const auto end = [&](std::exception_ptr why) {
        const std::scoped_lock held(lock_);
        next = stop_at;
        if (why) error = std::move(why);
    };
    const auto work = [&](Worker& worker) {
        try {
            while (take(worker)) {
                if (!look(worker, worker.at)) end(nullptr);
            }
        } catch (...) {
            end(std::current_exception());
        }
    };
    std::vector<std::jthread> threads;
    for (std::size_t more = 1; more < workers_.size(); ++more) threads.emplace_back(work, std::ref(*workers_[more]));
    work(*workers_.front());
    threads.clear();
    if (error) std::rethrow_exception(error);
}

// Updates the proven bound: no mapping of the ways before those being searched is better.
void Mapper::has_proven(const std::vector<Way>& ways, bool is_last, const StopToken& stop) {
    const std::scoped_lock held(lock_);
    if (stop.was_asked() || nodes() >= most_nodes_ || work() >= most_work_) return;
    auto at = static_cast<Count>(ways.size()) - 1;
    for (const auto& one : workers_) at = std::min(at, one->at);
    proven_ = is_last ? std::max(proven_.load(), ways[at].floor * scale_) : 0.0;
}

// Searches the chains of tiles of a way that no criterion excludes. Returns false if chains remain.
bool Mapper::search_chains(Worker& worker, const Way& way, Count most_nodes, bool keeps_criteria,
                           const StopToken& stop) {
    const std::vector<Index> chosen = way_of(way.number);
    bool is_done = true;
    for (Index complete_from = 1; complete_from <= worker.search.patterns(); ++complete_from) {
        const double bound = limit(stop) / scale_;
        if (!counted(worker, [&] { return worker.search.prepare(chosen, complete_from, bound, keeps_criteria); }))
            continue;
        Descent& descent = worker.search.descent();
        const Count before = descent.nodes(), until = before + std::min(most_nodes, most_nodes_ - nodes_);
        const Count worked = descent.work(), enough = worked + std::max<Count>(most_work_ - work_, 0);
        Step step = Step::leaf;
        while (step == Step::leaf) {
            step = descent.next(limit(stop) / scale_, until, enough, stop);
            if (step != Step::leaf) break;
            consider(worker, descent.nest());
        }
        is_done = is_done && step == Step::finished;
        nodes_ += descent.nodes() - before;
        work_ += descent.work() - worked;
    }
    return is_done;
}

void Mapper::consider(Worker& worker, const Nest& nest) {
    std::vector<layer::Turn> turns;
    std::vector<layer::Beside> beside;
    std::vector<Index> inside{0}, cuts;
    for (const auto& [loop, size, along] : nest.loops) {
        if (along == none)
            turns.push_back({loop, size});
        else
            beside.push_back({loop, size, along, static_cast<Index>(turns.size())});
        inside.push_back(static_cast<Index>(turns.size()));
    }
    for (const auto& own : nest.kept) {
        for (const Index spanned : own) cuts.push_back(spanned == none ? none : inside[spanned]);
    }
    const layer::Cost cost = worker.costs.of({turns, beside, cuts});
    if (cost.status == layer::Status::interleaved) throw std::logic_error("tiles of the exact mapper are interleaved");
    if (cost.status != layer::Status::costed) return;
    const double value = value_of(objective_, cost.energy_pj, static_cast<double>(cost.cycles));
    const std::scoped_lock held(lock_);
    if (value >= best_) return;
    best_ = value;
    answer_ = nest;
}

// Returns the limit for the search: mappings at or above it are no better than the best.
double Mapper::limit(const StopToken& stop) const {
    if (is_over(stop)) return -std::numeric_limits<double>::infinity();
    return objective_ == Objective::latency ? best() - 0.5 : best() / slack;
}

}  // namespace onchip::exact

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `ExactMapper`, and of the bounds for single unrollings (which tests compare with all mappings).

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
        .def(nb::init<Layer, Machine, const Sizes&, std::array<std::vector<bool>, operands>,
                      const std::array<double, operands>&, const std::vector<std::vector<Sizes>>&>(),
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
