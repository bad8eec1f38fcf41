// SPDX-License-Identifier: Apache-2.0
// Writes one rank's program. Steps that would move nothing, or a range onto itself, are left out,
// so that algorithms need no special cases for empty chunks and for operations in place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "collectives/plan/schedule.h"

namespace onrt::cc {

// Thread-compatible.
class ProgramBuilder {
 public:
  // `spec` is borrowed and must outlive the builder.
  ProgramBuilder(const Spec& spec, int rank);

  const Spec& spec() const { return spec_; }
  int rank() const { return rank_; }
  int ranks() const { return spec_.ranks; }

  // Steps that follow go to this channel; 0 at first.
  void use_channel(int channel);
  int channel() const { return channel_; }

  // The size of this rank's scratch memory.
  void set_scratch(uint64_t elements) { program_.scratch_elements = elements; }
  void set_partial(uint64_t elements) { program_.partial_elements = elements; }
  void set_alternate_scratch() { program_.alternate_scratch = true; }

  Operand in(uint64_t offset) const { return {rank_, Buffer::kIn, offset}; }
  Operand out(uint64_t offset) const { return {rank_, Buffer::kOut, offset}; }
  Operand scratch(uint64_t offset) const { return {rank_, Buffer::kScratch, offset}; }
  Operand partial(uint64_t offset) const { return {rank_, Buffer::kPartial, offset}; }

  // kCopy, kPut or kGet, by who owns the operands.
  void move(Operand from, Operand to, uint64_t count);
  void move(Operand from, std::span<const Operand> to, uint64_t count);
  void reduce(std::span<const Operand> from, std::span<const Operand> to, uint64_t count);
  void reduce(std::initializer_list<Operand> from, Operand to, uint64_t count);

  // The counter's number is the channel's.
  void signal(int peer, uint32_t amount = 1);
  void wait(int peer, uint32_t amount = 1);
  void barrier();

  RankProgram take() { return std::move(program_); }

 private:
  bool same_place(const Operand& a, const Operand& b) const;
  void add(StepKind kind, std::span<const Operand> from, std::span<const Operand> to,
           uint64_t count);
  void add(const Step& step);

  const Spec& spec_;
  int rank_;
  int channel_ = 0;
  RankProgram program_;
};

}  // namespace onrt::cc
