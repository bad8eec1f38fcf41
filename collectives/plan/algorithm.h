// SPDX-License-Identifier: Apache-2.0
// Algorithms: rows of a table, each with a pure function that writes one rank's program.
//
// To add one: a file collectives/plan/algorithms/NAME.cc that defines `Algorithm NAME_algorithm()`,
// and the line onrt_algorithm(NAME) in collectives/plan/CMakeLists.txt (docs/collectives.md).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan/builder.h"
#include "collectives/plan/schedule.h"

namespace onrt::cc {

class OpSet {
 public:
  constexpr OpSet(std::initializer_list<Op> ops) {
    for (const Op op : ops) {
      bits_ |= 1u << static_cast<int>(op);
    }
  }
  constexpr bool has(Op op) const { return (bits_ >> static_cast<int>(op) & 1u) != 0; }

 private:
  uint32_t bits_ = 0;
};

// The slowest rank's work, for the alpha-beta-gamma model (Hockney 1994; Thakur, Rabenseifner and
// Gropp 2005): alpha * rounds + beta * moved + gamma * reduced.
struct Cost {
  double rounds = 0;         // one after another: a signal that somebody waits for
  double moved_bytes = 0;    // written to memory, one's own too
  double reduced_bytes = 0;  // read by reductions
};

struct Algorithm {
  std::string_view name;        // as nccom-test prints it: "ring"
  std::string_view complexity;  // one line: steps and bytes
  std::string_view source;      // the paper or document
  OpSet ops;
  // Why this spec (valid, of one of `ops`) cannot be done; success when it can.
  Status (*supports)(const Spec& spec);
  // Writes the program of builder.rank(). The spec is supported.
  void (*build)(ProgramBuilder& builder);
  Cost (*cost)(const Spec& spec);
};

// All rows in the order of registration.
std::span<const Algorithm> algorithms();
// Null when there is none of that name.
const Algorithm* find_algorithm(std::string_view name);

// Success, or NRT_INVALID: spec not valid, operation not among the algorithm's, or its reason.
Status supports(const Algorithm& algorithm, const Spec& spec);

// One rank's program, made without those of the others; the whole schedule. Errors: supports().
Result<RankProgram> build_program(const Algorithm& algorithm, const Spec& spec, int rank);
Result<Schedule> build_schedule(const Algorithm& algorithm, const Spec& spec);

}  // namespace onrt::cc
