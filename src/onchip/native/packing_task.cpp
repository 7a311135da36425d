// The driver: bounds, heuristics for many buffers, attempts at one or several capacities, and conflicts.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "arena.hpp"
#include "packing.hpp"

namespace onchip::packing {

namespace {

constexpr std::int64_t searched_pairs = 1'000'000;  // above, one attempt takes many seconds
constexpr std::int64_t first_rounds = 60;           // of skylines and repairs before the exact search of many buffers
constexpr std::int64_t most_rounds = 2'000;         // of many buffers without a limit
constexpr std::int64_t looks_per_round = 45;        // of a repair at each buffer: as long as three skylines
constexpr std::int64_t nodes_per_round = 3;         // for each buffer: decisions that take as long as a round
constexpr Bytes most_alignment = Bytes{1} << 30;    // common to all buffers, for a first packing

void require_of_buffer(bool is_so, const char* what, std::size_t at) {
    if (!is_so) throw std::invalid_argument("buffer " + std::to_string(at) + " " + what);
}

bool is_plain(const Task& task) {
    const Bytes alignment = task.buffers.empty() ? 1 : task.buffers.front().alignment;
    return std::all_of(task.buffers.begin(), task.buffers.end(), [alignment](const Request& one) {
        return one.fixed == none && one.alignment == alignment && one.gaps.empty();
    });
}

// Returns each lifetime of a request as a separate buffer. A bound for these buffers holds for the requests, too.
arena::Lives lives_of(const Task& task) {
    arena::Lives columns;
    columns.alignment = 0;
    for (const Request& one : task.buffers) {
        columns.alignment = std::gcd(columns.alignment, one.alignment);
        for (const Interval& life : one.lives()) {
            columns.starts.push_back(life.start);
            columns.stops.push_back(life.stop);
            columns.sizes.push_back(one.size);
        }
    }
    columns.alignment = std::max<Bytes>(columns.alignment, 1);
    return columns;
}

// Places each buffer when it begins, above all fixed ones, as if it had no gaps and all had one alignment. Returns
// nothing if their common alignment is too large.
std::vector<Bytes> swept(const Task& task) {
    arena::Lives columns;
    Bytes base = 0;
    for (const Request& one : task.buffers) {
        if (one.fixed != none) base = std::max(base, one.fixed + one.size);
        if (columns.alignment <= most_alignment) columns.alignment = std::lcm(columns.alignment, one.alignment);
    }
    if (columns.alignment > most_alignment) return {};
    base = (base + columns.alignment - 1) / columns.alignment * columns.alignment;
    for (const Request& one : task.buffers) {
        if (one.fixed != none) continue;
        columns.starts.push_back(one.start);
        columns.stops.push_back(one.stop);
        columns.sizes.push_back(one.size);
    }
    const std::vector<Bytes> free = arena::sweep_within(arena::blocks_of(columns), most_units);
    std::vector<Bytes> offsets;
    auto next = free.begin();
    for (const Request& one : task.buffers) offsets.push_back(one.fixed == none ? base + *next++ : one.fixed);
    return offsets;
}

}  // namespace

std::vector<Interval> Request::lives() const {
    std::vector<Interval> found;
    Step begin = start;
    for (const Interval& gap : gaps) {
        if (begin < gap.start) found.push_back({begin, gap.start});
        begin = gap.stop;
    }
    if (begin < stop || found.empty()) found.push_back({begin, stop});
    return found;
}

void Task::check() const {
    if (buffers.size() > most_buffers) throw std::invalid_argument("there are more than a million buffers");
    if (capacity < 0 || capacity > most_units) throw std::invalid_argument("the capacity is not between 0 and 2^60");
    Bytes total = 0;
    for (std::size_t at = 0; at < buffers.size(); ++at) {
        const Request& one = buffers[at];
        require_of_buffer(-most_steps <= one.start && one.stop <= most_steps, "is live at a step beyond 2^62", at);
        require_of_buffer(one.start < one.stop, "ends before it starts", at);
        require_of_buffer(0 < one.size && one.size <= most_units / 4, "has a size that is not between 1 and 2^58", at);
        require_of_buffer(0 < one.alignment && one.alignment <= most_units / 4, "has no alignment between 1 and 2^58",
                          at);
        require_of_buffer(none <= one.fixed && one.fixed <= most_units / 4, "has a fixed offset above 2^58", at);
        require_of_buffer(one.fixed == none || one.fixed % one.alignment == 0,
                          "is fixed at an offset that is not aligned", at);
        require_of_buffer(one.size <= most_units / 4 - total && one.alignment <= most_units / 4 - total - one.size,
                          "makes the sizes and alignments more than 2^58 together", at);
        total += one.size + one.alignment;
        Step before = one.start;
        Step live = one.stop - one.start;
        for (const Interval& gap : one.gaps) {
            require_of_buffer(before <= gap.start && gap.start < gap.stop && gap.stop <= one.stop,
                              "has gaps that overlap or leave its lifetime", at);
            before = gap.stop;
            live -= gap.stop - gap.start;
        }
        require_of_buffer(live > 0, "has gaps in all of its lifetime", at);
    }
}

Task Task::part(const std::vector<Index>& kept) const {
    Task found{{}, capacity};
    for (const Index buffer : kept) found.buffers.push_back(buffers[buffer]);
    return found;
}

Task Task::clipped(Interval steps) const {
    Task found{{}, capacity};
    for (const Request& whole : buffers) {
        std::vector<Interval> lives;
        for (const Interval& life : whole.lives()) {
            const Interval left{std::max(life.start, steps.start), std::min(life.stop, steps.stop)};
            if (left.start < left.stop) lives.push_back(left);
        }
        if (lives.empty()) continue;
        Request& one = found.buffers.emplace_back(whole);
        one.start = lives.front().start;
        one.stop = lives.back().stop;
        one.gaps.clear();
        for (std::size_t at = 1; at < lives.size(); ++at) one.gaps.push_back({lives[at - 1].stop, lives[at].start});
    }
    return found;
}

Bytes least_arena(const Task& task) {
    Bytes least = task.buffers.empty() ? 0 : arena::most_live(lives_of(task));
    for (const Request& one : task.buffers) least = std::max(least, one.fixed == none ? 0 : one.fixed + one.size);
    return least;
}

Step fullest_step(const Task& task) {
    std::map<Step, Bytes> changes;
    for (const Request& one : task.buffers) {
        for (const Interval& life : one.lives()) {
            changes[life.start] += one.size;
            changes[life.stop] -= one.size;
        }
    }
    Bytes live = 0, most = 0;
    Step step = 0;
    for (const auto& [at, change] : changes) {
        live += change;
        if (live <= most) continue;
        most = live;
        step = at;
    }
    return step;
}

bool fixed_overlap(const Task& task) {
    std::vector<std::tuple<Step, bool, Bytes, Bytes>> changes;
    for (const Request& one : task.buffers) {
        if (one.fixed == none) continue;
        for (const Interval& life : one.lives()) {
            changes.emplace_back(life.start, true, one.fixed, one.fixed + one.size);
            changes.emplace_back(life.stop, false, one.fixed, one.fixed + one.size);
        }
    }
    std::sort(changes.begin(), changes.end());
    std::map<Bytes, Bytes> alive;  // from offset to end
    for (const auto& [step, begins, offset, end] : changes) {
        if (!begins) {
            alive.erase(offset);
            continue;
        }
        const auto above = alive.lower_bound(offset);
        if (above != alive.end() && above->first < end) return true;
        if (above != alive.begin() && std::prev(above)->second > offset) return true;
        alive.emplace(offset, end);
    }
    return false;
}

namespace {

class Solver {
public:
    Solver(const Task& task, const Effort& effort, const StopToken& stop, const Progress& progress)
        : task_(task), effort_(effort), stop_(stop), progress_(progress) {
        answer_.lower_bound = least_arena(task);
    }

