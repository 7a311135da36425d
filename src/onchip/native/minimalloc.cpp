// MiniMalloc's command line over `onchip_pack`, for compilers that call MiniMalloc.
//
// Flags, CSV files and exit codes are those of google/minimalloc: 0 with an allocation, 1 without one. Flags that only
// steer MiniMalloc's search, and hints, have no effect.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onchip_pack.h"

namespace {

using Fields = std::vector<std::string>;

[[noreturn]] void refuse(const std::string& place, const std::string& what, const std::string& expected) {
    throw std::runtime_error(place + ": " + what + "; expected " + expected);
}

std::int64_t number(std::string_view text, const std::string& place) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        refuse(place, "'" + std::string(text) + "' is no number", "a whole number");
    }
    return value;
}

std::string trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r");
    return first == text.npos ? "" : std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

Fields split(std::string_view text, char separator) {
    Fields fields;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        fields.push_back(trimmed(text.substr(begin, end - begin)));
        begin = end + 1;
    }
    return fields;
}

// The flags of the command line: --name=value, --name value, --switch, --noswitch, with dashes or underscores.
class Flags {
public:
    Flags(int count, char** arguments) {
        for (int at = 1; at < count; ++at) {
            const std::string argument = arguments[at];
            if (argument.rfind('-', 0) != 0) refuse(argument, "it is no flag", "--capacity, --input, --output, ...");
            const std::string body = argument.substr(
                argument.find_first_not_of('-') == argument.npos ? argument.size() : argument.find_first_not_of('-'));
            const std::size_t equals = body.find('=');
            std::string name = body.substr(0, equals);
            std::replace(name.begin(), name.end(), '-', '_');
            if (values_.contains(name)) {
                if (equals == body.npos && at + 1 == count) refuse(argument, "it has no value", "a value");
                given_[name] = equals == body.npos ? arguments[++at] : body.substr(equals + 1);
            } else if (switches_.contains(name)) {
                given_[name] = equals == body.npos ? "true" : body.substr(equals + 1);
            } else if (name.rfind("no", 0) == 0 && switches_.contains(without_no(name))) {
                given_[without_no(name)] = "false";
            } else {
                refuse(argument, "there is no such flag", "a flag of MiniMalloc, such as --capacity or --input");
            }
        }
    }

    std::string value(const std::string& name, const std::string& otherwise) const {
        const auto found = given_.find(name);
        return found == given_.end() ? otherwise : found->second;
    }
    bool is_on(const std::string& name) const {
        const std::string given = value(name, "false");
        return given == "true" || given == "1" || given == "True";
    }

private:
    static std::string without_no(const std::string& name) { return name.substr(name.rfind("no_", 0) == 0 ? 3 : 2); }

    const std::set<std::string> values_{"capacity", "input", "output", "timeout", "preordering_heuristics"};
    const std::set<std::string> switches_{"validate",           "minimize_capacity", "canonical_only",
                                          "section_inference",  "dynamic_ordering",  "check_dominance",
                                          "unallocated_floor",  "monotonic_floor",   "hatless_pruning",
                                          "static_preordering", "print_solution",    "dynamic_decomposition"};
    std::map<std::string, std::string> given_;
};

// Seconds of a duration such as 60s, 1h30m or inf (0: no limit).
double seconds_of(const std::string& text) {
    static const std::pair<const char*, double> units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                                                           {"s", 1.0},   {"m", 60.0},  {"h", 3600.0}};
    if (text.empty() || text == "inf" || text == "infinite") return 0;
    double seconds = 0;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t length = 0;
        double value = -1;
        try {
            value = std::stod(text.substr(at), &length);
        } catch (const std::exception&) {
        }
        at += length;
        const auto unit = std::find_if(std::begin(units), std::end(units), [&](const auto& one) {
            return text.compare(at, std::string(one.first).size(), one.first) == 0;
        });
        if (value < 0 || unit == std::end(units)) refuse("--timeout", "'" + text + "' is no duration", "60s or 1h30m");
        seconds += value * unit->second;
        at += std::string(unit->first).size();
    }
    return std::max(seconds, 1e-9);
}

