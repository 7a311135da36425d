// The search for an order of minimum peak, and its Python bindings.

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "peak.hpp"

namespace onchip::peak {

// The state of an order between two operators.

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

// The best-first search for an order of least peak.

namespace {

constexpr std::size_t first_table = 1024;
constexpr std::uint64_t spread = 0x9E3779B97F4A7C15U;

std::uint64_t hash_of(std::span<const std::uint32_t> key) {
    std::uint64_t hash = key.size();
    for (const std::uint32_t word : key) {
        hash = (hash ^ word) * spread;
        hash ^= hash >> 32U;
    }
    return hash;
}

}  // namespace

bool Search::Waiting::operator<(const Waiting& other) const {
    return std::tuple(peak, -count, units, number) > std::tuple(other.peak, -other.count, other.units, other.number);
}

Search::Search(Problem problem, Options options)
    : problem_(std::move(problem)), options_(options), position_(problem_), table_(first_table, -1), bound_(0) {
    const Index start = find_or_add(position_.key());
    states_[start].least = options_.least_bytes;
    bound_.store(options_.least_bytes, std::memory_order_relaxed);
    if (options_.least_bytes <= options_.most_bytes) heap_.push({options_.least_bytes, 0, 0, 0, start});
}

Outcome Search::run(const StopToken& stop, std::int64_t most_states) {
    const auto operators = static_cast<Index>(problem_.operators.size());
    while (!heap_.empty()) {
        if (stop.is_asked()) return Outcome::stopped;
        if (states() >= most_states) return Outcome::states_spent;
        if (!has_memory()) return Outcome::memory_spent;
        const Waiting next = heap_.top();
        heap_.pop();
        if (next.peak > states_[next.state].least) continue;
        bound_.store(next.peak, std::memory_order_relaxed);
        states_looked_at_.fetch_add(1, std::memory_order_relaxed);
        if (next.count == operators) {
            for (Index state = next.state; states_[state].count > 0; state = states_[state].parent) {
                order_.push_back(states_[state].last);
            }
            std::reverse(order_.begin(), order_.end());
            return Outcome::found;
        }
        expand(next.state, next.peak);
    }
    bound_.store(options_.most_bytes + 1, std::memory_order_relaxed);
    return Outcome::exhausted;
}

// A single safe operator replaces all others.
void Search::expand(Index state, Bytes peak) {
    walk_to(state);
    const std::vector<Index>& ready = position_.ready();
    const auto safe = std::find_if(ready.begin(), ready.end(), [&](Index op) { return is_safe(op, peak); });
    if (safe != ready.end()) {
        offer(state, *safe, peak);
        return;
    }
    for (const Index op : ready) offer(state, op, std::max(peak, position_.need_bytes(op)));
}

void Search::offer(Index parent, Index op, Bytes peak) {
    if (peak > options_.most_bytes) return;
    const Index child = find_or_add(position_.key_after(op));
    State& own = states_[child];
    if (peak >= own.least) return;
    own.least = peak;
    own.parent = parent;
    own.last = op;
    own.count = states_[parent].count + 1;
    const Bytes units = position_.used_units() + position_.units_added(op);
    heap_.push({peak, units, ++offered_, own.count, child});
}

Index Search::find_or_add(std::span<const std::uint32_t> key) {
    const std::size_t mask = table_.size() - 1;
    std::size_t at = hash_of(key) & mask;
    for (; table_[at] >= 0; at = (at + 1) & mask) {
        const State& other = states_[table_[at]];
        const auto words = std::span(keys_).subspan(other.key_begin, other.key_length);
        if (std::equal(key.begin(), key.end(), words.begin(), words.end())) return table_[at];
    }
    const auto added = static_cast<Index>(states_.size());
    table_[at] = added;
    states_.push_back({unlimited, keys_.size(), static_cast<std::uint32_t>(key.size()), 0, -1, -1});
    keys_.insert(keys_.end(), key.begin(), key.end());
    if (2 * states_.size() > table_.size()) enlarge();
    return added;
}

void Search::enlarge() {
    table_.assign(2 * table_.size(), -1);
    const std::size_t mask = table_.size() - 1;
    for (Index state = 0; state < static_cast<Index>(states_.size()); ++state) {
        std::size_t at = hash_of(std::span(keys_).subspan(states_[state].key_begin, states_[state].key_length)) & mask;
        while (table_[at] >= 0) at = (at + 1) & mask;
        table_[at] = state;
    }
}

// Goes back to the common ancestor of the two paths, then forward.
void Search::walk_to(Index there) {
    ahead_.clear();
    Index target = there;
    while (here_ != target) {
        const State& from = states_[here_];
        const State& to = states_[target];
        if (to.count > 0 && to.count >= from.count) {
            ahead_.push_back(to.last);
            target = to.parent;
        } else {
            position_.take_back(from.last);
            here_ = from.parent;
        }
    }
    for (auto op = ahead_.rbegin(); op != ahead_.rend(); ++op) position_.run(*op);
    here_ = there;
}

// Returns true if the operator needs at most the current peak, and leaves at most as many bytes on chip as before.
bool Search::is_safe(Index op, Bytes peak) {
    return position_.leaves_no_more(op) && position_.need_bytes(op) <= peak;
}

bool Search::has_memory() const {
    const std::size_t used = states_.size() * (sizeof(State) + sizeof(Waiting)) + table_.size() * sizeof(Index) +
                             keys_.size() * sizeof(std::uint32_t);
    return static_cast<std::int64_t>(used) < options_.most_memory_bytes &&
           states_.size() < static_cast<std::size_t>(std::int32_t{1} << 30);
}

}  // namespace onchip::peak

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `peak::Search`.