    Answer solve() {
        if (answer_.lower_bound > task_.capacity || fixed_overlap(task_)) return infeasible();
        first_ = swept(task_);
        if (!first_.empty() || task_.buffers.empty()) offer(first_);
        if (is_done() || stop_.was_asked()) return ended();
        lifetimes_ = std::make_shared<Lifetimes>(task_.buffers);
        const bool are_many = lifetimes_->pairs() > searched_pairs;
        lower(std::max(effort_.repairs, are_many ? first_rounds : 0));
        const bool is_lowered = are_many && is_plain(task_) && effort_.minimize && answer_.arena != none;
        if (lifetimes_->pairs() > most_pairs || is_lowered) {
            while (rounds_ < most_rounds && !is_done() && !is_spent() && lower(1)) continue;
            return ended();
        }
        if (is_done() || stop_.was_asked()) return ended();
        return effort_.minimize ? minimized() : fitted();
    }

private:
    bool is_done() const {
        return answer_.arena != none && (!effort_.minimize || answer_.arena <= answer_.lower_bound);
    }
    bool is_spent() const { return stop_.was_asked() || answer_.nodes >= effort_.most_nodes; }

    // Runs the skyline fill and the repairs for `rounds` rounds. Returns false if they do not apply: they handle a
    // single alignment, and neither gaps nor fixed offsets.
    bool lower(std::int64_t rounds) {
        if (rounds == 0 || !is_plain(task_) || first_.empty()) return false;
        if (repair_ == nullptr) {
            const std::vector<arena::Block> blocks = arena::blocks_of(lives_of(task_));
            skylines_ = std::make_unique<arena::SkylineSearch>(blocks, first_, effort_.seed);
            repair_ = std::make_unique<arena::Repair>(blocks, first_, effort_.seed);
        }
        const Bytes target = effort_.minimize ? answer_.lower_bound : task_.capacity;
        const auto looks = looks_per_round * static_cast<std::int64_t>(task_.buffers.size());
        for (std::int64_t round = 0; round < rounds && !is_done() && !is_spent(); ++round, ++rounds_) {
            skylines_->fill(1, target, stop_);
            repair_->offer(skylines_->offsets());
            repair_->lower(looks, target, stop_);
            skylines_->offer(repair_->offsets());
            answer_.nodes += nodes_per_round * static_cast<std::int64_t>(task_.buffers.size());
            offer(repair_->offsets());
        }
        return true;
    }

