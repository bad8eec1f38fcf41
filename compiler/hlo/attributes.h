// SPDX-License-Identifier: Apache-2.0
// Attributes of HLO instructions as nrtcc attributes, by opcode.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/hlo/hlo.pb.h"
#include "opennrt/nrtcc.h"
#include "runtime/base/status.h"

namespace onrt::hlo {

// Collects attributes and owns what they point to. Not copyable: the attributes hold pointers.
class AttributeList {
 public:
  AttributeList() = default;
  AttributeList(const AttributeList&) = delete;
  AttributeList& operator=(const AttributeList&) = delete;

  void add_flag(nrtcc_attr_key_t key);
  void add_ints(nrtcc_attr_key_t key, std::vector<int64_t> ints);
  // Borrowed: `data` must outlive the list.
  void add_data(nrtcc_attr_key_t key, const void* data, size_t size);
  void add_text(nrtcc_attr_key_t key, std::string text);
  // Keeps bytes alive for an earlier or later add_data().
  void keep(std::vector<std::byte> bytes) { bytes_.push_back(std::move(bytes)); }

  const nrtcc_attr_t* data() const { return attributes_.data(); }
  int32_t size() const { return static_cast<int32_t>(attributes_.size()); }

 private:
  std::vector<nrtcc_attr_t> attributes_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::string> texts_;
  std::deque<std::vector<std::byte>> bytes_;
};

// Number of an imported computation from its id in the module; -1 if there is none.
using ComputationLookup = std::function<nrtcc_computation_t(int64_t id)>;

// Adds everything nrtcc wants to know about `instruction`, its name and source included.
// Errors: NRT_INVALID for attributes that cannot be; the message does not name the instruction.
Status add_attributes(const opennrt::hlo::Instruction& instruction, const ComputationLookup& lookup,
                      AttributeList& attributes);

}  // namespace onrt::hlo
