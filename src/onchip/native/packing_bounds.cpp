// Bounds after a decision: floors, unsupported buffers, known failures of parts; and the choice of the next section.

#include <algorithm>
#include <limits>

#include "packing.hpp"
#include "words.hpp"

namespace onchip::packing {

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

}  // namespace onchip::packing
