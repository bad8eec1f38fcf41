// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/readers_first.h"

#include <algorithm>

#include "compiler/passes/views.h"

namespace onrt::hir {
namespace {

// Nodes looked at for all updates together; a graph that needs more keeps the rest of its order.
constexpr size_t kMostWork = size_t{1} << 24;

}  // namespace

size_t updated_operands(const Node& node) {
  switch (node.opcode) {
    case Opcode::kDynamicUpdateSlice:
      return 1;
    case Opcode::kScatter:
    case Opcode::kWhile:
      return node.results.size();
    default:
      return 0;
  }
}

ReadersFirst::ReadersFirst(const Flat& flat)
    : flat_(flat),
      users_(flat.value_count()),
      inside_(flat.nodes().size()),
      result_(flat.value_count(), false),
      position_(flat.nodes().size(), 0) {
  const auto use = [&](Ref value, int32_t user, int32_t at) {
    users_[flat.value_index(value)].push_back(user);
    const int32_t home = flat[value.node].region;
    for (int32_t region = at; region != home; region = flat.region(region).parent) {
      inside_[static_cast<size_t>(flat.region(region).owner)].push_back(value.node);
    }
  };
  for (size_t i = 0; i < flat.nodes().size(); ++i) {
    const Node& node = flat.nodes()[i];
    if (!node.live) {
      continue;
    }
    for (const Ref operand : node.operands) {
      use(operand, static_cast<int32_t>(i), node.region);
    }
    for (const int32_t owned : node.regions) {
      for (const Ref result : flat.region(owned).results) {
        use(result, static_cast<int32_t>(i), owned);
        result_[flat.value_index(result)] = true;
      }
    }
  }
  for (const Ref output : flat.outputs()) {
    result_[flat.value_index(output)] = true;
  }
}

// The node of `region` that `node` is, or is inside of; -1 if there is none.
int32_t ReadersFirst::in_region(int32_t node, int32_t region) const {
  while (node >= 0 && flat_[node].region != region) {
    node = flat_.region(flat_[node].region).owner;
  }
  return node;
}

// Nodes of the region that read the memory of `value`, through views too.
void ReadersFirst::add_readers(Ref value, int32_t region, std::vector<int32_t>& readers) const {
  std::vector<Ref> work = {value};
  while (!work.empty()) {
    const Ref next = work.back();
    work.pop_back();
    for (const int32_t user : users_[flat_.value_index(next)]) {
      if (const int32_t reader = in_region(user, region); reader >= 0) {
        readers.push_back(reader);
        if (reader == user && is_view(flat_[user].opcode)) {
          work.push_back({user, 0});
        }
      }
    }
  }
}

template <class Visit>
void ReadersFirst::for_each_need(int32_t node, Visit visit) const {
  for (const Ref operand : flat_[node].operands) {
    visit(operand.node);
  }
  for (const int32_t needed : inside_[static_cast<size_t>(node)]) {
    visit(needed);
  }
}

void ReadersFirst::improve(int32_t region, std::vector<int32_t>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    position_[static_cast<size_t>(order[i])] = i;
  }
  const std::vector<int32_t> updates = order;
  for (const int32_t update : updates) {
    for (size_t k = 0; k < updated_operands(flat_[update]); ++k) {
      const Ref value = flat_[update].operands[k];
      if (work_ > kMostWork) {
        return;
      }
      if (flat_[value.node].region != region || result_[flat_.value_index(value)] ||
          users_[flat_.value_index(value)].size() < 2) {
        continue;  // its memory can't be had, or nobody else reads it
      }
      std::vector<int32_t> readers;
      add_readers(value, region, readers);
      work_ += readers.size();
      const size_t at = position_[static_cast<size_t>(update)];
      std::erase_if(readers,
                    [&](int32_t node) { return position_[static_cast<size_t>(node)] <= at; });
      if (readers.empty()) {
        continue;
      }
      size_t last = at;
      for (const int32_t reader : readers) {
        last = std::max(last, position_[static_cast<size_t>(reader)]);
      }
      work_ += last - at;
      move_before(order, at, last, readers);
    }
  }
}

// Moves readers in (update, last], and what they need, before the update, unless one of them needs
// the update itself.
void ReadersFirst::move_before(std::vector<int32_t>& order, size_t update, size_t last,
                               const std::vector<int32_t>& readers) {
  std::vector<bool> after(last - update + 1, false);  // needs the update
  std::vector<bool> moved(last - update + 1, false);
  const auto in_range = [&](int32_t node) {
    const size_t at = position_[static_cast<size_t>(node)];
    return at >= update && at <= last && order[at] == node;
  };
  after[0] = true;
  for (size_t i = update + 1; i <= last; ++i) {
    for_each_need(order[i], [&](int32_t needed) {
      if (in_range(needed) && after[position_[static_cast<size_t>(needed)] - update]) {
        after[i - update] = true;
      }
    });
  }
  for (const int32_t reader : readers) {
    const size_t at = position_[static_cast<size_t>(reader)] - update;
    if (after[at]) {
      return;
    }
    moved[at] = true;
  }
  for (size_t i = last; i > update; --i) {
    if (moved[i - update]) {
      for_each_need(order[i], [&](int32_t needed) {
        if (in_range(needed)) {
          moved[position_[static_cast<size_t>(needed)] - update] = true;
        }
      });
    }
  }
  std::vector<int32_t> made;
  for (const bool first : {true, false}) {
    for (size_t i = update; i <= last; ++i) {
      if (moved[i - update] == first) {
        made.push_back(order[i]);
      }
    }
  }
  for (size_t i = 0; i < made.size(); ++i) {
    order[update + i] = made[i];
    position_[static_cast<size_t>(made[i])] = update + i;
  }
}

}  // namespace onrt::hir
