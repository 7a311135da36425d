// Core, best fit, restarts and stretches of one packing attempt.

#include "packing.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

namespace onchip::packing {

namespace {

constexpr std::int64_t nodes_per_buffer = 8;  // nodes of the shortest restart
constexpr std::int64_t node_growth = 4;
constexpr int best_fit_tries = 4;                // random orders
constexpr Index first_sections = 4;              // sections of the shortest stretch, and between two of them
constexpr std::int64_t stretch_nodes = 2'000;    // most stretches without a packing are refuted at once
constexpr std::size_t most_stretches = 40;       // of a task that are looked at, the fullest first
constexpr Units most_sum_bits = Units{1} << 22;  // of the table of sums

Bytes rounded_up(Bytes value, Bytes unit) {
    return (value + unit - 1) / unit * unit;
}

// The greatest sum of sizes within the limit; the limit if the sizes are many and large.
Units greatest_sum(const std::vector<Units>& sizes, Units limit) {
    if (limit < 0) return none;
    const Units total = std::accumulate(sizes.begin(), sizes.end(), Units{0});
    if (total <= limit) return total;
    if (limit > most_sum_bits / static_cast<Units>(sizes.size())) return limit;
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(limit) / 64 + 1);  // one bit for each sum
    sums[0] = 1;
    for (const Units size : sizes) {
        if (size > limit) continue;
        const auto words = static_cast<std::size_t>(size) / 64;
        const int bits = static_cast<int>(size % 64);
        for (std::size_t at = sums.size(); at-- > words;) {
            sums[at] |= sums[at - words] << bits;
            if (bits > 0 && at > words) sums[at] |= sums[at - words - 1] >> (64 - bits);
        }
    }
    while ((sums[limit / 64] >> (limit % 64) & 1) == 0) --limit;
    return limit;
}

// The term of 1, 1, 2, 1, 1, 2, 4, ...
std::int64_t luby(std::int64_t index) {
    while ((index & (index + 1)) != 0) {
        std::int64_t power = 1;
        while (2 * power <= index) power *= 2;
        index -= power - 1;
    }
    return (index + 1) / 2;
}

template <typename Key>
std::vector<Index> ranks_of(std::size_t count, Key key) {
    std::vector<Index> order(count), rank(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](Index one, Index other) { return key(one) > key(other); });
    for (std::size_t place = 0; place < count; ++place) rank[order[place]] = static_cast<Index>(place);
    return rank;
}

}  // namespace

Lifetimes::Lifetimes(const std::vector<Request>& buffers) {
    std::vector<Step> starts, stops;
    for (const Request& one : buffers) {
        lives_.push_back(one.lives());
        for (const Interval& life : lives_.back()) {
            starts.push_back(life.start);
            stops.push_back(life.stop);
        }
    }
    std::sort(starts.begin(), starts.end());
    std::sort(stops.begin(), stops.end());
    std::size_t ended = 0;
    for (std::size_t begun = 0; begun < starts.size(); ++begun) {
        while (stops[ended] <= starts[begun]) ++ended;
        pairs_ += static_cast<std::int64_t>(begun - ended);
    }
}

const std::vector<std::vector<Index>>& Lifetimes::neighbours() {
    if (!neighbours_.empty()) return neighbours_;
    std::vector<std::tuple<Step, Step, Index>> begins;
    for (Index buffer = 0; buffer < static_cast<Index>(lives_.size()); ++buffer) {
        for (const Interval& life : lives_[buffer]) begins.emplace_back(life.start, life.stop, buffer);
    }
    std::sort(begins.begin(), begins.end());
    neighbours_.resize(lives_.size());
    std::vector<std::pair<Step, Index>> alive;
    for (const auto& [start, stop, buffer] : begins) {
        std::erase_if(alive, [start = start](const auto& one) { return one.first <= start; });
        for (const auto& [other_stop, other] : alive) {
            neighbours_[buffer].push_back(other);
            neighbours_[other].push_back(buffer);
        }
        alive.emplace_back(stop, buffer);
    }
    for (std::vector<Index>& some : neighbours_) {  // two buffers with gaps may meet several times
        std::sort(some.begin(), some.end());
        some.erase(std::unique(some.begin(), some.end()), some.end());
    }
    return neighbours_;
}

