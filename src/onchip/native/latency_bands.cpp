// Other bands, and orders of theirs: those of the bands before carried over, or bands of neighbours woven.

#include "latency_bands.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

namespace onchip::latency {

namespace {

using Key = std::tuple<double, double, double>;

constexpr double rounding = 1e-9;

// Of all pieces that may run the one of least key, again and again.
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
        for (const Operand& one : network_.operators[of].reads) readers_[one.tensor].push_back(static_cast<Index>(of));
    }
    find_changes();
}

void BandSearch::begin(const Parts& parts, std::uint64_t seed) {
    random_.seed(seed);
    parts_ = parts;
    cut_ = cut(network_, parts);
    order_.resize(cut_.pieces.size());
    std::iota(order_.begin(), order_.end(), 0);
    note_places();
    limit_room({network_.machine.capacity_bytes, network_.machine.capacity_bytes});
}

void BandSearch::limit_room(const Room& room) {
    room_ = room;
    worth_ = worth_of(cut_, order_);
}

void BandSearch::cut_otherwise(Cycles enough, const StopToken& stop) {
    std::shuffle(changes_.begin(), changes_.end(), random_);
    for (const Change& change : changes_) {
        if (stop.is_asked() || worth_[0] <= enough) return;
        Parts parts = parts_;
        for (const auto& [of, count] : change) parts[of] = count;
        if (parts != parts_) attempt(parts);
    }
}

void BandSearch::reorder(std::int64_t most_evaluations, double hottest, Cycles enough, const StopToken& stop) {
    if (network_.has_given_order) return;
    OrderSearch search(cut_.problem);
    search.run(order_, {random_(), room_, most_evaluations, hottest, enough}, stop);
    const Cut same = cut_;
    keep(parts_, same, search.order());
}

Timing BandSearch::evaluate(const Room& room, const std::vector<Bytes>& first) const {
    return Evaluator(cut_.problem).evaluate(order_, room, first);
}

void BandSearch::attempt(const Parts& parts) {
    const Cut candidate = cut(network_, parts);
    std::vector<std::vector<Index>> orders;
    if (network_.has_given_order) {
        orders.emplace_back(candidate.pieces.size());
        std::iota(orders.back().begin(), orders.back().end(), 0);
    } else {
        orders = {carried_over(candidate), woven(candidate, parts)};
    }
    for (auto& order : orders) keep(parts, candidate, std::move(order));
}

Worth BandSearch::worth_of(const Cut& cut, const std::vector<Index>& order) const {
    Evaluator evaluator(cut.problem);
    const Timing& timing = evaluator.evaluate(order, room_);
    return {timing.latency, timing.transfer_cycles, static_cast<std::int64_t>(order.size())};
}

void BandSearch::keep(const Parts& parts, const Cut& cut, std::vector<Index> order) {
    const Worth worth = worth_of(cut, order);
    if (worth >= worth_) return;
    worth_ = worth;
    parts_ = parts;
    cut_ = cut;
    order_ = std::move(order);
    note_places();
}

void BandSearch::note_places() {
    places_.assign(network_.operators.size(), {});
    for (std::size_t step = 0; step < order_.size(); ++step) {
        const Piece& piece = cut_.pieces[order_[step]];
        places_[piece.of].emplace_back(piece.share(), static_cast<double>(step) / static_cast<double>(order_.size()));
    }
    for (auto& one : places_) std::sort(one.begin(), one.end());
}

// Each where so much of its operator had run in the order before.
std::vector<Index> BandSearch::carried_over(const Cut& cut) const {
    std::vector<Key> keys;
    for (const Piece& piece : cut.pieces) {
        double place = places_[piece.of].back().second;
        for (const Place& one : places_[piece.of]) {
            if (one.first < piece.share() - rounding) continue;
            place = one.second;
            break;
        }
        keys.emplace_back(place, piece.of, piece.share());
    }
    return sorted(cut.problem, keys);
}

// A band, then the bands that read it: operators in bands that hang together go forward side by side.
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
            const Index writer = writer_[one.tensor];
            if (writer != none && parts[writer] > 1) group[root(static_cast<Index>(reader))] = root(writer);
        }
    }
    std::vector<double> first(parts.size(), 1);
    for (std::size_t of = 0; of < parts.size(); ++of) {
        double& one = first[root(static_cast<Index>(of))];
        one = std::min(one, places_[of].front().second);
    }
    std::vector<Key> keys;
    for (const Piece& piece : cut.pieces) keys.emplace_back(first[root(piece.of)], piece.share(), piece.of);
    return sorted(cut.problem, keys);
}

// What changes: one operator; one and a reader that cuts its inputs, and that one's readers; one and all its writers.
void BandSearch::find_changes() {
    for (std::size_t number = 0; number < network_.operators.size(); ++number) {
        const Index of = static_cast<Index>(number);
        for (const Way& way : network_.operators[of].ways) {
            if (need_bytes(of, way.parts) <= network_.machine.capacity_bytes) changes_.push_back({{of, way.parts}});
        }
        for (const Index reader : that_cut(of)) {
            std::vector<Index> after = that_cut(reader);
            std::vector<Index> before;
            for (const Operand& one : network_.operators[reader].reads) {
                if (writer_[one.tensor] != none) before.push_back(writer_[one.tensor]);
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

// The readers of what it writes that cut their inputs.
std::vector<Index> BandSearch::that_cut(Index of) const {
    std::vector<Index> found;
    for (const Operand& one : network_.operators[of].writes) {
        for (const Index reader : readers_[one.tensor]) {
            if (network_.operators[reader].cuts_inputs) found.push_back(reader);
        }
    }
    return found;
}

// In equal parts, more than one, as each of the group may be cut.
void BandSearch::add_together(const std::vector<Index>& group) {
    const std::set<Index> members(group.begin(), group.end());
    for (const Way& way : network_.operators[*members.begin()].ways) {
        Change change;
        for (const Index of : members) {
            const auto& ways = network_.operators[of].ways;
            const bool is_one =
                std::any_of(ways.begin(), ways.end(), [&](const Way& w) { return w.parts == way.parts; });
            const bool fits = is_one && need_bytes(of, way.parts) <= network_.machine.capacity_bytes;
            if (fits && way.parts > 1) change.emplace_back(of, way.parts);
        }
        if (change.size() == members.size()) changes_.push_back(std::move(change));
    }
}

}  // namespace onchip::latency
