// The search over numbers of bands and over orders of the pieces.

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "latency.hpp"
#include "latency_bands.hpp"

namespace onchip::latency {

// The network with its operators split into the given numbers of bands.

namespace {

Bytes band_bytes(const WholeTensor& tensor, Index width) {
    return width == tensor.channels ? tensor.bytes : (width * tensor.bits_per_channel + 7) / 8;
}

Bytes aligned(Bytes bytes, Bytes alignment_bytes) {
    return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

Cycles cycles_of(const Rate& rate, Bytes bytes) {
    Cycles cycles = 0;
    for (const Term& term : rate) cycles += (bytes * 8 + term.unit_bits - 1) / term.unit_bits * term.cycles;
    return cycles;
}

// By tensor: the channels at which it is split, with both ends.
std::vector<std::vector<Index>> lines_of(const Network& network, const Parts& parts) {
    std::vector<std::vector<Index>> lines(network.tensors.size());
    for (std::size_t of = 0; of < parts.size(); ++of) {
        if (parts[of] == 1) continue;
        for (const auto* side : {&network.operators[of].reads, &network.operators[of].writes}) {
            for (const Operand& operand : *side) {
                const std::int64_t channels = network.tensors[operand.tensor].channels;
                for (Index part = 1; operand.is_cut && part < parts[of]; ++part) {
                    lines[operand.tensor].push_back(static_cast<Index>(part * channels / parts[of]));
                }
            }
        }
    }
    // Copies are split like their original.
    for (std::size_t tensor = 0; tensor < lines.size(); ++tensor) {
        const Index same = network.tensors[tensor].same_as;
        if (same != none) lines[same].insert(lines[same].end(), lines[tensor].begin(), lines[tensor].end());
    }
    for (std::size_t tensor = 0; tensor < lines.size(); ++tensor) {
        if (network.tensors[tensor].same_as != none) lines[tensor] = lines[network.tensors[tensor].same_as];
    }
    for (std::size_t tensor = 0; tensor < lines.size(); ++tensor) {
        auto& one = lines[tensor];
        one.push_back(0);
        one.push_back(network.tensors[tensor].channels);
        std::sort(one.begin(), one.end());
        one.erase(std::unique(one.begin(), one.end()), one.end());
    }
    return lines;
}

// Appends the numbers of an operand's bands that a piece uses; `first` is the number of the tensor's first band.
void add_bands(std::vector<Index>& bands, const std::vector<Index>& lines, Index first, const Operand& operand,
               const Piece& piece) {
    const std::int64_t channels = lines.back();
    std::int64_t start = 0, stop = channels;
    if (operand.is_cut && piece.parts > 1) {
        start = piece.part * channels / piece.parts;
        stop = (piece.part + 1) * channels / piece.parts;
    }
    for (std::size_t at = 0; at + 1 < lines.size(); ++at) {
        if (lines[at] < stop && start < lines[at + 1]) bands.push_back(first + static_cast<Index>(at));
    }
}

// `first`: by tensor, the number of its first band.
void add_tensors(Cut& cut, const Network& network, const std::vector<std::vector<Index>>& lines,
                 const std::vector<Index>& first) {
    for (std::size_t number = 0; number < lines.size(); ++number) {
        const WholeTensor& whole = network.tensors[number];
        const Access& access = network.accesses[whole.memory];
        for (std::size_t at = 0; at + 1 < lines[number].size(); ++at) {
            const Bytes bytes = band_bytes(whole, lines[number][at + 1] - lines[number][at]);
            const Index same = whole.same_as == none ? none : first[whole.same_as] + static_cast<Index>(at);
            cut.sizes_bytes.push_back(bytes);
            cut.problem.tensors.push_back({aligned(bytes, access.alignment_bytes), cycles_of(access.load, bytes),
                                           cycles_of(access.store, bytes), whole.is_in_dram, whole.is_output,
                                           whole.memory, same});
        }
    }
}

void add_predecessors(Problem& problem) {
    std::vector<Index> writer(problem.tensors.size(), none);
    for (std::size_t number = 0; number < problem.operators.size(); ++number) {
        for (const Index tensor : problem.operators[number].writes) writer[tensor] = static_cast<Index>(number);
    }
    for (Operator& one : problem.operators) {
        for (const Index tensor : one.reads) {
            const Index same = problem.tensors[tensor].same_as, written = same == none ? tensor : same;
            if (writer[written] != none) one.predecessors.push_back(writer[written]);
        }
        std::sort(one.predecessors.begin(), one.predecessors.end());
        one.predecessors.erase(std::unique(one.predecessors.begin(), one.predecessors.end()), one.predecessors.end());
    }
}

Cycles cycles_of_one(const WholeOperator& whole, Index parts) {
    for (const Way& way : whole.ways) {
        if (way.parts == parts) return way.cycles;
    }
    throw std::invalid_argument("an operator does not run in " + std::to_string(parts) + " parts");
}

}  // namespace

void Network::check() const {
    for (std::size_t number = 0; number < tensors.size(); ++number) {
        const WholeTensor& one = tensors[number];
        const bool has_memory = one.memory >= 0 && static_cast<std::size_t>(one.memory) < accesses.size();
        const bool has_same = one.same_as >= none && one.same_as < static_cast<Index>(tensors.size());
        if (one.channels < 1 || one.bytes < 0 || one.bits_per_channel < 0 || !has_memory || !has_same) {
            refuse("tensor", number, "network");
        }
    }
    for (std::size_t number = 0; number < operators.size(); ++number) {
        const WholeOperator& one = operators[number];
        if (one.ways.empty() || one.ways.front().parts != 1) refuse("operator", number, "network");
        for (const auto* side : {&one.reads, &one.writes}) {
            for (const Operand& operand : *side) {
                if (operand.tensor < 0 || static_cast<std::size_t>(operand.tensor) >= tensors.size()) {
                    refuse("operator", number, "network");
                }
            }
        }
    }
    const auto is_bad = [](const Term& term) { return term.unit_bits < 1 || term.cycles < 0; };
    for (const Access& one : accesses) {
        if (one.alignment_bytes < 1 || std::any_of(one.load.begin(), one.load.end(), is_bad) ||
            std::any_of(one.store.begin(), one.store.end(), is_bad)) {
            throw std::invalid_argument("alignment and units are at least 1, cycles at least 0");
        }
    }
}

Cut cut(const Network& network, const Parts& parts) {
    if (parts.size() != network.operators.size()) throw std::invalid_argument("parts are not one for each operator");
    const auto lines = lines_of(network, parts);
    std::vector<Index> first(lines.size() + 1, 0);
    for (std::size_t tensor = 0; tensor < lines.size(); ++tensor) {
        first[tensor + 1] = first[tensor] + static_cast<Index>(lines[tensor].size()) - 1;
    }
    Cut found;
    found.problem.machine = network.machine;
    add_tensors(found, network, lines, first);
    for (std::size_t of = 0; of < parts.size(); ++of) {
        const WholeOperator& whole = network.operators[of];
        for (Index part = 0; part < parts[of]; ++part) {
            const Piece piece{static_cast<Index>(of), part, parts[of]};
            Operator one;
            one.cycles = cycles_of_one(whole, parts[of]);
            for (const Operand& each : whole.reads) {
                add_bands(one.reads, lines[each.tensor], first[each.tensor], each, piece);
            }
            for (const Operand& each : whole.writes) {
                add_bands(one.writes, lines[each.tensor], first[each.tensor], each, piece);
            }
            found.pieces.push_back(piece);
            found.problem.operators.push_back(std::move(one));
        }
    }
    add_predecessors(found.problem);
    return found;
}

bool BandSearch::fits(Index of, Index parts) const {
    std::vector<Bytes> free;
    for (const Scratchpad& one : network_.machine.scratchpads) free.push_back(one.capacity_bytes);
    for (const auto* side : {&network_.operators[of].reads, &network_.operators[of].writes}) {
        for (const Operand& operand : *side) {
            const WholeTensor& tensor = network_.tensors[operand.tensor];
            const Index width = operand.is_cut ? tensor.channels / parts : tensor.channels;
            free[tensor.memory] -= aligned(band_bytes(tensor, width), network_.accesses[tensor.memory].alignment_bytes);
        }
    }
    return std::all_of(free.begin(), free.end(), [](Bytes left) { return left >= 0; });
}

// Search for orders with lower latency: moves one operator, or several in a row, with simulated annealing.

namespace {

constexpr Index most_in_a_row = 12;
constexpr int most_tries = 4096;

}  // namespace

OrderSearch::OrderSearch(Problem problem) : problem_((problem.check(), std::move(problem))), evaluator_(problem_) {
    successors_.resize(problem_.operators.size());
    for (std::size_t number = 0; number < problem_.operators.size(); ++number) {
        for (const Index one : problem_.operators[number].predecessors) {
            successors_[one].push_back(static_cast<Index>(number));
        }
    }
    position_.resize(problem_.operators.size());
}

std::int64_t OrderSearch::run(std::vector<Index> order, const SearchOptions& options, const StopToken& stop) {
    random_.seed(options.seed);
    Cycles now = evaluator_.evaluate(order, options.room).latency;
    best_ = order;
    best_latency_ = now;
    for (std::size_t step = 0; step < order.size(); ++step) position_[order[step]] = static_cast<Index>(step);
    std::uniform_real_distribution<double> chance(0, 1);
    std::vector<Index> changed;
    std::int64_t evaluations = 1;
    for (; evaluations < options.most_evaluations && best_latency_ > options.enough && !stop.is_asked();
         ++evaluations) {
        changed = order;
        if (!move(changed)) break;
        const double spent = static_cast<double>(evaluations) / static_cast<double>(options.most_evaluations);
        const double heat =
            options.hottest > 0 ? options.hottest * std::pow(options.coldest / options.hottest, spent) : 0;
        const Cycles latest = now + (heat > 0 ? static_cast<Cycles>(-heat * std::log(1 - chance(random_))) : 0);
        const Cycles then = evaluator_.evaluate(changed, options.room, {}, latest).latency;
        if (then > latest) continue;
        order.swap(changed);
        for (std::size_t step = 0; step < order.size(); ++step) position_[order[step]] = static_cast<Index>(step);
        now = then;
        if (now < best_latency_) best_ = order, best_latency_ = now;
    }
    last_ = std::move(order);
    return evaluations;
}

// Returns false if no operator can move.
bool OrderSearch::move(std::vector<Index>& order) {
    const Index steps = static_cast<Index>(order.size());
    for (int attempt = 0; attempt < most_tries; ++attempt) {
        const Index from = static_cast<Index>(random_() % steps);
        const Index length = random_() % 2 ? 1 : 1 + static_cast<Index>(random_() % most_in_a_row);
        const Index stop = std::min(steps, from + length);
        const Index first = earliest(order, from, stop), last = latest(order, from, stop);
        const Index places = last - first;  // without its own
        if (places <= 0) continue;
        Index to = first + static_cast<Index>(random_() % places);
        if (to >= from) ++to;
        const auto begin = order.begin();
        if (to < from) {
            std::rotate(begin + to, begin + from, begin + stop);
        } else {
            std::rotate(begin + from, begin + stop, begin + to + (stop - from));
        }
        return true;
    }
    return false;
}

// Returns the first position at which the row [from, stop) may begin: after all its predecessors.
Index OrderSearch::earliest(const std::vector<Index>& order, Index from, Index stop) {
    Index place = 0;
    for (Index step = from; step < stop; ++step) {
        for (const Index one : problem_.operators[order[step]].predecessors) {
            if (position_[one] < from) place = std::max(place, position_[one] + 1);
        }
    }
    return place;
}

// Returns the last position at which it may begin, with itself removed: before all its successors.
Index OrderSearch::latest(const std::vector<Index>& order, Index from, Index stop) {
    Index place = static_cast<Index>(order.size());
    for (Index step = from; step < stop; ++step) {
        for (const Index one : successors_[order[step]]) {
            if (position_[one] >= stop) place = std::min(place, position_[one]);
        }
    }
    return place - (stop - from);
}

// Changes of the bands, and orders of the new bands: carried over from the previous bands, or interleaved with
// neighbours.

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