Scale::Scale(const std::vector<Request>& buffers) {
    common = 0;
    for (const Request& one : buffers) common = std::gcd(common, one.alignment);
    common = std::max<Bytes>(common, 1);
    Units divisor = 0;
    for (const Request& one : buffers) {
        divisor = std::gcd(divisor, rounded_up(one.size, common) / common);
        if (one.fixed != none) divisor = std::gcd(divisor, one.fixed / common);
    }
    divisor = std::max<Units>(divisor, 1);
    bool is_changed = true;
    while (is_changed) {  // every alignment divides the unit, or is a multiple of it
        is_changed = false;
        for (const Request& one : buffers) {
            const Units alignment = one.alignment / common;
            if (divisor % alignment == 0 || alignment % divisor == 0) continue;
            divisor = std::gcd(divisor, alignment);
            is_changed = true;
        }
    }
    unit = divisor * common;
    for (const Request& one : buffers) {
        sizes.push_back(rounded_up(one.size, common) / unit);
        alignments.push_back(std::max<Units>(one.alignment / unit, 1));
        fixed.push_back(one.fixed == none ? none : one.fixed / unit);
        are_sums = are_sums && one.fixed == none && alignments.back() == 1;
    }
}

bool Placer::place(const std::vector<Index>& order, Bytes capacity, Gap gap) {
    offsets.resize(buffers_.size());
    for (std::size_t at = 0; at < offsets.size(); ++at) offsets[at] = buffers_[at].fixed;
    return std::all_of(order.begin(), order.end(),
                       [&](Index buffer) { return offsets[buffer] != none || place(buffer, capacity, gap); });
}

bool Placer::place(Index buffer, Bytes capacity, Gap gap) {
    const Request& one = buffers_[buffer];
    beside_.clear();
    for (const Index other : neighbours_[buffer]) {
        if (offsets[other] != none) beside_.emplace_back(offsets[other], offsets[other] + buffers_[other].size);
    }
    std::sort(beside_.begin(), beside_.end());
    beside_.emplace_back(capacity, capacity);
    offsets[buffer] = none;
    Bytes top = 0, least = 2 * most_units;
    for (const auto& [offset, end] : beside_) {
        if (offset - top >= one.size && offset - top < least) {
            least = offset - top;
            offsets[buffer] = top;
            if (gap == Gap::lowest) return true;
        }
        top = std::max(top, rounded_up(end, one.alignment));
    }
    return offsets[buffer] != none;
}

Attempt::Attempt(Task task, std::uint64_t seed) : task_(std::move(task)), seed_(seed) {
    task_.check();
    lifetimes_ = std::make_shared<Lifetimes>(task_.buffers);
    find_core();
}

Attempt::Attempt(Task task, std::shared_ptr<Lifetimes> lifetimes, std::uint64_t seed)
    : task_(std::move(task)), seed_(seed), lifetimes_(std::move(lifetimes)) {
    find_core();
}

// Postpones buffers that have a place wherever their neighbours lie, as long as there are any. A neighbour of `a` units
// blocks `a + b - 1` offsets of a buffer of `b` units, of which one in `alignment` counts, rounded up.
void Attempt::find_core() {
    const Scale scale(task_.buffers);
    const auto& neighbours = lifetimes_->neighbours();
    const Units capacity = task_.capacity / scale.unit;
    const auto blocked = [&](Index by, Index buffer) {
        const Units offsets = scale.sizes[by] + scale.sizes[buffer] - 1;
        return (offsets + scale.alignments[buffer] - 1) / scale.alignments[buffer];
    };
    const auto count = static_cast<Index>(task_.buffers.size());
    if (count > 0) stretch_ = {most_steps, -most_steps};
    for (const Request& one : task_.buffers) {
        stretch_ = {std::min(stretch_.start, one.start), std::max(stretch_.stop, one.stop)};
    }
    std::vector<Units> free(count);
    std::vector<bool> is_kept(count, true);
    std::vector<Index> waiting;
    const bool has_fixed = std::any_of(scale.fixed.begin(), scale.fixed.end(), [](Units at) { return at != none; });
    for (Index buffer = 0; buffer < count && !has_fixed; ++buffer) {
        const Units highest = capacity - scale.sizes[buffer];
        free[buffer] = highest < 0 ? 0 : highest / scale.alignments[buffer] + 1;
        for (const Index other : neighbours[buffer]) free[buffer] -= blocked(other, buffer);
        if (free[buffer] <= 0) continue;
        is_kept[buffer] = false;
        waiting.push_back(buffer);
    }
    while (!waiting.empty()) {
        const Index buffer = waiting.back();
        waiting.pop_back();
        postponed_.push_back(buffer);
        for (const Index other : neighbours[buffer]) {
            if (!is_kept[other]) continue;
            free[other] += blocked(buffer, other);
            if (free[other] <= 0) continue;
            is_kept[other] = false;
            waiting.push_back(other);
        }
    }
    for (Index buffer = 0; buffer < count; ++buffer) {
        if (is_kept[buffer]) kept_.push_back(buffer);
    }
}

