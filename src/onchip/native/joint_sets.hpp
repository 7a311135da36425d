// Storage of the joint search: bit sets, packed lists, and limited memory.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory_resource>
#include <new>
#include <span>
#include <vector>

#include "joint.hpp"
#include "words.hpp"

namespace onchip::joint {

using Word = std::uint64_t;

inline constexpr Index word_bits = 64;

// Sets of operators or tensors are bits in words stored elsewhere.

inline Index words_for(std::size_t count) {
    return static_cast<Index>((count + word_bits - 1) / word_bits);
}

inline std::size_t word_of(Index item) {
    return static_cast<std::size_t>(item) / word_bits;
}

inline Word bit_of(Index item) {
    return Word{1} << (static_cast<std::size_t>(item) % word_bits);
}

inline bool has(const Word* set, Index item) {
    return (set[word_of(item)] & bit_of(item)) != 0;
}

inline void add(Word* set, Index item) {
    set[word_of(item)] |= bit_of(item);
}

inline void remove(Word* set, Index item) {
    set[word_of(item)] &= ~bit_of(item);
}

// Hashes a number (SplitMix64).
inline Word mixed(Word word) {
    return onchip::mixed((word + 1) * 0x9E3779B97F4A7C15U);
}

// Removes the lowest item of a word and returns it.
inline Index take_lowest(Word& word) {
    const int lowest = std::countr_zero(word);
    word &= word - 1;
    return lowest;
}

// Memory of at most `most_bytes` bytes; throws std::bad_alloc beyond.
class Budget : public std::pmr::memory_resource {
public:
    explicit Budget(std::int64_t most_bytes) : left_bytes_(static_cast<std::size_t>(std::min(most_bytes, reach))) {}

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (bytes > left_bytes_) throw std::bad_alloc();
        void* place = std::pmr::new_delete_resource()->allocate(bytes, alignment);
        left_bytes_ -= bytes;
        return place;
    }
    void do_deallocate(void* place, std::size_t bytes, std::size_t alignment) override {
        std::pmr::new_delete_resource()->deallocate(place, bytes, alignment);
        left_bytes_ += bytes;
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

    static constexpr std::int64_t reach = std::int64_t{1} << 34;  // limit of all indices

    std::size_t left_bytes_;
};

// Lists stored contiguously.
class Lists {
public:
    void append(const std::vector<Index>& list) {
        items_.insert(items_.end(), list.begin(), list.end());
        stops_.push_back(items_.size());
    }
    std::span<const Index> operator[](Index at) const {
        return {items_.data() + stops_[at], stops_[at + 1] - stops_[at]};
    }

private:
    std::vector<std::size_t> stops_{0};
    std::vector<Index> items_;
};

}  // namespace onchip::joint
