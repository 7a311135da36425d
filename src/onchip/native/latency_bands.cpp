// Changes of the bands, and orders of the new bands: carried over from the previous bands, or interleaved with
// neighbours.

#include "latency_bands.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

namespace onchip::latency {

namespace {

using Key = std::tuple<double, double, double>;

constexpr double rounding = 1e-9;
constexpr double coldest_share = 1e-3;
constexpr std::int64_t orders_between_bands = 24;

// Returns a topological order that always takes the ready piece with the least key.
std::vector<Index> sorted(const Problem& problem, const std::vector<Key>& keys) {
    const std::size_t count = keys.size();
    std::vector<std::vector<Index>> followers(count);
    std::vector<Index> waits_for(count);
    for (std::size_t number = 0; number < count; ++number) {
        waits_for[number] = static_cast<Index>(problem.operators[number].predecessors.size());
        for (const Index one : problem.operators[number].predecessors) {
            followers[one].push_back(static_cast<Index>(number));
        }
    }
    using Ready = std::pair<Key, Index>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (std::size_t number = 0; number < count; ++number) {
        if (waits_for[number] == 0) ready.emplace(keys[number], static_cast<Index>(number));
    }
    std::vector<Index> order;
    while (!ready.empty()) {
        const Index number = ready.top().second;
        ready.pop();
        order.push_back(number);
        for (const Index follower : followers[number]) {
            if (--waits_for[follower] == 0) ready.emplace(keys[follower], follower);
        }
    }
    return order;
}

}  // namespace

BandSearch::BandSearch(Network network) : network_((network.check(), std::move(network))) {
    writer_.assign(network_.tensors.size(), none);
    readers_.resize(network_.tensors.size());
    for (std::size_t of = 0; of < network_.operators.size(); ++of) {
        for (const Operand& one : network_.operators[of].writes) writer_[one.tensor] = static_cast<Index>(of);
        for (const Operand& one : network_.operators[of].reads) {
            readers_[whole(one.tensor)].push_back(static_cast<Index>(of));
        }
    }
    find_changes();
}

// Returns the original of a tensor.
Index BandSearch::whole(Index tensor) const {
    return network_.tensors[tensor].same_as == none ? tensor : network_.tensors[tensor].same_as;
}

void BandSearch::begin(const Parts& parts, std::uint64_t seed, const std::vector<Index>& order) {
    random_.seed(seed);
    now_.parts = parts;
    now_.cut = cut(network_, parts);
    now_.order.resize(now_.cut.pieces.size());
    std::iota(now_.order.begin(), now_.order.end(), 0);
    if (order.size() == now_.order.size()) now_.order = order;
    note_places();
    best_ = now_;
    limit_room({});
}

void BandSearch::limit_room(const Room& room) {
    room_ = room;
    best_.worth = worth_of(best_.cut, best_.order);
    now_ = best_;
}

void BandSearch::cut_otherwise(Cycles enough, const StopToken& stop) {
    now_ = best_;
    std::shuffle(changes_.begin(), changes_.end(), random_);
    for (const Change& change : changes_) {
        if (stop.is_asked() || best_.worth[0] <= enough) return;
        attempt(change, 0);
    }
}

void BandSearch::reorder(std::int64_t most_evaluations, double hottest, Cycles enough, const StopToken& stop) {
    now_ = best_;
    reorder_now(most_evaluations, hottest, hottest * coldest_share, enough, stop);
}

void BandSearch::anneal(std::int64_t most_evaluations, double hottest, Cycles enough, const StopToken& stop) {
    now_ = best_;
    for (std::int64_t spent = 0; spent < most_evaluations; spent += orders_between_bands + 2) {
        if (stop.is_asked() || best_.worth[0] <= enough || changes_.empty()) return;
        const double share = static_cast<double>(spent) / static_cast<double>(most_evaluations);
        const double heat = hottest * std::pow(coldest_share, share);
        attempt(changes_[random_() % changes_.size()], heat);
        reorder_now(orders_between_bands, heat, heat, enough, stop);
    }
}

void BandSearch::reorder_now(std::int64_t most_evaluations, double hottest, double coldest, Cycles enough,
                             const StopToken& stop) {
    if (network_.has_given_order) return;
    OrderSearch search(now_.cut.problem);
    search.run(now_.order, {random_(), room_, most_evaluations, hottest, coldest, enough}, stop);
    const Cut same = now_.cut;
    go_on_from(now_.parts, same, search.order(), 0);
    if (hottest == coldest && search.last() != search.order()) go_on_from(now_.parts, same, search.last(), never);
}

Timing BandSearch::evaluate(const Room& room, const std::vector<Bytes>& first, const StopToken* stop) const {
    return Evaluator(best_.cut.problem).evaluate(best_.order, room, first, never, stop);
}

void BandSearch::attempt(const Change& change, double heat) {
    Parts parts = now_.parts;
    for (const auto& [of, count] : change) parts[of] = count;
    if (parts == now_.parts) return;
    const Cut candidate = cut(network_, parts);
    std::vector<std::vector<Index>> orders;
    if (network_.has_given_order) {
        orders.emplace_back(candidate.pieces.size());
        std::iota(orders.back().begin(), orders.back().end(), 0);
    } else {
        orders = {carried_over(candidate), woven(candidate, parts)};
    }
    for (auto& order : orders) go_on_from(parts, candidate, std::move(order), heat);
}

Worth BandSearch::worth_of(const Cut& cut, const std::vector<Index>& order, Cycles latest) const {
    Evaluator evaluator(cut.problem);
    const Timing& timing = evaluator.evaluate(order, room_, {}, latest);
    return {timing.latency, timing.transfer_cycles, static_cast<std::int64_t>(order.size())};
}

// Moves to a candidate that is better, or with some heat not much worse.
void BandSearch::go_on_from(const Parts& parts, const Cut& cut, std::vector<Index> order, double heat) {
    std::uniform_real_distribution<double> chance(0, 1);
    const double later = heat > 0 ? -heat * std::log(1 - chance(random_)) : 0;
    const Cycles latest = static_cast<Cycles>(std::min(static_cast<double>(now_.worth[0]) + later, 1.0 * never));
    const Worth worth = worth_of(cut, order, latest);
    if (worth[0] > latest || (worth >= now_.worth && worth[0] == now_.worth[0])) return;
    now_.worth = worth;
    now_.parts = parts;
    now_.cut = cut;
    now_.order = std::move(order);
    note_places();
    if (now_.worth < best_.worth) best_ = now_;
}

void BandSearch::note_places() {
    now_.places.assign(network_.operators.size(), {});
    const double steps = static_cast<double>(now_.order.size());
    for (std::size_t step = 0; step < now_.order.size(); ++step) {
        const Piece& piece = now_.cut.pieces[now_.order[step]];
        now_.places[piece.of].emplace_back(piece.share(), static_cast<double>(step) / steps);
    }
    for (auto& one : now_.places) std::sort(one.begin(), one.end());
}

// Orders the pieces by the position at which the same share of their operator had run.
std::vector<Index> BandSearch::carried_over(const Cut& cut) const {
    std::vector<Key> keys;
    for (const Piece& piece : cut.pieces) {
        double place = now_.places[piece.of].back().second;
        for (const Place& one : now_.places[piece.of]) {
            if (one.first < piece.share() - rounding) continue;
            place = one.second;
            break;
        }
        keys.emplace_back(place, piece.of, piece.share());
    }
    return sorted(cut.problem, keys);
}

// Alternates bands with the bands that read them: connected split operators advance together.
std::vector<Index> BandSearch::woven(const Cut& cut, const Parts& parts) const {
    std::vector<Index> group(parts.size());
    std::iota(group.begin(), group.end(), 0);
    const auto root = [&group](Index of) {
        while (group[of] != of) of = group[of];
        return of;
    };
    for (std::size_t reader = 0; reader < parts.size(); ++reader) {
        if (parts[reader] == 1 || !network_.operators[reader].cuts_inputs) continue;
        for (const Operand& one : network_.operators[reader].reads) {
            const Index writer = writer_[whole(one.tensor)];
            if (writer != none && parts[writer] > 1) group[root(static_cast<Index>(reader))] = root(writer);
        }
    }
    std::vector<double> first(parts.size(), 1);
    for (std::size_t of = 0; of < parts.size(); ++of) {
        double& one = first[root(static_cast<Index>(of))];
        one = std::min(one, now_.places[of].front().second);
    }
    std::vector<Key> keys;
    for (const Piece& piece : cut.pieces) keys.emplace_back(first[root(piece.of)], piece.share(), piece.of);
    return sorted(cut.problem, keys);
}

// Lists the changes: one operator; an operator and a reader that splits its inputs, and the latter's readers; such a
// reader and all writers of its inputs.
void BandSearch::find_changes() {
    for (std::size_t number = 0; number < network_.operators.size(); ++number) {
        const Index of = static_cast<Index>(number);
        for (const Way& way : network_.operators[of].ways) {
            if (fits(of, way.parts)) changes_.push_back({{of, way.parts}});
        }
        for (const Index reader : that_cut(of)) {
            std::vector<Index> after = that_cut(reader);
            std::vector<Index> before;
            for (const Operand& one : network_.operators[reader].reads) {
                if (writer_[whole(one.tensor)] != none) before.push_back(writer_[whole(one.tensor)]);
            }
            before.push_back(reader);
            after.insert(after.end(), {of, reader});
            add_together({of, reader});
            add_together(after);
            add_together(before);
        }
    }
    std::sort(changes_.begin(), changes_.end());
    changes_.erase(std::unique(changes_.begin(), changes_.end()), changes_.end());
}

// Returns the readers of its outputs that split their inputs.
std::vector<Index> BandSearch::that_cut(Index of) const {
    std::vector<Index> found;
    for (const Operand& one : network_.operators[of].writes) {
        for (const Index reader : readers_[one.tensor]) {
            if (network_.operators[reader].cuts_inputs) found.push_back(reader);
        }
    }
    return found;
}

// Adds the changes to an equal number of bands, above one, for all operators of the group.
void BandSearch::add_together(const std::vector<Index>& group) {
    const std::set<Index> members(group.begin(), group.end());
    for (const Way& way : network_.operators[*members.begin()].ways) {
        Change change;
        for (const Index of : members) {
            const auto& ways = network_.operators[of].ways;
            const bool is_one =
                std::any_of(ways.begin(), ways.end(), [&](const Way& w) { return w.parts == way.parts; });
            if (is_one && way.parts > 1 && fits(of, way.parts)) change.emplace_back(of, way.parts);
        }
        if (change.size() == members.size()) changes_.push_back(std::move(change));
    }
}

}  // namespace onchip::latency