// Returns true if the bounds exceed the capacity, or fixed buffers overlap. Sets the stretch to the fullest step if
// the bytes alive there are too many.
bool Attempt::is_too_much() {
    if (least_arena(task_) <= task_.capacity && !fixed_overlap(task_)) return false;
    const Step step = fullest_step(task_);
    const Task part = task_.clipped({step, step + 1});
    if (least_arena(part) > task_.capacity) stretch_ = {step, step + 1};
    return true;
}

Finding Attempt::go_on(std::int64_t nodes, const StopToken& stop) {
    if (!std::exchange(has_begun_, true)) {
        if (is_too_much()) return Finding::unpackable;
        if (best_fit(stop)) return Finding::packed;
        round_nodes_ = quick_nodes;
    }
    const std::int64_t limit = nodes > most_units - nodes_ ? most_units : nodes_ + nodes;
    while (nodes_ < limit && !stop.was_asked()) {
        const std::int64_t round = std::min(round_nodes_, limit - nodes_);
        const Finding found = search(round, stop);
        if (found != Finding::open) return found;
        if (stop.was_asked()) return Finding::open;
        if (narrow(search_->hardest_section(), round, stop)) return Finding::unpackable;
        round_nodes_ = std::min(round_nodes_ * node_growth, most_units / node_growth);
    }
    return Finding::open;
}

// Tries the usual orders, then random ones near the first and the last. The first order is always tried.
bool Attempt::best_fit(const StopToken& stop) {
    const auto& buffers = task_.buffers;
    Placer placer(buffers, *lifetimes_);
    const auto life = [&](Index at) { return static_cast<double>(buffers[at].stop - buffers[at].start); };
    const auto size = [&](Index at) { return static_cast<double>(buffers[at].size); };
    const auto is_packed = [&](auto key) {
        std::vector<std::pair<double, double>> keys(buffers.size());
        for (const Index at : kept_) keys[at] = key(at);
        std::vector<Index> order = kept_;
        std::stable_sort(order.begin(), order.end(), [&](Index one, Index other) { return keys[one] < keys[other]; });
        if (!placer.place(order, task_.capacity, Placer::Gap::smallest)) return false;
        complete(std::move(placer.offsets));
        return true;
    };
    const auto start = [&](Index at) { return static_cast<double>(buffers[at].start); };
    if (is_packed([&](Index at) { return std::pair{-size(at), start(at)}; })) return true;
    if (is_packed([&](Index at) { return std::pair{start(at), -size(at)}; })) return true;
    if (is_packed([&](Index at) { return std::pair{-life(at), -size(at)}; })) return true;
    if (is_packed([&](Index at) { return std::pair{-life(at) * size(at), start(at)}; })) return true;
    std::mt19937_64 chance(seed_);
    for (int round = 0; round < best_fit_tries && !stop.was_asked(); ++round) {
        const bool is_by_area = chance() % 2 == 0;
        const auto noise = [&] { return 0.5 + static_cast<double>(chance() >> 11U) * 0x1p-53; };
        if (is_packed([&](Index at) { return std::pair{-size(at) * (is_by_area ? life(at) : 1) * noise(), 0.0}; })) {
            return true;
        }
    }
    return false;
}

// Places the postponed buffers around the core; each has a gap.
void Attempt::complete(std::vector<Bytes> core_offsets) {
    Placer placer(task_.buffers, *lifetimes_);
    placer.offsets = std::move(core_offsets);
    for (const Index buffer : postponed_) placer.offsets[buffer] = none;
    for (auto buffer = postponed_.rbegin(); buffer != postponed_.rend(); ++buffer) {
        placer.place(*buffer, task_.capacity, Placer::Gap::smallest);
    }
    offsets_ = std::move(placer.offsets);
}