// A file of buffers, with the columns that it has.
class Table {
public:
    explicit Table(const std::string& path) {
        std::ifstream file(path);
        if (!file) refuse(path, "it cannot be opened", "a CSV file: id,lower,upper,size");
        std::string line;
        std::getline(file, line);
        if (line.rfind("\xEF\xBB\xBF", 0) == 0) line.erase(0, 3);
        set_columns(split(line, ','), path);
        for (int at = 2; std::getline(file, line); ++at) {
            if (!trimmed(line).empty()) add(split(line, ','), path + ", line " + std::to_string(at));
        }
        for (std::size_t at = 0; at < rows.size(); ++at) {
            buffers[at].gaps = gaps_[at].data();
            buffers[at].gap_count = gaps_[at].size() / 2;
        }
    }

    void write(const std::string& path, const std::vector<std::int64_t>& offsets) const {
        std::ofstream file(path);
        file << "id,lower,upper,size";
        for (const char* name : {"alignment", "hint", "gaps"}) {
            if (columns_.contains(name)) file << ',' << name;
        }
        file << ",offset\n";
        for (std::size_t at = 0; at < rows.size(); ++at) {
            const onchip_pack_buffer& one = buffers[at];
            file << field(at, "id") << ',' << one.start << ',' << one.stop << ',' << one.size;
            for (const char* name : {"alignment", "hint"}) {
                if (columns_.contains(name)) file << ',' << field(at, name);
            }
            if (columns_.contains("gaps")) file << ',';
            for (std::size_t gap = 0; gap < one.gap_count; ++gap) {
                file << (gap > 0 ? " " : "") << one.gaps[2 * gap] << '-' << one.gaps[2 * gap + 1];
            }
            file << ',' << offsets[at] << '\n';
        }
        if (!file.flush()) refuse(path, "it cannot be written", "a path in a folder that exists");
    }

    std::vector<onchip_pack_buffer> buffers;
    std::vector<Fields> rows;

private:
    void set_columns(const Fields& names, const std::string& path) {
        static const std::map<std::string, std::string> others{
            {"buffer", "id"}, {"buffer_id", "id"}, {"begin", "lower"}, {"start", "lower"}, {"end", "upper"}};
        for (std::size_t at = 0; at < names.size(); ++at) {
            const auto other = others.find(names[at]);
            if (names[at] == "end") added_ = 1;  // the last step
            if (!columns_.emplace(other == others.end() ? names[at] : other->second, at).second) {
                refuse(path + ", line 1", "column '" + names[at] + "' is there twice", "id,lower,upper,size");
            }
        }
        for (const char* name : {"id", "lower", "upper", "size"}) {
            if (!columns_.contains(name)) {
                refuse(path + ", line 1", std::string("column '") + name + "' is missing", "id,lower,upper,size");
            }
        }
    }

    void add(Fields fields, const std::string& place) {
        if (fields.size() != columns_.size()) {
            refuse(place, "it has " + std::to_string(fields.size()) + " fields", std::to_string(columns_.size()));
        }
        rows.push_back(std::move(fields));
        const std::size_t at = rows.size() - 1;
        const auto given = [&](const char* name, std::int64_t otherwise) {
            const bool is_there = columns_.contains(name) && !field(at, name).empty();
            return is_there ? number(field(at, name), place + ", " + name) : otherwise;
        };
        buffers.push_back({number(field(at, "lower"), place), number(field(at, "upper"), place) + added_,
                           number(field(at, "size"), place), given("alignment", 1),
                           given("offset", ONCHIP_PACK_NO_OFFSET), nullptr, 0});
        gaps_.emplace_back();
        if (!columns_.contains("gaps")) return;
        for (const std::string& gap : split(field(at, "gaps"), ' ')) {
            if (gap.empty()) continue;
            if (gap.find('@') != gap.npos) refuse(place, "gap '" + gap + "' has a window", "a gap without one");
            const std::size_t dash = gap.find('-');
            if (dash == gap.npos) refuse(place, "'" + gap + "' is no gap", "lower-upper");
            gaps_.back().push_back(number(gap.substr(0, dash), place));
            gaps_.back().push_back(number(gap.substr(dash + 1), place) + added_);
        }
    }

    const std::string& field(std::size_t row, const std::string& column) const {
        return rows[row][columns_.at(column)];
    }