    // Best fit by size and by lifetime, TFLite's order and TFLite Micro's.
    void place_in_orders() {
        const auto& buffers = task_.buffers;
        Step end = 0;
        for (const Request& one : buffers) end = std::max(end, one.stop);
        using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
        const auto place = [&](Placer::Gap gap, const std::function<Key(Index)>& key) {
            if (is_done() || stop_.was_asked()) return;
            std::vector<Index> order(buffers.size());
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](Index one, Index other) { return key(one) < key(other); });
            Placer placer(buffers, *lifetimes_);
            if (placer.place(order, most_units, gap)) offer(placer.offsets);
        };
        const auto smallest = Placer::Gap::smallest;
        place(smallest, [&](Index at) { return Key{-buffers[at].size, buffers[at].start, 0}; });
        place(smallest, [&](Index at) { return Key{buffers[at].start - buffers[at].stop, -buffers[at].size, 0}; });
        place(smallest, [&](Index at) {
            const bool lives_throughout = buffers[at].start == 0 && buffers[at].stop == end;
            return lives_throughout ? Key{0, 0, 0} : Key{1, -buffers[at].size, buffers[at].start};
        });
        place(Placer::Gap::lowest, [&](Index at) { return Key{-buffers[at].size, -at, 0}; });
    }

    Answer fitted() {
        Attempt attempt(task_, lifetimes_, effort_.seed);
        const Finding found = pursue(attempt, effort_.most_nodes);
        return found == Finding::unpackable ? infeasible() : ended();
    }

    // Attempts capacities close to the bound at first, then halfway, and at last just below the best arena. Skylines
    // and repairs take as long as the attempts.
    Answer minimized() {
        place_in_orders();
        Bytes above = 0;
        std::int64_t slice = quick_nodes, spent = 0;
        while (!is_done() && !is_spent()) {
            const Bytes highest = answer_.arena == none ? task_.capacity : answer_.arena - 1;
            const Bytes capacity = answer_.arena == none ? highest : std::min(answer_.lower_bound + above, highest);
            const std::int64_t before = answer_.nodes;
            const Finding found = pursue(attempt_at(capacity), capacity == highest ? slice : quick_nodes);
            spent += answer_.nodes - before;
            if (found == Finding::packed) {
                above /= 2;
            } else if (found == Finding::unpackable) {
                if (answer_.arena == none) return infeasible();
                raise_bound(capacity + 1);
                above = 2 * above + 1;
            } else if (capacity == highest) {
                above = 0;
                slice = std::min(2 * slice, most_units);
            } else {
                above = (capacity + highest + 1) / 2 - answer_.lower_bound;
            }
            while (spent > 0 && !is_done() && !is_spent()) {
                const std::int64_t begun = answer_.nodes;
                if (!lower(1)) break;
                spent -= answer_.nodes - begun;
            }
        }
        return ended();
    }

    // Attempts are kept while their capacity is open: each goes on where it stopped.
    Attempt& attempt_at(Bytes capacity) {
        std::erase_if(attempts_, [&](const auto& one) {
            return one.first < answer_.lower_bound || (answer_.arena != none && one.first >= answer_.arena) ||
                   (attempts_.size() > 4 && one.first != capacity);
        });
        auto& attempt = attempts_[capacity];
        if (attempt == nullptr) {
            Task task = task_;
            task.capacity = capacity;
            attempt = std::make_unique<Attempt>(std::move(task), lifetimes_, effort_.seed);
        }
        return *attempt;
    }