// Counts the lives of kept buffers in sections: a section begins where a life starts after another has ended.
void Attempt::set_sections() {
    std::vector<std::tuple<Step, bool, Index>> changes;
    for (std::size_t at = 0; at < kept_.size(); ++at) {
        for (const Interval& life : lifetimes_->lives(kept_[at])) {
            changes.emplace_back(life.start, true, static_cast<Index>(at));
            changes.emplace_back(life.stop, false, static_cast<Index>(at));
        }
    }
    std::sort(changes.begin(), changes.end());  // at equal steps ends come first
    sections_.assign(kept_.size(), {});
    steps_.clear();
    Index section = 0;
    bool is_open = false;
    for (const auto& [step, begins, at] : changes) {
        std::vector<Sections>& lives = sections_[at];
        if (begins) {
            if (!std::exchange(is_open, true)) steps_.push_back(step);
            steps_.back() = step;
            if (lives.empty() || lives.back().stop < section) lives.push_back({section, section});
        } else {
            if (std::exchange(is_open, false)) ++section;
            lives.back().stop = section;
        }
    }
}

void Attempt::build_search() {
    set_sections();
    const std::vector<Request> requests = task_.part(kept_).buffers;
    const Scale scale(requests);
    unit_ = scale.unit;
    const Units whole = task_.capacity / scale.common, partial = task_.capacity % scale.common;
    const Units divisor = scale.unit / scale.common;
    Units rounded[2] = {whole / divisor, (whole + 1) / divisor};  // the second: above a buffer with a short end
    if (scale.are_sums) {
        for (Units& limit : rounded) limit = greatest_sum(scale.sizes, limit);
    }
    Problem problem;
    problem.limits.assign(steps_.size(), rounded[0]);
    std::vector<Index> place(task_.buffers.size(), none);
    for (std::size_t at = 0; at < kept_.size(); ++at) place[kept_[at]] = static_cast<Index>(at);
    using Alike = std::tuple<std::vector<std::pair<Index, Index>>, Bytes, Bytes, Bytes>;
    std::map<Alike, Index> latest;
    for (std::size_t at = 0; at < kept_.size(); ++at) {
        const Request& request = requests[at];
        const Bytes excess = request.size % scale.common;
        const bool is_short = excess > 0 && excess <= partial;
        Buffer one;
        one.first = sections_[at].front().first;
        one.stop = sections_[at].back().stop;
        one.lives = sections_[at];
        one.size = scale.sizes[at];
        one.alignment = scale.alignments[at];
        one.fixed = scale.fixed[at];
        one.last = rounded[is_short ? 1 : 0] - one.size;
        for (const Index other : lifetimes_->neighbours()[kept_[at]]) {
            if (place[other] != none) one.neighbours.push_back(place[other]);
        }
        Alike alike{{}, request.size, request.alignment, request.fixed};
        for (const Sections& life : one.lives) std::get<0>(alike).emplace_back(life.first, life.stop);
        const auto found = latest.find(alike);
        if (found != latest.end()) one.twin = found->second;
        latest[alike] = static_cast<Index>(at);
        for (const Sections& life : sections_[at]) {
            if (is_short) std::fill(&problem.limits[life.first], &problem.limits[0] + life.stop, rounded[1]);
        }
        problem.buffers.push_back(std::move(one));
    }
    set_ranks(problem.buffers);
    search_ = std::make_unique<Search>(std::move(problem));
}

void Attempt::set_ranks(const std::vector<Buffer>& buffers) {
    const auto life = [&](Index at) { return task_.buffers[kept_[at]].stop - task_.buffers[kept_[at]].start; };
    const auto width = [&](Index at) { return buffers[at].stop - buffers[at].first; };
    const auto area = [&](Index at) { return static_cast<double>(life(at)) * static_cast<double>(buffers[at].size); };
    ranks_.push_back(ranks_of(buffers.size(), [&](Index at) { return std::pair{width(at), area(at)}; }));
    ranks_.push_back(ranks_of(buffers.size(), [&](Index at) { return buffers[at].size; }));
    ranks_.push_back(ranks_of(buffers.size(), life));
}

