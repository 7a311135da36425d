// Words whose bits are spread, and what arguments from Python have to be.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace onchip {

// Spreads the bits of a word over all of it (the finaliser of SplitMix64).
inline std::uint64_t mixed(std::uint64_t word) {
    word ^= word >> 30U;
    word *= 0xBF58476D1CE4E5B9U;
    word ^= word >> 27U;
    word *= 0x94D049BB133111EBU;
    return word ^ (word >> 31U);
}

// Throws std::invalid_argument, which says what is wrong and in which entry, unless it is so.
inline void require(bool is_so, const char* what, std::size_t at) {
    if (!is_so) throw std::invalid_argument(std::string(what) + " (entry " + std::to_string(at) + ")");
}

}  // namespace onchip
