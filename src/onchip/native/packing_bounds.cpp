// What a decision rules out: floors, what rests on nothing, parts that have failed before; and where to decide next.

#include <algorithm>
#include <limits>

#include "packing.hpp"
#include "words.hpp"

namespace onchip::packing {

namespace {

constexpr Units far = Units{1} << 62;
constexpr std::uint64_t hash_step = 0x9E3779B97F4A7C15U;

}  // namespace

// What is left of the frame's part.
Search::Listed Search::list_rest(const Frame& frame) {
    const auto begin = static_cast<Index>(lists_.size());
    for (Index at = frame.buffers.begin; at < frame.buffers.end; ++at) {
        if (!state_[lists_[at]].is_placed) lists_.push_back(lists_[at]);
    }
    return {begin, static_cast<Index>(lists_.size())};
}

// Raises those passed over to the lowest top that they can still rest on; false where one can rest on none.
//
// One that all its neighbours leave room for, where it was passed over, would only sink. A fixed buffer cannot sink.
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

// All sections of a buffer together are to blame as much as one section.
void Search::blame_life(const Buffer& buffer) {
    const double share = 1.0 / (buffer.stop - buffer.first);
    for (Index section = buffer.first; section < buffer.stop; ++section) sections_[section].blame += share;
}

// By insertion: little has changed since the last time.
void Search::sort_by_low(Listed rest) {
    for (Index at = rest.begin + 1; at < rest.end; ++at) {
        const Index buffer = lists_[at];
        const Units low = state_[buffer].low;
        Index slot = at;
        for (; slot > rest.begin && state_[lists_[slot - 1]].low > low; --slot) lists_[slot] = lists_[slot - 1];
        lists_[slot] = buffer;
    }
}

Search::Sections Search::extent(Listed buffers) const {
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

// Finds the lowest offset left in each section; whether what is left fits above it. The list is sorted by `low`.
bool Search::set_floors(Listed rest) {
    const Sections all = extent(rest);
    for (Index section = all.first; section <= all.stop; ++section) sections_[section].link = section;
    for (Index at = rest.begin; at < rest.end; ++at) {
        const Buffer& one = problem_.buffers[lists_[at]];
        const Units floor = state_[lists_[at]].low;
        if (floor > one.last) {
            blame_life(one);
            return false;
        }
        for (Index section = next_without_floor(one.first); section < one.stop;
             section = next_without_floor(section + 1)) {
            SectionState& state = sections_[section];
            if (floor + state.total > problem_.limits[section]) {
                state.blame += 1.0;
                return false;
            }
            state.floor = floor;
            state.link = section + 1;
        }
    }
    return true;
}

// Divides the list into parts with no section in common; returns the first of their chain.
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

// What begins in these sections, before the other parts of the chain.
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

// Whether this part, with these bounds, is known to have no packing (by a hash of 128 bits, which the part keeps).
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

// The section, in a valley, with the fewest choices for the failures that it has seen.
Index Search::choose_section(Listed buffers) {
    const Sections all = extent(buffers);
    mark_valleys(all);
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

// Runs of equal floors between higher ones.
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

// As differences between sections: how many buffers lie on the floor of a valley.
void Search::count_choices(Listed buffers, Sections all) {
    for (Index section = all.first; section <= all.stop; ++section) sections_[section].choices = 0;
    for (Index at = buffers.begin; at < buffers.end; ++at) {
        const Buffer& one = problem_.buffers[lists_[at]];
        const SectionState& first = sections_[one.first];
        if (first.is_valley && state_[lists_[at]].low == first.floor) {
            ++sections_[one.first].choices;
            --sections_[one.stop].choices;
        }
    }
}

}  // namespace onchip::packing
