// The exact packing search: branches on the buffer at the floor of one section.
//
// docs/packing.md proves completeness. `memory/allocate/exact.py` builds the tables and restarts the search;
// `tests/oracles` hold a plain version.
//
// Terms. Buffers are numbered from 0. A section is a maximal set of buffers that are alive at once; a buffer is alive
// in the sections [first, stop), except in its gaps. Sizes and offsets are in units that divide every size.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "stop.hpp"

namespace onchip::packing {

using Units = std::int64_t;
using Index = std::int32_t;

inline constexpr Index none = -1;
inline constexpr std::size_t most_buffers = 1 << 20;
inline constexpr Units most_units = Units{1} << 60;

// Sections [first, stop).
struct Sections {
    Index first = 0;
    Index stop = 0;

    friend bool operator==(const Sections&, const Sections&) = default;
};

// A buffer of the problem. Its neighbours share at least one section with it.
struct Buffer {
    Index first = 0;
    Index stop = 0;
    Units size = 0;
    Units last = 0;      // its highest legal offset
    Units fixed = none;  // the only legal offset, or none
    Index twin = none;   // a buffer of equal lifetime, size and alignment that is placed first
    std::vector<Index> neighbours;
    Units alignment = 1;
    std::vector<Sections> lives{};  // in order, if the lifetime has gaps; else empty

    Units aligned(Units offset) const {
        return alignment == 1 ? offset : (offset + alignment - 1) / alignment * alignment;
    }
};

// The height of a section is at most its limit.
struct Problem {
    std::vector<Buffer> buffers;
    std::vector<Units> limits;

    // Throws std::invalid_argument, with the entry, if the problem is invalid.
    void check() const;
};

enum class Outcome { found, exhausted, stopped };

class Search {
public:
    explicit Search(Problem problem);

    // Restarts, with buffers of low rank first. Keeps the blame of sections and the known failures.
    Outcome run(const std::vector<Index>& rank, std::int64_t most_nodes, const StopToken& stop);

    // Number of decisions in the last run.
    std::int64_t nodes() const { return nodes_; }

    // By buffer, in units; a packing if the last run found one.
    std::vector<Units> offsets() const;

    // The section with the most blame over all runs; the first of several.
    Index hardest_section() const;

private:
    // The state of a buffer. `support` is the top of its highest placed neighbour, `low` its least possible offset;
    // they are equal unless the buffer was passed over.
    struct BufferState {
        Units support = 0;
        Units low = 0;
        std::int64_t noted = 0;  // node in which its bounds were last saved
        bool is_placed = false;
    };

    // `total`: sizes not yet placed; `blame`: failures found here, plus 1.
    struct SectionState {
        Units total = 0;
        Units floor = 0;
        Index link = 0;     // next section without a floor; in `split`, the end of a part
        Index choices = 0;  // as differences between sections
        bool is_valley = false;
        double blame = 1.0;
    };

    // A half-open range of entries of `lists_`.
    struct Listed {
        Index begin = 0;
        Index end = 0;
        bool is_empty() const { return begin == end; }
    };

    struct Noted {
        Index buffer = none;
        Units support = 0;
        Units low = 0;
    };

    // The rest of the packing in sections that share no buffer with others.
    struct Part {
        Listed buffers;
        Index next = none;   // the part packed after it
        Index owner = none;  // the frame whose decision created it
        std::uint64_t low_key = 0;
        std::uint64_t high_key = 0;
    };

    // A decision on the path: the choice at the floor of a section; at last, no choice.
    struct Frame {
        Listed buffers;
        Listed choices;
        Index next_choice = 0;
        Index decided = none;  // a buffer, none or `passed`
        Index blamed = none;   // the frame to backjump to after failure
        Index pending = none;  // the part packed after this one
        std::uint64_t low_key = 0;
        std::uint64_t high_key = 0;
        std::size_t noted_before = 0;
        std::size_t lists_before = 0;
        std::size_t parts_before = 0;
    };

    using Key = std::pair<std::uint64_t, std::uint64_t>;

    static constexpr Index passed = -2;

    // packing_search.cpp
    void reset();
    bool begin();
    bool decide(Frame& frame);
    void place(Index buffer);
    void pass_over(const Frame& frame);
    void take_back(Frame& frame);
    void note(Index buffer);
    bool step_on();
    void step_back();
    void open_frame(Index part);
    Listed list_choices(const Part& part, Index section);
    bool waits_for_twin(Index buffer) const;

    // packing_bounds.cpp
    Listed list_rest(const Frame& frame);
    bool raise_passed(Listed rest);
    void sort_by_low(Listed rest);
    bool set_floors(Listed rest);
    bool set_floor(const Sections& life, Units floor);
    Index next_without_floor(Index section);
    void blame_life(const Buffer& buffer);
    Index split(Listed rest);
    Index add_part(Listed rest, Sections sections, Index next);
    bool has_failed_before(Part& part) const;
    bool any_has_failed_before(Index head);
    Index choose_section(Listed buffers);
    void mark_valleys(Sections sections);
    void mark_lowest(Sections sections);
    template <typename Visit>
    void for_each_section(const Buffer& buffer, Visit visit);
    void count_choices(Listed buffers, Sections sections);
    Sections extent(Listed buffers) const;
    Key& remembered(std::uint64_t low_key);

    Problem problem_;
    std::vector<Index> rank_;
    std::vector<BufferState> state_;
    std::vector<SectionState> sections_;  // number of sections + 1
    std::vector<Index> lists_;
    std::vector<Noted> trail_;
    std::vector<Part> parts_;
    std::vector<Frame> frames_;
    std::vector<Key> failures_;  // size: a power of two; later failures overwrite
    std::int64_t nodes_ = 0;
    bool has_gaps_ = false;
};

template <typename Visit>
void Search::for_each_section(const Buffer& buffer, Visit visit) {
    for (const Sections& life : buffer.lives) {
        for (Index section = life.first; section < life.stop; ++section) visit(sections_[section]);
    }
}

}  // namespace onchip::packing
