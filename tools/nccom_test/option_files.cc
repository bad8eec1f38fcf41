// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom_test/option_files.h"

#include <algorithm>

#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "tools/common/file.h"
#include "tools/common/table.h"

namespace onrt::tools::nccom {
namespace {

Status invalid(const std::string& text) { return Status(NRT_INVALID, text); }

Result<JsonValue> read_json_file(const std::string& flag, const std::string& path) {
  constexpr uint64_t kLargest = 64ULL << 20;
  ONRT_ASSIGN_OR_RETURN(const auto bytes, read_file(path, kLargest));
  auto value = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return value.ok() ? std::move(value)
                    : std::move(value).status().annotate(format("--{}: {}", flag, printable(path)));
}

// An array of whole numbers in [0, most].
bool read_numbers(const JsonValue& json, uint64_t most, std::vector<uint64_t>* numbers) {
  if (json.type() != JsonType::kArray) {
    return false;
  }
  for (const JsonValue& item : json.items()) {
    if (item.type() != JsonType::kInteger || item.integer() < 0 ||
        static_cast<uint64_t>(item.integer()) > most) {
      return false;
    }
    numbers->push_back(static_cast<uint64_t>(item.integer()));
  }
  return true;
}

// The one list in {"NAME": [[...]]}; null when the file has another form.
const JsonValue* only_list(const JsonValue& json, std::string_view name) {
  const JsonValue* const outer = json.find(name);
  return outer != nullptr && outer->type() == JsonType::kArray && outer->items().size() == 1 &&
                 outer->items()[0].type() == JsonType::kArray && !outer->items()[0].items().empty()
             ? &outer->items()[0]
             : nullptr;
}

// One entry of the metadata; false when it has another form.
bool read_entry(const JsonValue& item, VariableSizes* sizes) {
  constexpr uint64_t kMostElements = 1ULL << 40;
  for (const auto& [name, target] : {std::pair("send_counts", &sizes->send_counts),
                                     std::pair("send_displs", &sizes->send_displacements),
                                     std::pair("recv_counts", &sizes->receive_counts),
                                     std::pair("recv_displs", &sizes->receive_displacements)}) {
    const JsonValue* const list = item.find(name);
    if (list != nullptr && !read_numbers(*list, kMostElements, target)) {
      return false;
    }
  }
  return sizes->send_counts.size() == sizes->send_displacements.size() &&
         sizes->receive_counts.size() == sizes->receive_displacements.size();
}

// Fills in what ranks receive where only what they send is given; the two must agree.
Result<std::vector<VariableSizes>> complete_variable(Operation operation,
                                                     std::vector<VariableSizes> entries) {
  const size_t ranks = entries.size();
  for (size_t rank = 0; rank < ranks; ++rank) {
    VariableSizes& own = entries[rank];
    if (operation == Operation::kAllGatherV) {
      for (size_t peer = 0; peer < ranks; ++peer) {
        if (own.receive_counts[peer] != entries[peer].send_counts[0] ||
            own.receive_displacements != entries[0].receive_displacements) {
          return invalid(
              format("--variable-size-op-metadata: rank {} receives {} elements from "
                     "rank {}, which sends {}; displacements must be the same on all",
                     rank, own.receive_counts[peer], peer, entries[peer].send_counts[0]));
        }
      }
      continue;
    }
    const bool given = !own.receive_counts.empty();
    uint64_t next = 0;
    for (size_t peer = 0; peer < ranks; ++peer) {
      const uint64_t sent = entries[peer].send_counts[rank];
      if (!given) {
        own.receive_counts.push_back(sent);
        own.receive_displacements.push_back(next);
        next += sent;
      } else if (own.receive_counts[peer] != sent) {
        return invalid(
            format("--variable-size-op-metadata: rank {} receives {} elements from rank "
                   "{}, which sends {}",
                   rank, own.receive_counts[peer], peer, sent));
      }
    }
  }
  return entries;
}

}  // namespace

// {"replica_groups": [[[0, 1], [2, 3]]]}.
Result<std::vector<std::vector<int>>> read_groups(const std::string& path, int workers) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue json, read_json_file("custom-replica-groups", path));
  const Status wrong = invalid(
      format("--custom-replica-groups: {}: expected {{\"replica_groups\": [[[0, 1], ...]]}} with "
             "each rank below {} at most once, and groups of one size",
             printable(path), workers));
  const JsonValue* const list = only_list(json, "replica_groups");
  if (list == nullptr) {
    return wrong;
  }
  std::vector<bool> seen(static_cast<size_t>(workers), false);
  std::vector<std::vector<int>> groups;
  for (const JsonValue& item : list->items()) {
    std::vector<uint64_t> ranks;
    if (!read_numbers(item, static_cast<uint64_t>(workers) - 1, &ranks) || ranks.empty()) {
      return wrong;
    }
    std::vector<int>& group = groups.emplace_back();
    for (const uint64_t rank : ranks) {
      if (seen[rank]) {
        return wrong;
      }
      seen[rank] = true;
      group.push_back(static_cast<int>(rank));
    }
    std::ranges::sort(group);  // as the library numbers them
    if (group.size() != groups.front().size()) {
      return wrong;
    }
  }
  return groups;
}

