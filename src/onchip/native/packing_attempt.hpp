// One capacity, tried harder and harder: buffers that can wait, best fit, the exact search, and short stretches.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "packing_task.hpp"

namespace onchip::packing {

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

    // Goes on for about so many nodes. The first call also tries best fit.
    Finding go_on(std::int64_t nodes, const StopToken& stop);

    // Goes on with the exact search alone.
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
    bool is_narrowed_ = false;  // the stretch is not all steps
    std::int64_t nodes_ = 0;
    std::int64_t round_ = 0;
    std::int64_t round_nodes_ = 0;
    bool has_begun_ = false;
};

}  // namespace onchip::packing
