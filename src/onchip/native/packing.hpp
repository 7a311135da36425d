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
#include <functional>
#include <limits>
#include <memory>
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

// Packing as compilers ask for it: buffers with their own alignment, fixed offset and gaps, in one memory.
//
// Nothing here needs Python; `onchip_pack.h` is the C interface. The heuristics for many buffers are `arena.hpp`.

using Bytes = Units;
using Step = std::int64_t;

inline constexpr Step most_steps = Step{1} << 62;

// Steps [start, stop).
struct Interval {
    Step start = 0;
    Step stop = 0;
};

// A buffer, live over [start, stop) except in its gaps. It keeps its offset over all of its lifetime.
struct Request {
    Step start = 0;
    Step stop = 0;
    Bytes size = 0;
    Bytes alignment = 1;
    Bytes fixed = none;          // the only legal offset, or none
    std::vector<Interval> gaps;  // in order, disjoint, inside the lifetime

    // Returns the intervals in which the buffer is live.
    std::vector<Interval> lives() const;
};

struct Task {
    std::vector<Request> buffers;
    Bytes capacity = 0;

    // Throws std::invalid_argument, with the entry, if the task is invalid.
    void check() const;

    // Returns the task of some of the buffers.
    Task part(const std::vector<Index>& kept) const;

    // Returns the task of the buffers that live in these steps, without their other steps.
    Task clipped(Interval steps) const;
};

enum class Verdict { optimal, feasible, infeasible, unknown };

// The result. `lower_bound` is proven for any packing; `offsets` and `arena` are set if there is a packing.
struct Answer {
    Verdict verdict = Verdict::unknown;
    std::vector<Bytes> offsets;
    Bytes arena = none;
    Bytes lower_bound = 0;
    std::int64_t nodes = 0;  // decisions of the exact search; others count as long as they take
};

// Buffers that do not fit together; `is_irreducible` if every proper subset is proven to fit.
struct Conflict {
    std::vector<Index> buffers;
    bool is_irreducible = false;
};

struct Effort {
    bool minimize = false;  // find the lowest arena, else any that fits
    std::int64_t most_nodes = std::numeric_limits<std::int64_t>::max();
    std::uint64_t seed = 0;
    std::int64_t repairs = 0;  // rounds of skylines and repairs before the exact search
};

// Called with the best arena (`none` before the first), the lower bound, and the nodes so far.
using Progress = std::function<void(Bytes, Bytes, std::int64_t)>;

// Packs the buffers. Ends early after a stop request, with the best packing so far.
Answer solve(const Task& task, const Effort& effort, const StopToken& stop, const Progress& progress);

// Shrinks the buffers of an infeasible task to a conflict. Each test takes at most the nodes of the effort.
Conflict conflict_of(const Task& task, const Effort& effort, const StopToken& stop);

// Returns a lower bound on the arena: the most bytes alive at a step, and the end of each fixed buffer.
Bytes least_arena(const Task& task);

// Returns the first step in which the most bytes are alive.
Step fullest_step(const Task& task);

// Returns true if two fixed buffers overlap.
bool fixed_overlap(const Task& task);

// One capacity, tried harder and harder: buffers that can wait, best fit, the exact search, and short stretches.

inline constexpr std::int64_t quick_nodes = 8'000;      // of the first round of an attempt; later rounds grow
inline constexpr std::int64_t most_pairs = 20'000'000;  // their lists take some 400 MB

// Lifetimes as intervals, and the pairs of buffers that live together.
class Lifetimes {
public:
    explicit Lifetimes(const std::vector<Request>& buffers);

    std::int64_t pairs() const { return pairs_; }  // an upper bound if buffers have gaps
    const std::vector<Interval>& lives(Index buffer) const { return lives_[buffer]; }

    // Lists the neighbours of each buffer. Call only if there are at most `most_pairs`.
    const std::vector<std::vector<Index>>& neighbours();

private:
    std::vector<std::vector<Interval>> lives_;
    std::vector<std::vector<Index>> neighbours_;
    std::int64_t pairs_ = 0;
};