    std::map<std::string, std::size_t> columns_;
    std::vector<std::vector<std::int64_t>> gaps_;
    std::int64_t added_ = 0;
};

// Returns true if no two live buffers overlap, and every offset is aligned and within the capacity.
bool is_legal(const std::vector<onchip_pack_buffer>& buffers, const std::vector<std::int64_t>& offsets,
              std::int64_t capacity) {
    const auto is_in_gap = [](const onchip_pack_buffer& one, std::int64_t step) {
        for (std::size_t gap = 0; gap < one.gap_count; ++gap) {
            if (one.gaps[2 * gap] <= step && step < one.gaps[2 * gap + 1]) return true;
        }
        return false;
    };
    const auto is_live = [&](const onchip_pack_buffer& one, std::int64_t step) {
        return one.start <= step && step < one.stop && !is_in_gap(one, step);
    };
    const auto begins = [](const onchip_pack_buffer& one) {
        std::vector<std::int64_t> steps{one.start};
        for (std::size_t gap = 0; gap < one.gap_count; ++gap) steps.push_back(one.gaps[2 * gap + 1]);
        return steps;
    };
    for (std::size_t at = 0; at < buffers.size(); ++at) {
        const onchip_pack_buffer& one = buffers[at];
        if (offsets[at] < 0 || offsets[at] + one.size > capacity || offsets[at] % one.alignment != 0) return false;
        for (std::size_t other = 0; other < buffers.size(); ++other) {
            const bool is_apart =
                offsets[at] + one.size <= offsets[other] || offsets[other] + buffers[other].size <= offsets[at];
            if (other == at || is_apart) continue;
            for (const std::int64_t step : begins(one)) {
                if (is_live(one, step) && is_live(buffers[other], step)) return false;
            }
        }
    }
    return true;
}

constexpr std::int64_t lowering_nodes = 20'000;  // a tenth of a second

// Replaces a packing by a lower one, if a short search finds it: compilers take the height for the size of the memory.
void lower(const Table& table, onchip_pack_options options, std::vector<std::int64_t>& offsets,
           onchip_pack_result& best) {
    options.capacity = best.arena - 1;
    options.minimize = 1;
    options.most_nodes = lowering_nodes;
    std::vector<std::int64_t> lower(offsets.size());
    onchip_pack_result found;
    const auto status = onchip_pack(table.buffers.data(), lower.size(), &options, lower.data(), &found);
    if (status > ONCHIP_PACK_FEASIBLE) return;
    offsets = lower;
    best = found;
}

int allocate(const Flags& flags) {
    const std::string input = flags.value("input", "");
    if (input.empty()) refuse("--input", "it is missing", "a CSV file: id,lower,upper,size");
    Table table(input);
    onchip_pack_options options{};
    options.capacity = number(flags.value("capacity", "0"), "--capacity");
    options.minimize = flags.is_on("minimize_capacity") ? 1 : 0;
    if (options.minimize != 0 && options.capacity == 0) options.capacity = std::int64_t{1} << 60;
    options.seconds = seconds_of(flags.value("timeout", "inf"));
    std::vector<std::int64_t> offsets(table.buffers.size());
    onchip_pack_result result;
    const auto began = std::chrono::steady_clock::now();
    const auto status = onchip_pack(table.buffers.data(), offsets.size(), &options, offsets.data(), &result);
    if (status == ONCHIP_PACK_FEASIBLE && options.minimize == 0) lower(table, options, offsets, result);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
    std::fprintf(stderr, "Elapsed time %.3fs\n", elapsed.count());
    if (status == ONCHIP_PACK_INVALID) throw std::runtime_error(input + ": " + result.message);
    if (status == ONCHIP_PACK_INFEASIBLE) throw std::runtime_error("NOT_FOUND: the buffers do not fit");
    if (status == ONCHIP_PACK_UNKNOWN) throw std::runtime_error("DEADLINE_EXCEEDED: no answer in time");
    if (flags.is_on("validate")) {
        if (!is_legal(table.buffers, offsets, options.capacity)) throw std::runtime_error("Validation FAIL");
        std::fprintf(stderr, "Validation PASS, height %lld\n", static_cast<long long>(result.arena));
    }
    const std::string output = flags.value("output", "");
    if (!output.empty()) table.write(output, offsets);
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        return allocate(Flags(count, arguments));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