namespace {

using Indices = std::vector<peak::Index>;
using Overwritables = std::vector<std::tuple<peak::Index, peak::Index, Indices>>;

peak::Operator operator_of(Indices reads, Indices writes, Indices predecessors, const Overwritables& overwritables) {
    std::vector<peak::Overwritable> inputs;
    for (const auto& [tensor, group, inside] : overwritables) inputs.push_back({tensor, group, inside});
    return {std::move(reads), std::move(writes), std::move(predecessors), std::move(inputs)};
}

}  // namespace

void add_peak(nb::module_& module) {
    using namespace peak;
    nb::enum_<Outcome>(module, "PeakOutcome",
                       "Reason why a search for an order ended. EXHAUSTED: every order needs more than `most_bytes`.")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped)
        .value("STATES_SPENT", Outcome::states_spent)
        .value("MEMORY_SPENT", Outcome::memory_spent);
    nb::class_<Operator>(
        module, "PeakOperator",
        "An operator with the numbers of its tensors and predecessors, each list ascending.\n"
        "\n"
        "`overwritables` are inputs whose bytes the outputs may take after their last use, as tuples of the\n"
        "tensor, its group and the outputs that then need no room of their own. In each group the first\n"
        "possible input is overwritten.")
        .def(
            "__init__",
            [](Operator* place, Indices reads, Indices writes, Indices predecessors,
               const Overwritables& overwritables) {
                new (place)
                    Operator(operator_of(std::move(reads), std::move(writes), std::move(predecessors), overwritables));
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a, "overwritables"_a = Overwritables());
    nb::class_<Search>(
        module, "PeakSearch",
        "Best-first search for an order without spills whose peak is least and at most `most_bytes`.\n"
        "\n"
        "Orders with a peak of at most `least_bytes` count as equal. The search ends if it needs more than\n"
        "`most_memory_bytes`. Raises ValueError if a size, an alignment or an index is invalid.")
        .def(
            "__init__",
            [](Search* place, const std::vector<Bytes>& sizes_bytes, std::vector<Operator> operators,
               Bytes alignment_bytes, Bytes least_bytes, Bytes most_bytes, std::int64_t most_memory_bytes) {
                new (place) Search(problem_of(sizes_bytes, std::move(operators), alignment_bytes),
                                   Options{least_bytes, most_bytes, most_memory_bytes});
            },
            "sizes_bytes"_a, "operators"_a, nb::kw_only(), "alignment_bytes"_a = 1, "least_bytes"_a = 0,
            "most_bytes"_a = unlimited, "most_memory_bytes"_a = unlimited)
        .def("run", &Search::run, "stop"_a, "most_states"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Continue until the search ends or has expanded `most_states` states in total.")
        .def_prop_ro("states", &Search::states,
                     "Number of expanded states.\n"
                     "\n"
                     "This property and `lower_bound` may be read while the search runs.")
        .def_prop_ro("lower_bound", &Search::lower_bound,
                     "Lower bound on the peak of every order in bytes, if no order needs less than `least_bytes`.")
        .def_prop_ro("order", &Search::order, "Operators of the order found, or an empty list.");
    module.def(
        "peak_needs",
        [](const std::vector<Bytes>& sizes_bytes, std::vector<Operator> operators, Bytes alignment_bytes,
           const Indices& order) {
            return needs_of(problem_of(sizes_bytes, std::move(operators), alignment_bytes), order);
        },
        "sizes_bytes"_a, "operators"_a, "alignment_bytes"_a, "order"_a,
        "Return the bytes that each step of an order needs without spills.\n"
        "\n"
        "Raises ValueError if `order` is not a legal order.");
}

}  // namespace onchip