// Sizes, alignments and fixed offsets in units that divide every offset of a packing with the least sum of offsets.
struct Scale {
    Bytes common = 1;  // greatest common divisor of the alignments; sizes are padded to it
    Bytes unit = 1;    // in bytes; a multiple of `common`
    std::vector<Units> sizes;
    std::vector<Units> alignments;
    std::vector<Units> fixed;
    bool are_sums = true;  // true if every offset is a sum of sizes

    explicit Scale(const std::vector<Request>& buffers);
};

// Places buffers one by one between neighbours that have an offset.
class Placer {
public:
    Placer(const std::vector<Request>& buffers, Lifetimes& lifetimes)
        : buffers_(buffers), neighbours_(lifetimes.neighbours()) {}

    enum class Gap { lowest, smallest };

    // Places the buffers in this order, fixed ones first. Returns false at the first buffer without a gap.
    bool place(const std::vector<Index>& order, Bytes capacity, Gap gap);

    // Places one buffer, in place of its offset. Returns false if it has no gap.
    bool place(Index buffer, Bytes capacity, Gap gap);

    std::vector<Bytes> offsets;  // none for a buffer without a place

private:
    const std::vector<Request>& buffers_;
    const std::vector<std::vector<Index>>& neighbours_;
    std::vector<std::pair<Bytes, Bytes>> beside_;
};

enum class Finding { packed, unpackable, open };

class Attempt {
public:
    // Throws std::invalid_argument, with the entry, if the task is invalid.
    Attempt(Task task, std::uint64_t seed);
    Attempt(Task task, std::shared_ptr<Lifetimes> lifetimes, std::uint64_t seed);

    // Continues the search for about `nodes` nodes. The first call also tries best fit.
    Finding go_on(std::int64_t nodes, const StopToken& stop);

    // Continues with the exact search only, for about `nodes` nodes.
    Finding search(std::int64_t nodes, const StopToken& stop);

    // Looks around the fullest sections, which lie apart, for stretches that do not pack.
    std::vector<Interval> unpackable_stretches(const StopToken& stop);

    // Steps that do not pack, if the finding is unpackable; else the narrowest stretch tried that stays open, or all.
    Interval stretch() const { return stretch_; }

    // The buffers that cannot wait: they pack exactly if all do.
    const std::vector<Index>& core() const { return kept_; }

    const std::vector<Bytes>& offsets() const { return offsets_; }
    std::int64_t nodes() const { return nodes_; }

private:
    bool is_too_much();
    void find_core();
    void build_search();
    void set_sections();
    void set_ranks(const std::vector<Buffer>& buffers);
    bool best_fit(const StopToken& stop);
    void complete(std::vector<Bytes> core_offsets);
    bool narrow(Index middle, std::int64_t nodes, const StopToken& stop);
    void trim(Index low, Index high, const StopToken& stop);
    Interval steps_of(Index low, Index high) const { return {steps_[low], steps_[high - 1] + 1}; }
    Finding finding_in(Interval steps, std::int64_t nodes, const StopToken& stop) const;

    Task task_;
    std::uint64_t seed_;
    std::shared_ptr<Lifetimes> lifetimes_;
    std::vector<Index> kept_, postponed_;
    std::vector<std::vector<Sections>> sections_;  // by kept buffer
    std::vector<Step> steps_;                      // by section: a step in which all of it lives
    std::unique_ptr<Search> search_;
    std::vector<std::vector<Index>> ranks_;
    Bytes unit_ = 1;
    std::vector<Bytes> offsets_;
    Interval stretch_;
    bool is_narrowed_ = false;  // true if the stretch covers some of the steps only
    std::int64_t nodes_ = 0;
    std::int64_t round_ = 0;
    std::int64_t round_nodes_ = 0;
    bool has_begun_ = false;
};

}  // namespace onchip::packing