    Finding pursue(Attempt& attempt, std::int64_t nodes) {
        const std::int64_t before = attempt.nodes();
        const Finding found = attempt.go_on(std::min(nodes, effort_.most_nodes), stop_);
        answer_.nodes += std::max<std::int64_t>(1, attempt.nodes() - before);
        if (found == Finding::packed) offer(attempt.offsets());
        return found;
    }

    // The lowest arena is the end of a buffer at a multiple of the unit.
    void raise_bound(Bytes least) {
        const Scale scale(task_.buffers);
        Bytes lowest = most_units;
        for (const Request& one : task_.buffers) {
            const Bytes below = std::max<Bytes>(least - one.size, 0);
            lowest = std::min(lowest, (below + scale.unit - 1) / scale.unit * scale.unit + one.size);
        }
        answer_.lower_bound = std::min(std::max({answer_.lower_bound, least, lowest}), answer_.arena);
        report();
    }

    void offer(const std::vector<Bytes>& offsets) {
        Bytes arena = 0;
        for (std::size_t at = 0; at < offsets.size(); ++at) {
            arena = std::max(arena, offsets[at] + task_.buffers[at].size);
        }
        if (arena > task_.capacity || (answer_.arena != none && arena >= answer_.arena)) return;
        answer_.arena = arena;
        answer_.offsets = offsets;
        report();
    }

    void report() const {
        if (progress_) progress_(answer_.arena, answer_.lower_bound, answer_.nodes);
    }

    Answer infeasible() {
        answer_.verdict = Verdict::infeasible;
        answer_.lower_bound = std::max(answer_.lower_bound, task_.capacity + 1);
        return answer_;
    }

    Answer ended() {
        answer_.verdict = answer_.arena == none                  ? Verdict::unknown
                          : answer_.arena == answer_.lower_bound ? Verdict::optimal
                                                                 : Verdict::feasible;
        return answer_;
    }

    const Task& task_;
    const Effort& effort_;
    const StopToken& stop_;
    const Progress& progress_;
    std::vector<Bytes> first_;  // the packing of the sweep
    std::shared_ptr<Lifetimes> lifetimes_;
    std::unique_ptr<arena::SkylineSearch> skylines_;
    std::unique_ptr<arena::Repair> repair_;
    std::int64_t rounds_ = 0;
    std::map<Bytes, std::unique_ptr<Attempt>> attempts_;
    Answer answer_;
};

}  // namespace

Answer solve(const Task& task, const Effort& effort, const StopToken& stop, const Progress& progress) {
    task.check();
    return Solver(task, effort, stop, progress).solve();
}

// Returns the buffers alive at the step of the greatest load.
static std::vector<Index> fullest(const Task& task) {
    const Step step = fullest_step(task);
    std::vector<Index> alive;
    for (Index buffer = 0; buffer < static_cast<Index>(task.buffers.size()); ++buffer) {
        for (const Interval& life : task.buffers[buffer].lives()) {
            if (life.start <= step && step < life.stop) alive.push_back(buffer);
        }
    }
    return alive;
}

// Removes halves, quarters, ... and at last single buffers, as long as the rest provably does not fit.
Conflict conflict_of(const Task& task, const Effort& effort, const StopToken& stop) {
    Effort fit = effort;
    fit.minimize = false;
    Conflict found;
    found.buffers.resize(task.buffers.size());
    std::iota(found.buffers.begin(), found.buffers.end(), 0);
    const std::vector<Index> alive = fullest(task);
    const Task part = task.part(alive);
    if (!alive.empty() && least_arena(part) > task.capacity) found.buffers = alive;
    for (std::size_t chunk = std::max<std::size_t>(1, found.buffers.size() / 2); chunk > 0; chunk /= 2) {
        found.is_irreducible = true;
        for (std::size_t at = 0; at < found.buffers.size();) {
            std::vector<Index> rest(found.buffers.begin(), found.buffers.begin() + static_cast<std::ptrdiff_t>(at));
            const std::size_t next = std::min(at + chunk, found.buffers.size());
            rest.insert(rest.end(), found.buffers.begin() + static_cast<std::ptrdiff_t>(next), found.buffers.end());
            const Verdict verdict = stop.was_asked() ? Verdict::unknown : solve(task.part(rest), fit, stop, {}).verdict;
            if (verdict == Verdict::infeasible) {
                found.buffers = std::move(rest);
            } else {
                found.is_irreducible = found.is_irreducible && verdict != Verdict::unknown;
                at = next;
            }
        }
    }
    return found;
}

}  // namespace onchip::packing
