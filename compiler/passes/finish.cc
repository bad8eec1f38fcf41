// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/finish.h"

#include <algorithm>

#include "compiler/passes/readers_first.h"

namespace onrt::hir {

class FlatFinisher {
 public:
  explicit FlatFinisher(Flat& flat) : flat_(flat) {}

  void run() {
    number_values();
    mark_live();
    count_uses();
    make_orders();
  }

 private:
  void number_values() {
    size_t values = 0;
    flat_.first_value_.reserve(flat_.nodes_.size());
    for (const Node& node : flat_.nodes_) {
      flat_.first_value_.push_back(values);
      values += node.results.size();
    }
    flat_.live_.assign(values, false);
    flat_.uses_.assign(values, 0);
  }

  void mark(Ref ref) {
    if (!flat_.live_[flat_.value_index(ref)]) {
      flat_.live_[flat_.value_index(ref)] = true;
      work_.push_back(ref);
    }
  }

  void mark_live() {
    for (const Ref output : flat_.outputs_) {
      mark(output);
    }
    while (!work_.empty()) {
      const Ref ref = work_.back();
      work_.pop_back();
      flat_.nodes_[static_cast<size_t>(ref.node)].live = true;
      for_each_need(ref, [&](Ref needed) { mark(needed); });
    }
  }

  // What a value is made of. A carried value is one thing: if any of initial value, parameters,
  // body's result and final value is needed, all are.
  template <class Visit>
  void for_each_need(Ref ref, Visit visit) {
    const Node& node = flat_[ref.node];
    const Region& inside = flat_.region(node.region);
    if (node.opcode == Opcode::kParameter) {
      if (node.region != 0) {
        visit(Ref{inside.owner, ref.node - inside.parameters[0].node});
      }
      return;
    }
    for (const int32_t number : node.regions) {
      const Region& owned = flat_.region(number);
      visit(owned.results[owned.kind == RegionKind::kCondition ? 0
                                                               : static_cast<size_t>(ref.result)]);
    }
    if (node.opcode == Opcode::kWhile) {
      visit(node.operands[static_cast<size_t>(ref.result)]);
      return;
    }
    for (const Ref operand : node.operands) {
      visit(operand);
    }
  }

  void use(Ref ref) { ++flat_.uses_[flat_.value_index(ref)]; }

  void count_uses() {
    for (size_t i = 0; i < flat_.nodes_.size(); ++i) {
      const Node& node = flat_.nodes_[i];
      if (!node.live) {
        continue;
      }
      const bool loop = node.opcode == Opcode::kWhile;
      for (size_t k = 0; k < node.operands.size(); ++k) {
        if (!loop || flat_.is_live({static_cast<int32_t>(i), static_cast<int32_t>(k)})) {
          use(node.operands[k]);
        }
      }
      for (const int32_t number : node.regions) {
        const Region& owned = flat_.region(number);
        for (size_t k = 0; k < owned.results.size(); ++k) {
          if (owned.kind == RegionKind::kCondition ||
              flat_.is_live({static_cast<int32_t>(i), static_cast<int32_t>(k)})) {
            use(owned.results[k]);
          }
        }
      }
    }
    for (const Ref output : flat_.outputs_) {
      use(output);
    }
  }

  void make_orders() {
    for (size_t i = 0; i < flat_.nodes_.size(); ++i) {
      const Node& node = flat_.nodes_[i];
      if (node.live) {
        flat_.regions_[static_cast<size_t>(node.region)].order.push_back(static_cast<int32_t>(i));
      }
    }
    if (std::ranges::none_of(flat_.nodes_, [](const Node& node) {
          return node.live && updated_operands(node) > 0;
        })) {
      return;
    }
    ReadersFirst readers_first(flat_);
    for (size_t r = 0; r < flat_.regions_.size(); ++r) {
      readers_first.improve(static_cast<int32_t>(r), flat_.regions_[r].order);
    }
  }

  Flat& flat_;
  std::vector<Ref> work_;
};

void finish(Flat& flat) { FlatFinisher(flat).run(); }

}  // namespace onrt::hir
