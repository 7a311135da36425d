// The exact packing search and its bounds.

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "packing.hpp"
#include "words.hpp"

namespace onchip::packing {

// Bounds after a decision: floors, unsupported buffers, known failures of parts; and the choice of the next section.

namespace {

constexpr Units far = Units{1} << 62;
constexpr std::uint64_t hash_step = 0x9E3779B97F4A7C15U;

}  // namespace

// Lists the unplaced buffers of the frame's part.
Search::Listed Search::list_rest(const Frame& frame) {
    const auto begin = static_cast<Index>(lists_.size());
    for (Index at = frame.buffers.begin; at < frame.buffers.end; ++at) {
        if (!state_[lists_[at]].is_placed) lists_.push_back(lists_[at]);
    }
    return {begin, static_cast<Index>(lists_.size())};
}

// Raises passed-over buffers to the lowest top that can still support them. Returns false if a buffer has none.
//
// A passed-over buffer that all its neighbours leave room for would only sink. Fixed buffers cannot sink.
bool Search::raise_passed(Listed rest) {
    bool is_changed = true;
    while (is_changed) {
        is_changed = false;
        for (Index at = rest.begin; at < rest.end; ++at) {
            const Index buffer = lists_[at];
            BufferState& state = state_[buffer];
            const Buffer& one = problem_.buffers[buffer];
            if (state.low == state.support || one.fixed != none) continue;
            Units lowest = far, lowest_top = far;
            for (Index other : one.neighbours) {
                if (state_[other].is_placed) continue;
                lowest = std::min(lowest, state_[other].low);
                lowest_top = std::min(lowest_top, state_[other].low + problem_.buffers[other].size);
            }
            lowest_top = lowest_top == far ? far : one.aligned(lowest_top);
            if (state.support + one.size <= lowest || lowest_top > one.last) {
                blame_life(one);
                return false;
            }
            if (lowest_top > state.low) {
                note(buffer);
                state.low = lowest_top;
                is_changed = true;
            }
        }
    }
    return true;
}

// Adds the blame of one section, split over all sections of a buffer.
void Search::blame_life(const Buffer& buffer) {
    const double share = 1.0 / (buffer.stop - buffer.first);
    for_each_section(buffer, [share](SectionState& section) { section.blame += share; });
}

// Insertion sort: little has changed since the last time.
void Search::sort_by_low(Listed rest) {
    for (Index at = rest.begin + 1; at < rest.end; ++at) {
        const Index buffer = lists_[at];
        const Units low = state_[buffer].low;
        Index slot = at;
        for (; slot > rest.begin && state_[lists_[slot - 1]].low > low; --slot) lists_[slot] = lists_[slot - 1];
        lists_[slot] = buffer;
    }
}

Sections Search::extent(Listed buffers) const {
    Sections found{std::numeric_limits<Index>::max(), 0};
    for (Index at = buffers.begin; at < buffers.end; ++at) {
        const Buffer& one = problem_.buffers[lists_[at]];
        found = {std::min(found.first, one.first), std::max(found.stop, one.stop)};
    }
    return found;
}

Index Search::next_without_floor(Index section) {
    Index root = section;
    while (sections_[root].link != root) root = sections_[root].link;
    while (sections_[section].link != root) {
        const Index next = sections_[section].link;
        sections_[section].link = root;
        section = next;
    }
    return root;
}

// Finds the lowest remaining offset in each section. Returns true if the unplaced buffers fit above it. The list is
// sorted by `low`.
bool Search::set_floors(Listed rest) {
    const Sections all = extent(rest);
    for (Index section = all.first; section <= all.stop; ++section) sections_[section].link = section;
    if (has_gaps_) {  // in some sections all buffers may have gaps
        for (Index section = all.first; section < all.stop; ++section) sections_[section].floor = far;
    }
    for (Index at = rest.begin; at < rest.end; ++at) {
        const Buffer& one = problem_.buffers[lists_[at]];
        const Units floor = state_[lists_[at]].low;
        if (floor > one.last) {
            blame_life(one);
            return false;
        }
        for (const Sections& life : one.lives) {
            if (!set_floor(life, floor)) return false;
        }
    }
    return true;
}

// Sets the floor of the sections of a life that have none. Returns false if a section cannot hold its buffers above it.
bool Search::set_floor(const Sections& life, Units floor) {
    for (Index section = next_without_floor(life.first); section < life.stop;
         section = next_without_floor(section + 1)) {
        SectionState& state = sections_[section];
        if (floor + state.total > problem_.limits[section]) {
            state.blame += 1.0;
            return false;
        }
        state.floor = floor;
        state.link = section + 1;
    }
    return true;
}

// Splits the list into parts without a common section. A gap does not split the part of its buffer. Returns the first
// part of their chain.
Index Search::split(Listed rest) {
    const Sections all = extent(rest);
    for (Index section = all.first; section < all.stop; ++section) sections_[section].link = section;
    for (Index at = rest.begin; at < rest.end; ++at) {
        const Buffer& one = problem_.buffers[lists_[at]];
        sections_[one.first].link = std::max(sections_[one.first].link, one.stop);
    }
    Index head = none;
    Index section = all.first;
    while (section < all.stop) {
        Index stop = sections_[section].link;
        for (Index inner = section; inner < stop; ++inner) stop = std::max(stop, sections_[inner].link);
        if (stop > section) head = add_part(rest, {section, stop}, head);
        section = std::max(stop, section + 1);
    }
    return head;
}

// Adds the buffers that begin in these sections as a part, in front of the chain.
Index Search::add_part(Listed rest, Sections sections, Index next) {
    Part part;
    part.buffers.begin = static_cast<Index>(lists_.size());
    for (Index at = rest.begin; at < rest.end; ++at) {
        const Index first = problem_.buffers[lists_[at]].first;
        if (sections.first <= first && first < sections.stop) lists_.push_back(lists_[at]);
    }
    part.buffers.end = static_cast<Index>(lists_.size());
    part.next = next;
    part.owner = static_cast<Index>(frames_.size()) - 1;
    parts_.push_back(part);
    return static_cast<Index>(parts_.size()) - 1;
}

bool Search::any_has_failed_before(Index head) {
    for (Index part = head; part != none; part = parts_[part].next) {
        if (has_failed_before(parts_[part])) return true;
    }
    return false;
}

// Returns true if this part, with these bounds, is known to be infeasible (by a 128-bit hash, which the part keeps).
bool Search::has_failed_before(Part& part) const {
    part.low_key = part.high_key = 0;
    for (Index at = part.buffers.begin; at < part.buffers.end; ++at) {
        const Index buffer = lists_[at];
        const auto support = static_cast<std::uint64_t>(state_[buffer].support);
        std::uint64_t word = mixed((static_cast<std::uint64_t>(buffer) + 1) * hash_step + support);
        word = mixed(word + static_cast<std::uint64_t>(state_[buffer].low));
        part.low_key += word;
        part.high_key += mixed(word + hash_step);
    }
    return failures_[part.low_key & (failures_.size() - 1)] == Key{part.low_key, part.high_key};
}

Search::Key& Search::remembered(std::uint64_t low_key) {
    return failures_[low_key & (failures_.size() - 1)];
}

// Returns the section in a valley with the fewest choices relative to its failures.
Index Search::choose_section(Listed buffers) {
    const Sections all = extent(buffers);
    has_gaps_ ? mark_lowest(all) : mark_valleys(all);
    count_choices(buffers, all);
    Index best = none;
    double best_score = std::numeric_limits<double>::max();
    Index choices = 0;
    for (Index section = all.first; section < all.stop; ++section) {
        const SectionState& state = sections_[section];
        choices += state.choices;
        if (!state.is_valley) continue;
        const bool has_slack = state.floor + state.total < problem_.limits[section];
        const bool is_forced = choices == 1 && !has_slack;
        const double score = is_forced ? -1.0 : (2 * choices + (has_slack ? 1 : 0)) / state.blame;
        if (score < best_score) {
            best = section;
            best_score = score;
        }
    }
    return best;
}

// Marks runs of equal floors between higher ones.
void Search::mark_valleys(Sections all) {
    Index section = all.first;
    while (section < all.stop) {
        const Units floor = sections_[section].floor;
        Index stop = section + 1;
        while (stop < all.stop && sections_[stop].floor == floor) ++stop;
        const bool falls = section == all.first || sections_[section - 1].floor > floor;
        const bool rises = stop == all.stop || sections_[stop].floor > floor;
        for (; section < stop; ++section) sections_[section].is_valley = falls && rises;
    }
}

// Marks the sections of the lowest floor. A buffer with gaps may live in several valleys, and another buffer may lie
// below it in the lower one; below the lowest floor there is nothing.
void Search::mark_lowest(Sections all) {
    Units lowest = far;
    for (Index section = all.first; section < all.stop; ++section) {
        lowest = std::min(lowest, sections_[section].floor);
    }
    for (Index section = all.first; section < all.stop; ++section) {
        sections_[section].is_valley = sections_[section].floor == lowest;
    }
}

// Counts the buffers at the floor of a valley, as differences between sections.
void Search::count_choices(Listed buffers, Sections all) {
    for (Index section = all.first; section <= all.stop; ++section) sections_[section].choices = 0;
    for (Index at = buffers.begin; at < buffers.end; ++at) {
        const Buffer& one = problem_.buffers[lists_[at]];
        for (const Sections& life : one.lives) {
            SectionState& first = sections_[life.first];
            if (!first.is_valley || state_[lists_[at]].low != first.floor) continue;
            ++first.choices;
            --sections_[life.stop].choices;
        }
    }
}

// The decision path: frames, and the changes of each decision with their undo.

namespace {

constexpr std::size_t failures_per_buffer = 1 << 10;
constexpr std::size_t most_failures = 1 << 19;

void require(bool is_so, const char* what, std::size_t at) {
    if (!is_so) throw std::invalid_argument(std::string(what) + " (entry " + std::to_string(at) + ")");
}

}  // namespace

void Problem::check() const {
    require(buffers.size() <= most_buffers, "there are more than a million buffers", buffers.size());
    const auto count = static_cast<Index>(buffers.size());
    Units total = 0;
    for (std::size_t at = 0; at < buffers.size(); ++at) {
        const Buffer& one = buffers[at];
        require(0 <= one.first && one.first < one.stop, "a buffer lives in no section", at);
        require(one.stop <= static_cast<Index>(limits.size()), "a buffer lives in a section without a limit", at);
        require(0 < one.size && one.size <= most_units - total, "a size is below 1, or all make more than 2^60", at);
        total += one.size;
        require(one.last <= most_units, "an offset is above 2^60", at);
        require(none <= one.fixed && one.fixed <= most_units, "a fixed offset is not between -1 and 2^60", at);
        require(none <= one.twin && one.twin < static_cast<Index>(at), "a twin is no earlier buffer", at);
        require(1 <= one.alignment && one.alignment <= most_units, "an alignment is not between 1 and 2^60", at);
        require(one.fixed == none || one.fixed % one.alignment == 0, "a fixed offset is not aligned", at);
        Index before = one.first - 1;  // lives are in order, with gaps between them
        for (const Sections& life : one.lives) {
            require(before < life.first && life.first < life.stop, "the lives of a buffer are not in order", at);
            before = life.stop;
        }
        const bool are_whole = one.lives.empty() || (one.lives.front().first == one.first && before == one.stop);
        require(are_whole, "the lives of a buffer do not begin and end with it", at);
        for (Index other : one.neighbours) {
            require(0 <= other && other < count && other != static_cast<Index>(at), "a neighbour is no other buffer",
                    at);
        }
    }
    for (std::size_t at = 0; at < limits.size(); ++at) {
        require(none <= limits[at] && limits[at] <= most_units, "a limit is not between -1 and 2^60", at);
    }
}

Search::Search(Problem problem) : problem_(std::move(problem)) {
    problem_.check();
    for (Buffer& one : problem_.buffers) {
        if (one.fixed != none) one.last = std::min(one.last, one.fixed);
        if (one.lives.empty()) one.lives.push_back({one.first, one.stop});
        has_gaps_ |= one.lives.size() > 1;
    }
    state_.resize(problem_.buffers.size());
    sections_.resize(problem_.limits.size() + 1);
    const std::size_t wanted = std::min(failures_per_buffer * problem_.buffers.size(), most_failures);
    failures_.resize(std::bit_ceil(std::max<std::size_t>(wanted, 1)));
}

std::vector<Units> Search::offsets() const {
    std::vector<Units> found;
    for (const BufferState& one : state_) found.push_back(one.low);
    return found;
}

Index Search::hardest_section() const {
    const auto is_blamed_less = [](const SectionState& one, const SectionState& other) {
        return one.blame < other.blame;
    };
    return static_cast<Index>(std::max_element(sections_.begin(), sections_.end() - 1, is_blamed_less) -
                              sections_.begin());
}

Outcome Search::run(const std::vector<Index>& rank, std::int64_t most_nodes, const StopToken& stop) {
    if (rank.size() != state_.size()) throw std::invalid_argument("there is not one rank for each buffer");
    rank_ = rank;
    reset();
    if (!begin()) return Outcome::exhausted;
    while (!frames_.empty()) {
        if (nodes_ >= most_nodes || stop.is_asked()) return Outcome::stopped;
        if (frames_.back().decided != none) take_back(frames_.back());
        if (!decide(frames_.back())) {
            step_back();
        } else if (!step_on()) {
            return Outcome::found;
        }
    }
    return Outcome::exhausted;
}

void Search::reset() {
    std::fill(state_.begin(), state_.end(), BufferState{});
    for (SectionState& one : sections_) one.total = 0;
    lists_.clear();
    for (Index buffer = 0; buffer < static_cast<Index>(state_.size()); ++buffer) {
        lists_.push_back(buffer);
        const Buffer& one = problem_.buffers[buffer];
        if (one.fixed != none) state_[buffer].low = one.fixed;
        for_each_section(one, [&](SectionState& section) { section.total += one.size; });
    }
    trail_.clear();
    parts_.clear();
    frames_.clear();
    nodes_ = 0;
}

// Opens the first frame. Returns false if no packing exists and no decision is needed to see it.
bool Search::begin() {
    const Listed all{0, static_cast<Index>(lists_.size())};
    sort_by_low(all);
    if (!set_floors(all)) return false;
    const Index head = split(all);
    if (any_has_failed_before(head)) return false;
    open_frame(head);
    return true;
}

// Makes the next decision of the frame: one buffer at the floor; at last, none. Returns false if all are made.
bool Search::decide(Frame& frame) {
    Index at = frame.next_choice;
    while (at < frame.choices.end && waits_for_twin(lists_[at])) ++at;
    if (at > frame.choices.end) return false;
    ++nodes_;
    frame.next_choice = at + 1;
    frame.noted_before = trail_.size();
    frame.lists_before = lists_.size();
    frame.parts_before = parts_.size();
    if (at < frame.choices.end) {
        frame.decided = lists_[at];
        place(frame.decided);
    } else {
        frame.decided = passed;
        pass_over(frame);
    }
    return true;
}

bool Search::waits_for_twin(Index buffer) const {
    const Index twin = problem_.buffers[buffer].twin;
    return twin != none && !state_[twin].is_placed;
}

// Places the buffer at its lowest offset, and raises its neighbours above it.
void Search::place(Index buffer) {
    const Buffer& one = problem_.buffers[buffer];
    const Units top = state_[buffer].low + one.size;
    state_[buffer].is_placed = true;
    for_each_section(one, [&](SectionState& section) { section.total -= one.size; });
    for (Index other : one.neighbours) {
        BufferState& raised = state_[other];
        if (!raised.is_placed && raised.support < top) {
            note(other);
            raised.support = problem_.buffers[other].aligned(top);
            raised.low = std::max(raised.low, raised.support);
        }
    }
}

// Excludes all of the frame's choices from the floor.
void Search::pass_over(const Frame& frame) {
    for (Index at = frame.choices.begin; at < frame.choices.end; ++at) {
        note(lists_[at]);
        state_[lists_[at]].low += problem_.buffers[lists_[at]].alignment;
    }
}

// Saves a buffer's bounds before a decision changes them for the first time.
void Search::note(Index buffer) {
    BufferState& one = state_[buffer];
    if (one.noted == nodes_) return;
    one.noted = nodes_;
    trail_.push_back({buffer, one.support, one.low});
}

void Search::take_back(Frame& frame) {
    if (frame.decided >= 0) {
        const Buffer& one = problem_.buffers[frame.decided];
        state_[frame.decided].is_placed = false;
        for_each_section(one, [&](SectionState& section) { section.total += one.size; });
    }
    for (std::size_t at = frame.noted_before; at < trail_.size(); ++at) {
        state_[trail_[at].buffer].support = trail_[at].support;
        state_[trail_[at].buffer].low = trail_[at].low;
    }
    trail_.resize(frame.noted_before);
    lists_.resize(frame.lists_before);
    parts_.resize(frame.parts_before);
    frame.decided = none;
}

// Opens the next frame after a decision if the bounds allow it. Returns false if all buffers are placed.
bool Search::step_on() {
    const Index pending = frames_.back().pending;
    const Listed rest = list_rest(frames_.back());
    if (rest.is_empty()) {
        if (pending != none) open_frame(pending);
        return pending != none;
    }
    if (!raise_passed(rest)) return true;
    sort_by_low(rest);
    if (!set_floors(rest)) return true;
    const Index head = split(rest);
    if (any_has_failed_before(head)) return true;
    Index last = head;
    while (parts_[last].next != none) last = parts_[last].next;
    parts_[last].next = pending;
    open_frame(head);
    return true;
}

// Backjumps from an exhausted frame to the last decision that affected its part.
void Search::step_back() {
    const Frame& exhausted = frames_.back();
    remembered(exhausted.low_key) = {exhausted.low_key, exhausted.high_key};
    const Index blamed = exhausted.blamed;
    frames_.pop_back();
    while (static_cast<Index>(frames_.size()) - 1 > blamed) {
        take_back(frames_.back());
        frames_.pop_back();
    }
}

void Search::open_frame(Index at) {
    const Part part = parts_[at];
    Frame frame;
    frame.buffers = part.buffers;
    frame.choices = list_choices(part, choose_section(part.buffers));
    frame.next_choice = frame.choices.begin;
    frame.blamed = part.owner;
    frame.pending = part.next;
    frame.low_key = part.low_key;
    frame.high_key = part.high_key;
    frames_.push_back(frame);
}

// Lists the candidates for the floor of the section, by rank.
Search::Listed Search::list_choices(const Part& part, Index section) {
    const auto begin = static_cast<Index>(lists_.size());
    for (Index at = part.buffers.begin; at < part.buffers.end; ++at) {
        const Index buffer = lists_[at];
        const Buffer& one = problem_.buffers[buffer];
        if (state_[buffer].low != sections_[section].floor) continue;
        const auto is_alive = [section](const Sections& life) { return life.first <= section && section < life.stop; };
        if (std::none_of(one.lives.begin(), one.lives.end(), is_alive)) continue;
        auto slot = static_cast<Index>(lists_.size());
        lists_.push_back(buffer);
        for (; slot > begin && rank_[lists_[slot - 1]] > rank_[buffer]; --slot) lists_[slot] = lists_[slot - 1];
        lists_[slot] = buffer;
    }
    return {begin, static_cast<Index>(lists_.size())};
}

}  // namespace onchip::packing
