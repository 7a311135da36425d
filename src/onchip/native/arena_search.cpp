// The rounds of skyline filling: the ranking of blocks, and learning from skylines that grew too high.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "arena.hpp"

namespace onchip::arena {

namespace {

constexpr Index look_every = 256;
constexpr std::int64_t drawn_rounds = 30;
constexpr double too_high = 1.02;  // times the best arena: the limit of a learning round
constexpr double learnt_from = 0.4;
constexpr double boost = 0.3;
constexpr double forgetting = 0.97;

// By size; by lifetime; by area (with two exponents of the lifetime); by area and lifetime with the fullest steps
// first.
constexpr Ranking first_rankings[] = {{1, 0, 0, 0, false}, {0, 1, 0, 0, true},   {1, 1, 0, 0, true},
                                      {1, 2, 0, 0, true},  {1, 2, 256, 0, true}, {0.5, 1, 16, 0, false}};

}  // namespace

Index sections_of(const std::vector<Block>& blocks) {
    Index sections = 0;
    for (const Block& one : blocks) sections = std::max(sections, one.stop);
    return sections;
}

SkylineSearch::SkylineSearch(std::vector<Block> blocks, std::vector<Units> offsets, std::uint64_t seed)
    : blocks_(std::move(blocks)),
      sections_(sections_of(blocks_)),
      log_load_(blocks_.size()),
      candidates_(blocks_, sections_),
      skyline_(sections_),
      chance_(seed),
      boosts_(blocks_.size()),
      keys_(blocks_.size()),
      tried_(blocks_.size()) {
    set_loads();
    offer(offsets);
}

// Sets the greatest load within each block's lifetime, from maxima over runs of 1, 2, 4, ... sections.
void SkylineSearch::set_loads() {
    std::vector<Units> changes(sections_ + 1), loads(sections_);
    for (const Block& one : blocks_) {
        changes[one.first] += one.size;
        changes[one.stop] -= one.size;
    }
    Units live = 0;
    for (Index section = 0; section < sections_; ++section) loads[section] = live += changes[section];
    load_ = *std::max_element(loads.begin(), loads.end());
    std::vector<std::vector<Units>> greatest{loads};
    for (Index width = 1; 2 * width <= sections_; width *= 2) {
        const std::vector<Units>& half = greatest.back();
        std::vector<Units> whole(half.size() - width);
        for (std::size_t at = 0; at < whole.size(); ++at) whole[at] = std::max(half[at], half[at + width]);
        greatest.push_back(std::move(whole));
    }
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        const Block& one = blocks_[block];
        int level = 0;
        while ((2 << level) <= one.stop - one.first) ++level;
        const Units most = std::max(greatest[level][one.first], greatest[level][one.stop - (1 << level)]);
        log_load_[block] = std::log(static_cast<double>(most) / static_cast<double>(load_));
    }
}

void SkylineSearch::offer(const std::vector<Units>& offsets) {
    tried_ = offsets;
    Units arena = 0;
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        arena = std::max(arena, tried_[block] + blocks_[block].used);
    }
    keep(arena);
}

void SkylineSearch::keep(Units arena) {
    if (arena >= arena_) return;
    arena_ = arena;
    offsets_ = tried_;
}

void SkylineSearch::fill(std::int64_t rounds, Units target, const StopToken& stop) {
    for (; rounds > 0 && arena_ > target && !stop.is_asked(); --rounds, ++rounds_) {
        const bool is_learning = rounds_ >= drawn_rounds && rounds_ % 2 == 1;
        const Ranking ranking = next_ranking();
        rank(ranking, is_learning);
        const auto most = static_cast<Units>(static_cast<double>(arena_) * (is_learning ? too_high : 1.0));
        const bool is_whole = fill_once(most, stop);
        if (stop.is_asked()) return;
        if (is_learning) learn();
        if (!is_whole || tried_arena_ >= arena_) continue;
        keep(tried_arena_);
        best_ranking_ = ranking;
    }
}

// Returns first the given rankings, then random ones, then perturbations of the best; every other later round is the
// best ranking, boosted by what was learnt.
Ranking SkylineSearch::next_ranking() {
    if (rounds_ < static_cast<std::int64_t>(std::size(first_rankings))) return first_rankings[rounds_];
    Ranking next;
    if (rounds_ < drawn_rounds) {
        next.size = 2 * drawn();
        next.life = 2 * drawn();
        next.load = drawn() < 0.5 ? 0 : std::exp(6 * drawn());
        next.noise = drawn() < 0.5 ? 0 : 0.5 * drawn() * drawn();
    } else if (rounds_ % 2 == 1) {
        next = best_ranking_;
        next.noise = drawn() < 0.5 ? 0 : 0.3 * best_ranking_.noise * drawn();
    } else {
        next.size = best_ranking_.size + 0.3 * (drawn() - 0.5);
        next.life = best_ranking_.life + 0.3 * (drawn() - 0.5);
        next.load = best_ranking_.load * std::exp(drawn() < 0.5 ? 0 : drawn() - 0.5);
        if (best_ranking_.load == 0 && drawn() < 0.1) next.load = std::exp(6 * drawn());
        next.noise = drawn() < 0.1 ? 0.3 * drawn() : best_ranking_.noise * (0.5 + drawn());
    }
    next.counts_sections = drawn() < 0.5;
    return next;
}

double SkylineSearch::drawn() {
    return static_cast<double>(chance_() >> 11U) * 0x1p-53;
}

void SkylineSearch::rank(const Ranking& ranking, bool is_boosted) {
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        const Block& one = blocks_[block];
        const auto life = static_cast<double>(ranking.counts_sections ? one.stop - one.first : one.steps);
        keys_[block] = ranking.size * std::log(static_cast<double>(one.size)) + ranking.life * std::log(life) +
                       ranking.load * log_load_[block] + (is_boosted ? boosts_[block] : 0);
        if (ranking.noise > 0) keys_[block] += ranking.noise * (drawn() - 0.5);
    }
}

// Fills the lowest stretch first, with the block of the greatest key. Returns false if the arena exceeds `most` or
// after a stop request.
bool SkylineSearch::fill_once(Units most, const StopToken& stop) {
    skyline_.clear();
    candidates_.refill(keys_);
    std::fill(tried_.begin(), tried_.end(), none);
    tried_arena_ = 0;
    for (auto left = static_cast<Index>(blocks_.size()); left > 0;) {
        const Skyline::Stretch stretch = skyline_.lowest();
        const Index block = candidates_.best_within(stretch.first, stretch.stop);
        if (block == none) {
            skyline_.raise(stretch);
            continue;
        }
        if (left % look_every == 0 && stop.is_asked()) return false;
        --left;
        candidates_.remove(block);
        tried_[block] = stretch.height;
        tried_arena_ = std::max(tried_arena_, stretch.height + blocks_[block].used);
        if (tried_arena_ > most) return false;
        skyline_.fill(stretch, blocks_[block]);
    }
    return true;
}

// Boosts the blocks that ended high, so that the next learning round places them earlier; boosts decay.
void SkylineSearch::learn() {
    const Units high = load_ + static_cast<Units>(static_cast<double>(arena_ - load_) * learnt_from);
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        const bool is_high = tried_[block] != none && tried_[block] + blocks_[block].used > high;
        boosts_[block] = forgetting * (boosts_[block] + (is_high ? boost * drawn() : 0));
    }
}

}  // namespace onchip::arena
