// The state of an order between two operators.

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "peak.hpp"

namespace onchip::peak {

namespace {

constexpr std::uint32_t listed_as_run = 0;
constexpr std::uint32_t listed_as_ready = 1;
constexpr std::uint32_t flagged_as_ready = 2;
constexpr std::size_t few = 64;  // most executed operators to list: sorting more is slower than setting bits
constexpr std::size_t word_bits = 32;

void check(const std::vector<Index>& list, std::size_t count) {
    for (const Index item : list) {
        if (item < 0 || static_cast<std::size_t>(item) >= count) throw std::invalid_argument("an index of nothing");
    }
}

bool contains(const std::vector<Index>& ascending, Index item) {
    return std::binary_search(ascending.begin(), ascending.end(), item);
}

void insert(std::vector<Index>& ascending, Index item) {
    ascending.insert(std::upper_bound(ascending.begin(), ascending.end(), item), item);
}

void erase(std::vector<Index>& ascending, Index item) {
    ascending.erase(std::lower_bound(ascending.begin(), ascending.end(), item));
}

}  // namespace

Problem problem_of(const std::vector<Bytes>& sizes_bytes, std::vector<Operator> operators, Bytes alignment_bytes) {
    if (alignment_bytes < 1) throw std::invalid_argument("an alignment of less than one byte");
    Problem problem{{}, std::move(operators), alignment_bytes};
    for (const Bytes size : sizes_bytes) {
        if (size < 0) throw std::invalid_argument("a negative size");
        const Bytes units = (size + alignment_bytes - 1) / alignment_bytes;
        problem.tensors.push_back({units, units * alignment_bytes - size});
    }
    return problem;
}

std::vector<Bytes> needs_of(const Problem& problem, const std::vector<Index>& order) {
    Position position(problem);
    std::vector<Bytes> needs;
    for (const Index op : order) {
        if (!contains(position.ready(), op)) throw std::invalid_argument("an operator runs before what it waits for");
        needs.push_back(position.need_bytes(op));
        position.run(op);
    }
    return needs;
}

Position::Position(const Problem& problem)
    : problem_(problem),
      producer_(problem.tensors.size(), -1),
      reader_count_(problem.tensors.size()),
      operands_(problem.operators.size()),
      successors_(problem.operators.size()),
      has_run_(problem.operators.size()),
      is_resident_(problem.tensors.size()) {
    const std::size_t tensor_count = problem.tensors.size();
    for (Index op = 0; op < static_cast<Index>(problem.operators.size()); ++op) {
        const Operator& own = problem.operators[op];
        check(own.reads, tensor_count);
        check(own.writes, tensor_count);
        check(own.predecessors, problem.operators.size());
        for (const Overwritable& one : own.overwritables) check(one.inside, tensor_count);
        for (const Index tensor : own.writes) producer_[tensor] = op;
        for (const Index tensor : own.reads) ++reader_count_[tensor];
        for (const Index before : own.predecessors) successors_[before].push_back(op);
        std::set_union(own.reads.begin(), own.reads.end(), own.writes.begin(), own.writes.end(),
                       std::back_inserter(operands_[op]));
        awaited_.push_back(static_cast<Index>(own.predecessors.size()));
        if (own.predecessors.empty()) ready_.push_back(op);
    }
    unread_ = reader_count_;
}

void Position::run(Index op) {
    const Operator& own = problem_.operators[op];
    has_run_[op] = true;
    ran_.push_back(op);
    for (const Index tensor : own.reads) --unread_[tensor];
    for (const Index tensor : operands_[op]) {
        if (!is_resident_[tensor] && unread_[tensor] > 0)
            take(tensor);
        else if (is_resident_[tensor] && unread_[tensor] == 0)
            leave(tensor);
    }
    erase(ready_, op);
    for (const Index next : successors_[op]) {
        if (--awaited_[next] == 0) insert(ready_, next);
    }
}

void Position::take_back(Index op) {
    const Operator& own = problem_.operators[op];
    has_run_[op] = false;
    ran_.pop_back();
    for (const Index tensor : own.reads) ++unread_[tensor];
    for (const Index tensor : operands_[op]) {
        const bool was_there = has_begun(tensor) && unread_[tensor] > 0;
        if (was_there && !is_resident_[tensor])
            take(tensor);
        else if (!was_there && is_resident_[tensor])
            leave(tensor);
    }
    for (const Index next : successors_[op]) {
        if (awaited_[next]++ == 0) erase(ready_, next);
    }
    insert(ready_, op);
}

Bytes Position::need_bytes(Index op) const {
    Bytes units = used_units_;
    for (const Index tensor : operands_[op]) {
        if (!is_resident_[tensor]) units += problem_.tensors[tensor].units;
    }
    const std::vector<Index> inside = inside_others(op);
    for (const Index tensor : inside) units -= problem_.tensors[tensor].units;
    if (problem_.alignment_bytes == 1) return units;
    return units * problem_.alignment_bytes - greatest_padding(op, inside);
}

bool Position::leaves_no_more(Index op) const {
    const Change change = change_by(op);
    return change.units < 0 || (change.units == 0 && change.padding_come >= change.padding_gone);
}

std::span<const std::uint32_t> Position::key_after(Index op) {
    ready_then_ = ready_;
    erase(ready_then_, op);
    for (const Index next : successors_[op]) {
        if (awaited_[next] == 1) insert(ready_then_, next);
    }
    return key_of(ready_then_, op);
}

// The operators that have not run are the ready ones and all their descendants. So the ready set, as list or bits,
// identifies the state.
std::span<const std::uint32_t> Position::key_of(const std::vector<Index>& ready, Index last) {
    const std::size_t words = problem_.operators.size() / word_bits + 1;
    const std::size_t ran = ran_.size() + (last >= 0 ? 1 : 0);
    key_.clear();
    if (ran < ready.size() && ran <= few && ran < words) {
        key_.push_back(listed_as_run);
        key_.insert(key_.end(), ran_.begin(), ran_.end());
        if (last >= 0) key_.push_back(static_cast<std::uint32_t>(last));
        std::sort(key_.begin() + 1, key_.end());
    } else if (ready.size() < words) {
        key_.push_back(listed_as_ready);
        key_.insert(key_.end(), ready.begin(), ready.end());
    } else {
        key_.assign(words + 1, 0);
        key_[0] = flagged_as_ready;
        for (const Index op : ready) key_[1 + op / word_bits] |= std::uint32_t{1} << (op % word_bits);
    }
    return key_;
}

bool Position::has_begun(Index tensor) const {
    const Index producer = producer_[tensor];
    return (producer >= 0 && has_run_[producer]) || unread_[tensor] < reader_count_[tensor];
}

void Position::take(Index tensor) {
    is_resident_[tensor] = true;
    used_units_ += problem_.tensors[tensor].units;
    if (problem_.alignment_bytes > 1) ++paddings_[problem_.tensors[tensor].padding_bytes];
}

void Position::leave(Index tensor) {
    is_resident_[tensor] = false;
    used_units_ -= problem_.tensors[tensor].units;
    if (problem_.alignment_bytes == 1) return;
    const auto found = paddings_.find(problem_.tensors[tensor].padding_bytes);
    if (--found->second == 0) paddings_.erase(found);
}

Position::Change Position::change_by(Index op) const {
    const std::vector<Index>& reads = problem_.operators[op].reads;
    Change change{};
    for (const Index tensor : operands_[op]) {
        const Tensor& own = problem_.tensors[tensor];
        const bool dies = unread_[tensor] == (contains(reads, tensor) ? 1 : 0);
        if (is_resident_[tensor] && dies) {
            change.units -= own.units;
            change.padding_gone = std::max(change.padding_gone, own.padding_bytes);
        } else if (!is_resident_[tensor] && !dies) {
            change.units += own.units;
            change.padding_come = std::max(change.padding_come, own.padding_bytes);
        }
    }
    return change;
}

// Returns the tensors placed inside others while a ready operator overwrites inputs that only it still reads.
std::vector<Index> Position::inside_others(Index op) const {
    std::vector<Index> inside;
    Index group = -1;  // sorted by group
    for (const Overwritable& one : problem_.operators[op].overwritables) {
        if (one.group == group || unread_[one.tensor] != 1) continue;
        group = one.group;
        inside.insert(inside.end(), one.inside.begin(), one.inside.end());
    }
    return inside;
}

Bytes Position::greatest_padding(Index op, const std::vector<Index>& inside) const {
    std::map<Bytes, Index> hidden;
    Bytes greatest = 0;
    for (const Index tensor : inside) {
        if (is_resident_[tensor]) ++hidden[problem_.tensors[tensor].padding_bytes];
    }
    for (auto one = paddings_.rbegin(); one != paddings_.rend(); ++one) {
        const auto found = hidden.find(one->first);
        if (found != hidden.end() && found->second == one->second) continue;
        greatest = one->first;
        break;
    }
    for (const Index tensor : operands_[op]) {
        const bool is_inside = std::find(inside.begin(), inside.end(), tensor) != inside.end();
        if (!is_inside && !is_resident_[tensor]) {
            greatest = std::max(greatest, problem_.tensors[tensor].padding_bytes);
        }
    }
    return greatest;
}

}  // namespace onchip::peak
