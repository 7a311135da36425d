// The exact packing search: what lies on the floor of one section, decided again and again.
//
// Why nothing is missed is argued in docs/packing.md. The search is the one of `memory/allocate/exact.py`,
// which makes the tables and restarts it; `tests/oracles` hold a plain version beside it.
//
// Words. Buffers are numbered from 0 on. A section is a largest set of buffers that live at once; a buffer lives in
// the sections [first, stop). Sizes and offsets are in units of which every size is a multiple.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "stop.hpp"

namespace onchip::packing {

using Units = std::int64_t;
using Index = std::int32_t;

inline constexpr Index none = -1;
inline constexpr Units most_units = Units{1} << 60;

// A buffer as the problem gives it. Its neighbours live in one of its sections at least.
struct Buffer {
    Index first = 0;
    Index stop = 0;
    Units size = 0;
    Units last = 0;      // its highest legal offset
    Units fixed = none;  // the only legal offset, or none if any will do
    Index twin = none;   // one with the same life and size, which is placed before it
    std::vector<Index> neighbours;
};

// No section may be filled above its limit.
struct Problem {
    std::vector<Buffer> buffers;
    std::vector<Units> limits;

    // Throws std::invalid_argument, saying which entry, for what no packing problem has.
    void check() const;
};

enum class Outcome { found, exhausted, stopped };

class Search {
public:
    explicit Search(Problem problem);

    // Begins anew, trying buffers of low rank first; what sections are to blame for and what has failed stays known.
    Outcome run(const std::vector<Index>& rank, std::int64_t most_nodes, const StopToken& stop);

    // Decisions of the last run.
    std::int64_t nodes() const { return nodes_; }

    // By buffer, in units; of a packing if the last run found one.
    std::vector<Units> offsets() const;

    // The section that was most to blame in all runs, the first of equals.
    Index hardest_section() const;

private:
    // What is decided of a buffer so far. `support` is the top of its highest placed neighbour, `low` the least offset
    // that is not ruled out; the two are equal unless the buffer was passed over.
    struct BufferState {
        Units support = 0;
        Units low = 0;
        std::int64_t noted = 0;  // the node in which its bounds were noted last
        bool is_placed = false;
    };

    // `total` is of the sizes yet to be placed; `blame` counts the failures that were found here, from 1 on.
    struct SectionState {
        Units total = 0;
        Units floor = 0;
        Index link = 0;     // to the next section without a floor; while parts are made, how far they reach
        Index choices = 0;  // differences between sections
        bool is_valley = false;
        double blame = 1.0;
    };

    // A run of entries of `lists_`, half open.
    struct Listed {
        Index begin = 0;
        Index end = 0;
        bool is_empty() const { return begin == end; }
    };

    struct Sections {
        Index first = 0;
        Index stop = 0;
    };

    struct Noted {
        Index buffer = none;
        Units support = 0;
        Units low = 0;
    };

    // What is left to pack in some sections that share no buffer with any others.
    struct Part {
        Listed buffers;
        Index next = none;   // the part that is packed after it
        Index owner = none;  // the frame whose decision made it
        std::uint64_t low_key = 0;
        std::uint64_t high_key = 0;
    };

    // One decision on the path: which of the choices lies on the floor of a section, at last none.
    struct Frame {
        Listed buffers;
        Listed choices;
        Index next_choice = 0;
        Index decided = none;  // a buffer, none or `passed`
        Index blamed = none;   // the frame to go back to if nothing works
        Index pending = none;  // the part that is packed once this one is
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
    Index next_without_floor(Index section);
    void blame_life(const Buffer& buffer);
    Index split(Listed rest);
    Index add_part(Listed rest, Sections sections, Index next);
    bool has_failed_before(Part& part) const;
    bool any_has_failed_before(Index head);
    Index choose_section(Listed buffers);
    void mark_valleys(Sections sections);
    void count_choices(Listed buffers, Sections sections);
    Sections extent(Listed buffers) const;
    Key& remembered(std::uint64_t low_key);

    Problem problem_;
    std::vector<Index> rank_;
    std::vector<BufferState> state_;
    std::vector<SectionState> sections_;  // one more than there are
    std::vector<Index> lists_;
    std::vector<Noted> trail_;
    std::vector<Part> parts_;
    std::vector<Frame> frames_;
    std::vector<Key> failures_;  // a power of two many; a later failure takes the place of an earlier one
    std::int64_t nodes_ = 0;
};

}  // namespace onchip::packing