// {"src_target_pairs": [[[0, 1], [1, 0]]]}.
Result<std::vector<std::pair<int, int>>> read_pairs(const std::string& path, int ranks) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue json, read_json_file("custom-src-target-pairs", path));
  const Status wrong = invalid(format(
      "--custom-src-target-pairs: {}: expected {{\"src_target_pairs\": [[[0, 1], [1, 0]]]}} with "
      "ranks below {}, each a source and a target at most once",
      printable(path), ranks));
  const JsonValue* const list = only_list(json, "src_target_pairs");
  if (list == nullptr) {
    return wrong;
  }
  std::vector<std::pair<int, int>> pairs;
  for (const JsonValue& item : list->items()) {
    std::vector<uint64_t> both;
    if (!read_numbers(item, static_cast<uint64_t>(ranks) - 1, &both) || both.size() != 2) {
      return wrong;
    }
    const std::pair<int, int> pair(static_cast<int>(both[0]), static_cast<int>(both[1]));
    if (std::ranges::any_of(pairs, [&](const auto& other) {
          return other.first == pair.first || other.second == pair.second;
        })) {
      return wrong;
    }
    pairs.push_back(pair);
  }
  return pairs;
}

// {"metadata": [{send_counts, send_displs, recv_counts, recv_displs}]}, made one entry a rank.
Result<std::vector<VariableSizes>> read_variable(const std::string& path, Operation operation,
                                                 size_t ranks) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue json, read_json_file("variable-size-op-metadata", path));
  const Status wrong = invalid(
      format("--variable-size-op-metadata: {}: expected {{\"metadata\": [...]}} with one entry, or "
             "one for each of {} ranks; send_counts and send_displs have {}, recv_counts and "
             "recv_displs {} numbers{}",
             printable(path), ranks, operation == Operation::kAllToAllV ? ranks : 1, ranks,
             operation == Operation::kAllToAllV ? " or none" : ""));
  const JsonValue* const list = json.find("metadata");
  if (list == nullptr || list->type() != JsonType::kArray ||
      (list->items().size() != 1 && list->items().size() != ranks)) {
    return wrong;
  }
  std::vector<VariableSizes> entries;
  for (const JsonValue& item : list->items()) {
    VariableSizes sizes;
    if (!read_entry(item, &sizes)) {
      return wrong;
    }
    const bool receives_all = sizes.receive_counts.size() == ranks;
    const bool fits =
        operation == Operation::kAllToAllV
            ? sizes.send_counts.size() == ranks && (receives_all || sizes.receive_counts.empty())
            : sizes.send_counts.size() == 1 && receives_all;
    if (!fits) {
      return wrong;
    }
    entries.push_back(std::move(sizes));
  }
  entries.resize(ranks, entries.front());
  return complete_variable(operation, std::move(entries));
}

uint64_t extent(const std::vector<uint64_t>& counts, const std::vector<uint64_t>& displacements) {
  uint64_t end = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    end = std::max(end, counts[i] == 0 ? 0 : displacements[i] + counts[i]);
  }
  return end;
}

uint64_t variable_bytes(const Series& series) {
  uint64_t most = 0;
  for (const VariableSizes& sizes : series.variable) {
    most = std::max({most, extent(sizes.send_counts, sizes.send_displacements),
                     extent(sizes.receive_counts, sizes.receive_displacements)});
  }
  return most * series.type.bytes;
}

}  // namespace onrt::tools::nccom