Finding Attempt::search(std::int64_t nodes, const StopToken& stop) {
    if (kept_.empty()) {
        complete(std::vector<Bytes>(task_.buffers.size(), none));
        return Finding::packed;
    }
    if (search_ == nullptr) build_search();
    const std::int64_t limit = nodes > most_units - nodes_ ? most_units : nodes_ + nodes;
    const auto least = nodes_per_buffer * static_cast<std::int64_t>(kept_.size());
    while (nodes_ < limit && !stop.was_asked()) {
        const std::vector<Index>& rank = ranks_[round_ % ranks_.size()];
        const Outcome outcome = search_->run(rank, std::min(luby(++round_) * least, limit - nodes_), stop);
        nodes_ += std::max<std::int64_t>(1, search_->nodes());
        if (outcome == Outcome::exhausted) return Finding::unpackable;
        if (outcome == Outcome::stopped) continue;
        const std::vector<Units> found = search_->offsets();
        std::vector<Bytes> offsets(task_.buffers.size(), none);
        for (std::size_t at = 0; at < kept_.size(); ++at) offsets[kept_[at]] = found[at] * unit_;
        complete(std::move(offsets));
        return Finding::packed;
    }
    return Finding::open;
}

// Tries ever wider stretches of steps that end, begin or lie around a section, never all of them. Returns true if one
// does not pack.
bool Attempt::narrow(Index middle, std::int64_t nodes, const StopToken& stop) {
    const auto count = static_cast<Index>(steps_.size());
    for (Index width = first_sections; width < count; width += width / 2) {
        for (const Index begin : {middle + 1 - width, middle, middle - width}) {
            const Index low = std::max<Index>(begin, 0);
            const Index high = std::min(count, begin == middle - width ? middle + width : begin + width);
            if (stop.was_asked()) return false;
            if (low == 0 && high == count) continue;
            const Finding found = finding_in(steps_of(low, high), nodes, stop);
            if (found == Finding::unpackable) {
                trim(low, high, stop);
                return true;
            }
            if (found == Finding::open && !std::exchange(is_narrowed_, true)) stretch_ = steps_of(low, high);
        }
    }
    return false;
}

// Takes sections away at either end, by halves, while the rest stays unpackable.
void Attempt::trim(Index low, Index high, const StopToken& stop) {
    const auto is_unpackable = [&](Index from, Index to) {
        return from < to && finding_in(steps_of(from, to), stretch_nodes, stop) == Finding::unpackable;
    };
    for (Index size = (high - low) / 2; size > 0 && !stop.was_asked();) {
        if (is_unpackable(low + size, high)) {
            low += size;
        } else if (is_unpackable(low, high - size)) {
            high -= size;
        } else {
            size /= 2;
        }
    }
    stretch_ = steps_of(low, high);
}

std::vector<Interval> Attempt::unpackable_stretches(const StopToken& stop) {
    std::vector<Interval> found;
    if (kept_.empty()) return found;
    if (search_ == nullptr) build_search();
    std::vector<Bytes> live(steps_.size());
    for (std::size_t at = 0; at < kept_.size(); ++at) {
        for (const Sections& life : sections_[at]) {
            for (Index section = life.first; section < life.stop; ++section) {
                live[section] += task_.buffers[kept_[at]].size;
            }
        }
    }
    std::vector<Index> fullest(steps_.size()), seen;
    std::iota(fullest.begin(), fullest.end(), 0);
    std::stable_sort(fullest.begin(), fullest.end(), [&](Index one, Index other) { return live[one] > live[other]; });
    for (const Index section : fullest) {
        if (seen.size() == most_stretches || stop.was_asked()) break;
        const bool is_seen = std::any_of(seen.begin(), seen.end(), [&](Index other) {
            return std::max(section - other, other - section) < first_sections;
        });
        // Within its length of a stretch that does not pack, that stretch would be found again.
        const bool is_near = std::any_of(found.begin(), found.end(), [&](const Interval& one) {
            const Step length = one.stop - one.start;
            return one.start - length <= steps_[section] && steps_[section] < one.stop + length;
        });
        if (is_seen || is_near) continue;
        seen.push_back(section);
        if (narrow(section, stretch_nodes, stop)) found.push_back(stretch_);
    }
    return found;
}

// Tries the core, clipped to these steps.
Finding Attempt::finding_in(Interval steps, std::int64_t nodes, const StopToken& stop) const {
    Task part = task_.part(kept_).clipped(steps);
    if (least_arena(part) > part.capacity) return Finding::unpackable;
    auto lifetimes = std::make_shared<Lifetimes>(part.buffers);
    return Attempt(std::move(part), std::move(lifetimes), seed_).search(nodes, stop);
}

}  // namespace onchip::packing
