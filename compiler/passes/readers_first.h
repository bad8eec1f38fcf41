// SPDX-License-Identifier: Apache-2.0
// Puts what reads a value before what updates it in place, where the graph leaves that open: a
// dynamic-update-slice whose operand is still to be read would have to copy it.
#pragma once

#include "compiler/passes/flat.h"

namespace onrt::hir {

// How many of its first operands a node would like to have the memory of.
size_t updated_operands(const Node& node);

class ReadersFirst {
 public:
  // Borrows `flat`, whose nodes, regions and liveness are complete.
  explicit ReadersFirst(const Flat& flat);

  // The order of one region, changed where it helps; operands still come first.
  void improve(int32_t region, std::vector<int32_t>& order);

 private:
  int32_t in_region(int32_t node, int32_t region) const;
  void add_readers(Ref value, int32_t region, std::vector<int32_t>& readers) const;
  void move_before(std::vector<int32_t>& order, size_t update, size_t last,
                   const std::vector<int32_t>& readers);
  template <class Visit>
  void for_each_need(int32_t node, Visit visit) const;

  const Flat& flat_;
  std::vector<std::vector<int32_t>> users_;   // by value: live nodes, in their own regions
  std::vector<std::vector<int32_t>> inside_;  // by node: nodes from outside that its regions use
  std::vector<bool> result_;                  // by value: a region gives it back
  std::vector<size_t> position_;              // by node, in the order in hand
  size_t work_ = 0;
};

}  // namespace onrt::hir
