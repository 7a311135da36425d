// The beam search over orders and layouts.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "layouts.hpp"
#include "words.hpp"

namespace onchip::layouts {

// The possible places of an operand in a layout, and the evictions for it, for any next operator.

Cost OrderBeam::leaving(const Resident& one) const {
    if (one.is_new || one.is_idle) return 0;
    const Tensor& tensor = problem_.tensors[one.tensor];
    return tensor.load + (one.is_copied ? 0 : tensor.store);
}

Resident OrderBeam::placed(Index runs, Index use, Bytes start) const {
    const Index tensor = operands_[runs][use];
    const auto& writes = problem_.operators[runs].writes;
    const bool is_written = std::ranges::find(writes, tensor) != writes.end();
    return {tensor, start, start + problem_.tensors[tensor].size, until_[runs][use], !is_written, false, true, true};
}

// Returns the first operand that is not resident, or none.
Index OrderBeam::missing_use(const Layout& layout, std::span<const Resident> residents) const {
    const std::vector<Index>& operands = operands_[layout.runs];
    for (Index use = layout.placed; use < static_cast<Index>(operands.size()); ++use) {
        const bool is_there =
            std::ranges::any_of(residents, [&](const Resident& one) { return one.tensor == operands[use]; });
        if (!is_there) return use;
    }
    return none;
}

// Evicts all residents in the way of the pin, unless one is an operand.
void OrderBeam::list_pin(Index number, Index use) {
    const Layout& layout = begun_.list[number];
    const auto residents = begun_.of(layout);
    const Index tensor = operands_[layout.runs][use];
    const Bytes pin = problem_.pins[tensor], end = pin + problem_.tensors[tensor].size;
    Index first = 0;
    while (first < layout.count && residents[first].end <= pin) ++first;
    Cost cost = 0;
    Index stop = first;
    const Room room(residents, problem_.capacity, problem_.alignment);
    for (; room.end_before(stop) < end; ++stop) {
        if (residents[stop].is_operand) return;
        cost += leaving(residents[stop]);
    }
    add_place(number, use, first, stop, cost, pin);
}

// Operands stay, unless no place is left: then all residents are evicted and the operands are stacked, which always
// fits.
void OrderBeam::list_places(Index number, Index use) {
    const Layout& layout = begun_.list[number];
    const Room room(begun_.of(layout), problem_.capacity, problem_.alignment);
    const bool has_any = room.list_places(
        problem_.tensors[operands_[layout.runs][use]].size, [&](const Resident& one) { return leaving(one); },
        [&](Index first, Index stop, Cost cost, Bytes start) { add_place(number, use, first, stop, cost, start); });
    if (has_any || has_pins_) return;
    Cost all = layout.cost;
    for (const Resident& one : begun_.of(layout)) all += leaving(one);
    if (all <= dearest_) children_.push_back({all, 0.0, 0, number, none, 0, 0});
}

void OrderBeam::add_place(Index number, Index use, Index first, Index stop, Cost cost, Bytes start) {
    const Layout& layout = begun_.list[number];
    if (layout.cost + cost > dearest_) return;
    const Index tensor = operands_[layout.runs][use];
    const auto operator_or_now = [&](Index until) { return until == none ? steps_ : until; };
    const Index until = operator_or_now(until_[layout.runs][use]);
    const auto operators_between = [&](const Resident& other) {
        return std::fabs(static_cast<double>((other.is_idle ? steps_ : operator_or_now(other.until)) - until));
    };
    const Room room(begun_.of(layout), problem_.capacity, problem_.alignment);
    const double mismatch = room.mismatch(first, stop, start, problem_.tensors[tensor].size, operators_between);
    const std::uint64_t place = mixed((static_cast<std::uint64_t>(start) + 1) * 0x9e3779b97f4a7c15ULL +
                                      static_cast<std::uint64_t>(layout.node));
    const double chance = static_cast<double>(mixed(place ^ options_.seed) >> 11) * 0x1p-53;
    const double tie = layout.tie + chance * (1.0 + mismatch);
    children_.push_back({layout.cost + cost, tie, start, number, use, first, stop});
}

// Puts the operand with the most padding on top.
std::vector<Resident> OrderBeam::stacked_operands(Index runs) const {
    std::vector<Index> uses(operands_[runs].size());
    std::iota(uses.begin(), uses.end(), 0);
    const auto padding = [&](Index use) {
        const Bytes size = problem_.tensors[operands_[runs][use]].size;
        return aligned(size, problem_.alignment) - size;
    };
    std::ranges::stable_sort(uses, [&](Index one, Index other) { return padding(one) < padding(other); });
    std::vector<Resident> stacked;
    for (Index use : uses) {
        const Bytes end = stacked.empty() ? 0 : stacked.back().end;
        stacked.push_back(placed(runs, use, aligned(end, problem_.alignment)));
    }
    return stacked;
}

// The beam from operator to operator, and the plan of its cheapest layout.

namespace {

constexpr Index share_of_one_choice = 8;  // of the beam, for layouts with equal executed operators and residents
constexpr Index stacked = -2;             // as tensor in the trail: all operands; `none` marks the start of an operator

bool contains(const std::vector<Index>& list, Index one) {
    return std::ranges::find(list, one) != list.end();
}

}  // namespace

void OrderProblem::check() const {
    require(alignment > 0 && capacity >= 0, "a capacity is negative, or an alignment below 1", 0);
    const auto count = static_cast<Index>(tensors.size());
    require(pins.size() == tensors.size(), "there is not one pin for each tensor", pins.size());
    for (std::size_t at = 0; at < tensors.size(); ++at) {
        const Tensor& one = tensors[at];
        require(0 < one.size && one.size <= capacity, "a size is below 1 or above the capacity", at);
        require(one.load >= 0 && one.store >= 0, "a cost is negative", at);
        const bool is_within = 0 <= pins[at] && pins[at] + one.size <= capacity && pins[at] % alignment == 0;
        require(pins[at] == anywhere || is_within, "a pin is no place for its tensor", at);
    }
    for (std::size_t at = 0; at < operators.size(); ++at) {
        Bytes total = 0, most_padding = 0;
        for (const auto* list : {&operators[at].reads, &operators[at].writes}) {
            for (Index tensor : *list) {
                require(0 <= tensor && tensor < count, "a tensor is unknown", at);
                const Bytes size = tensors[tensor].size, padding = (alignment - size % alignment) % alignment;
                total += size + padding;
                most_padding = std::max(most_padding, padding);
            }
        }
        require(total - most_padding <= capacity, "an operator's operands do not fit", at);
        for (Index tensor : operators[at].released) {
            const bool is_operand = contains(operators[at].reads, tensor) || contains(operators[at].writes, tensor);
            require(is_operand, "an operator releases a tensor that it does not use", at);
        }
        for (Index before : operators[at].predecessors) {
            require(0 <= before && before < static_cast<Index>(at), "an operator runs before what it waits for", at);
        }
    }
}

OrderBeam::OrderBeam(OrderProblem problem) : problem_(std::move(problem)), readers_(problem_.tensors.size()) {
    problem_.check();
    for (Index number = 0; number < static_cast<Index>(problem_.operators.size()); ++number) {
        const Operator& one = problem_.operators[number];
        for (Index tensor : one.reads) readers_[tensor].push_back(number);
        std::vector<Index>& operands = operands_.emplace_back(one.reads);
        operands.insert(operands.end(), one.writes.begin(), one.writes.end());
        std::ranges::stable_sort(operands, [&](Index first, Index second) {
            const bool is_first = problem_.pins[first] != anywhere, is_second = problem_.pins[second] != anywhere;
            if (is_first != is_second) return is_first;
            return problem_.tensors[first].size > problem_.tensors[second].size;
        });
    }
    has_pins_ = std::ranges::any_of(problem_.pins, [](Bytes pin) { return pin != anywhere; });
    write_until();
}

void OrderBeam::write_until() {
    until_.resize(problem_.operators.size());
    std::vector<Index> until(problem_.tensors.size(), none);
    for (Index number = static_cast<Index>(problem_.operators.size()); number-- > 0;) {
        const Operator& one = problem_.operators[number];
        has_one_order_ = has_one_order_ && (number == 0 || contains(one.predecessors, number - 1));
        for (Index tensor : operands_[number]) {
            if (until[tensor] == none || contains(one.released, tensor)) until[tensor] = number;
            until_[number].push_back(readers_[tensor].empty() ? none : until[tensor]);
        }
    }
}

Index Trail::add(Index parent, Index step, Index tensor, Bytes start) {
    share(parent);
    const Node node{parent, step, tensor, 1, start};
    if (unused_.empty()) {
        nodes_.push_back(node);
        return static_cast<Index>(nodes_.size()) - 1;
    }
    const Index place = unused_.back();
    unused_.pop_back();
    nodes_[place] = node;
    return place;
}

void Trail::share(Index node) {
    if (node != none) ++nodes_[node].users;
}

void Trail::release(Index node) {
    while (node != none && --nodes_[node].users == 0) {
        unused_.push_back(node);
        node = nodes_[node].parent;
    }
}

std::vector<Trail::Node> Trail::path_to(Index node) const {
    std::vector<Node> path;
    for (; node != none; node = nodes_[node].parent) path.push_back(nodes_[node]);
    std::reverse(path.begin(), path.end());
    return path;
}

bool OrderBeam::run(const OrderOptions& options, const StopToken& stop) {
    options_ = options;
    options_.width = std::max<Index>(1, options.width);
    options_.ahead = std::clamp<Index>(options.ahead, 1, most_ahead);
    trail_ = Trail();
    layouts_.clear();
    layouts_.add(Layout{}, {});
    for (steps_ = 0; steps_ < static_cast<Index>(problem_.operators.size()); ++steps_) {
        if (!run_one_more(stop)) return false;
    }
    const auto is_cheaper = [](const Layout& one, const Layout& other) { return one.cost < other.cost; };
    const Layout& best = *std::ranges::min_element(layouts_.list, is_cheaper);
    cost_ = best.cost;
    write_plan(best.node);
    return true;
}

bool OrderBeam::run_one_more(const StopToken& stop) {
    begin_each();
    ended_.clear();
    if (!place_operands(stop)) return false;
    for (Layout& layout : ended_.list) end_operator(ended_, layout);
    for (const Layout& layout : layouts_.list) trail_.release(layout.node);
    keep_best();
    return !layouts_.list.empty();
}

void OrderBeam::Layouts::clear() {
    list.clear();
    residents.clear();
}

OrderBeam::Layout& OrderBeam::Layouts::add(const Layout& like, std::span<const Resident> of_it) {
    Layout& added = list.emplace_back(like);
    added.begin = static_cast<Index>(residents.size());
    added.count = static_cast<Index>(of_it.size());
    residents.insert(residents.end(), of_it.begin(), of_it.end());
    return added;
}

bool OrderBeam::has_run(const Layout& layout, Index runs) const {
    const Index ahead = runs - layout.first;
    return ahead < 0 || (ahead < most_ahead && (layout.ran >> ahead & 1) != 0);
}

bool OrderBeam::may_run(const Layout& layout, Index runs) const {
    return !has_run(layout, runs) && std::ranges::all_of(problem_.operators[runs].predecessors,
                                                         [&](Index before) { return has_run(layout, before); });
}

Index OrderBeam::next_reader(const Layout& layout, Index tensor) const {
    for (Index reader : readers_[tensor]) {
        if (reader != layout.runs && !has_run(layout, reader)) return reader;
    }
    return none;
}

// Starts one layout for each layout and ready operator.
void OrderBeam::begin_each() {
    begun_.clear();
    for (const Layout& layout : layouts_.list) {
        const Index stop = std::min(layout.first + options_.ahead, static_cast<Index>(problem_.operators.size()));
        for (Index runs = layout.first; runs < stop; ++runs) {
            if (!may_run(layout, runs)) continue;
            begin(begun_.add(layout, layouts_.of(layout)), runs);
        }
    }
}

// Resident operands keep their addresses.
void OrderBeam::begin(Layout& begun, Index runs) {
    begun.runs = runs;
    begun.placed = 0;
    begun.tie = 0.0;
    begun.node = trail_.add(begun.node, runs, none, 0);
    const std::vector<Index>& operands = operands_[runs];
    for (Resident& one : begun_.of(begun)) {
        const auto use = std::ranges::find(operands, one.tensor);
        one.is_operand = use != operands.end();
        if (!one.is_operand) continue;
        one.until = until_[runs][use - operands.begin()];
        if (one.is_idle) {
            one.is_idle = false;
            begun.cost -= leaving(one);
        }
    }
}

// Places one more operand in each layout, until none is missing.
bool OrderBeam::place_operands(const StopToken& stop) {
    while (!begun_.list.empty()) {
        children_.clear();
        dearest_ = options_.upper_bound - 1;
        for (Index number = 0; number < static_cast<Index>(begun_.list.size()); ++number) {
            if (stop.is_asked()) return false;
            const Layout& begun = begun_.list[number];
            const Index use = missing_use(begun, begun_.of(begun));
            if (use == none) {
                trail_.share(begun.node);
                ended_.add(begun, begun_.of(begun));
            } else if (problem_.pins[operands_[begun.runs][use]] != anywhere) {
                list_pin(number, use);
            } else {
                list_places(number, use);
            }
            shrink(children_, options_.width, 2 * children_kept_per_layout * options_.width, dearest_);
        }
        shrink(children_, options_.width, children_kept_per_layout * options_.width, dearest_);
        std::swap(before_, begun_);
        begun_.clear();
        for (const Child& child : children_) follow(child);
        for (const Layout& layout : before_.list) trail_.release(layout.node);
    }
    return true;
}

void OrderBeam::follow(const Child& child) {
    const Layout& from = before_.list[child.layout];
    Layout found = from;
    found.cost = child.cost;
    found.tie = child.tie;
    if (child.use == none) {
        found.placed = static_cast<Index>(operands_[from.runs].size());
        found.node = trail_.add(from.node, from.runs, stacked, 0);
        begun_.add(found, stacked_operands(from.runs));
        return;
    }
    const Index tensor = operands_[from.runs][child.use];
    found.placed = child.use + 1;
    found.node = trail_.add(from.node, from.runs, tensor, child.start);
    const auto residents = before_.of(from);
    Layout& added = begun_.add(found, residents.first(child.first));
    begun_.residents.push_back(placed(from.runs, child.use, child.start));
    begun_.residents.insert(begun_.residents.end(), residents.begin() + child.stop, residents.end());
    added.count = static_cast<Index>(begun_.residents.size()) - added.begin;
}

// Removes tensors without a later use, and charges the eviction of released ones.
void OrderBeam::end_operator(Layouts& layouts, Layout& layout) const {
    const auto residents = layouts.of(layout);
    const auto gone = std::ranges::remove_if(
        residents, [&](const Resident& one) { return one.is_operand && next_reader(layout, one.tensor) == none; });
    layout.count -= static_cast<Index>(gone.size());
    const std::vector<Index>& released = problem_.operators[layout.runs].released;
    for (Resident& one : layouts.of(layout)) {
        const bool is_released = one.is_operand && !released.empty() && contains(released, one.tensor);
        one.is_operand = one.is_new = false;
        if (!is_released) continue;
        layout.cost += leaving(one);
        one.is_idle = true;
    }
    layout.ran |= std::uint64_t{1} << (layout.runs - layout.first);
    const int more = std::countr_one(layout.ran);
    layout.first += more;
    layout.ran = more == most_ahead ? 0 : layout.ran >> more;
    layout.runs = none;
    weigh(layout, layouts.of(layout));
}

void OrderBeam::weigh(Layout& layout, std::span<const Resident> residents) const {
    layout.weight = layout.cost;
    layout.key = mixed(layout.ran * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(layout.first) + 1);
    for (const Resident& one : residents) {
        if (options_.soon > 0) {
            const Index until = std::clamp<Index>(next_reader(layout, one.tensor) - steps_, 0, options_.soon);
            layout.weight += leaving(one) * until / options_.soon;
        }
        const auto flags = static_cast<std::uint64_t>((one.is_copied ? 1 : 0) + (one.is_idle ? 2 : 0));
        layout.key += mixed((static_cast<std::uint64_t>(one.tensor) * 4 + flags + 1) * 0x9e3779b97f4a7c15ULL);
    }
}

// Keeps one of equal layouts, and a few of those that differ only in addresses; in one order, all of these.
void OrderBeam::keep_best() {
    std::vector<Index> by_weight(ended_.list.size());
    std::iota(by_weight.begin(), by_weight.end(), 0);
    const auto is_worse = [&](Index first, Index second) {
        const Layout &one = ended_.list[first], &other = ended_.list[second];
        if (one.weight != other.weight) return one.weight > other.weight;
        return one.tie != other.tie ? one.tie > other.tie : first > second;
    };
    std::ranges::make_heap(by_weight, is_worse);
    const Index most_alike = has_one_order_ ? options_.width : std::max<Index>(1, options_.width / share_of_one_choice);
    alike_.clear(by_weight.size());
    seen_.clear(by_weight.size());
    layouts_.clear();
    while (!by_weight.empty() && static_cast<Index>(layouts_.list.size()) < options_.width) {
        std::ranges::pop_heap(by_weight, is_worse);
        const Layout& layout = ended_.list[by_weight.back()];
        by_weight.pop_back();
        if (seen_.count(key_with_places(layout)) == 1 && alike_.count(layout.key) <= most_alike) {
            trail_.share(layout.node);
            layouts_.add(layout, ended_.of(layout));
        }
    }
    for (const Layout& layout : ended_.list) trail_.release(layout.node);
}

std::uint64_t OrderBeam::key_with_places(const Layout& layout) {
    std::uint64_t key = layout.key;
    for (const Resident& one : ended_.of(layout)) {
        key += mixed(mixed(static_cast<std::uint64_t>(one.tensor) + 1) + static_cast<std::uint64_t>(one.start));
    }
    return key;
}

void OrderBeam::KeyCounts::clear(std::size_t most_keys) {
    entries_.assign(std::bit_ceil(2 * most_keys + 1), Entry{});
}

Index OrderBeam::KeyCounts::count(std::uint64_t key) {
    std::size_t place = key & (entries_.size() - 1);
    while (entries_[place].count != 0 && entries_[place].key != key) place = (place + 1) & (entries_.size() - 1);
    entries_[place].key = key;
    return ++entries_[place].count;
}

void OrderBeam::write_plan(Index node) {
    order_.clear();
    stays_.clear();
    Replay replay(stays_);
    Layouts no_residents;
    Layout& after = no_residents.add(Layout{}, {});
    const auto end = [&] {
        if (after.runs == none) return;
        const auto step = static_cast<Index>(order_.size()) - 1;
        for (Index tensor : operands_[after.runs]) {
            replay.use(tensor, step);
            if (next_reader(after, tensor) == none) replay.end(tensor);
        }
        end_operator(no_residents, after);
    };
    for (const Trail::Node& one : trail_.path_to(node)) {
        if (one.tensor == none) {
            end();
            after.runs = one.step;
            order_.push_back(one.step);
            continue;
        }
        const auto step = static_cast<Index>(order_.size()) - 1;
        if (one.tensor == stacked) {
            replay.clear(step);
            for (const Resident& resident : stacked_operands(after.runs)) replay.place(resident, step);
        } else {
            const auto use = std::ranges::find(operands_[after.runs], one.tensor) - operands_[after.runs].begin();
            replay.place(placed(after.runs, static_cast<Index>(use), one.start), step);
        }
    }
    end();
}

}  // namespace onchip::layouts
