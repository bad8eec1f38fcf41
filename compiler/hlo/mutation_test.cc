// SPDX-License-Identifier: Apache-2.0
// Valid modules with one thing changed: each is refused by an error that says where, or compiled.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "compiler/hlo/export.h"
#include "compiler/hlo/testing/module_builder.h"
#include "compiler/testing/random_graph.h"

namespace onrt::hlo {
namespace {

using opennrt::hlo::Computation;
using opennrt::hlo::Instruction;
using opennrt::hlo::Module;
using Random = std::mt19937_64;

int64_t any_number(Random& random) {
  static constexpr int64_t kNumbers[] = {-1, 0, 1, 2, 3, 7, 31, 32, 33, 1 << 20, -5};
  static constexpr int64_t kHuge[] = {int64_t{1} << 40, INT64_MAX, INT64_MIN, int64_t{1} << 62};
  return random() % 4 == 0 ? kHuge[random() % std::size(kHuge)]
                           : kNumbers[random() % std::size(kNumbers)];
}

// Drops, repeats, replaces or adds an element.
template <class List>
void change_list(List* list, Random& random) {
  const int size = list->size();
  const int at = size == 0 ? 0 : static_cast<int>(random() % static_cast<uint64_t>(size));
  switch (random() % 4) {
    case 0:
      if (size > 0) {
        list->RemoveLast();
      }
      return;
    case 1:
      list->Add(size > 0 ? list->Get(at) : 0);
      return;
    case 2:
      if (size > 0) {
        list->Set(at, any_number(random));
      }
      return;
    default:
      list->Add(any_number(random));
      return;
  }
}

using Change = std::function<void(Instruction&, Computation&, Random&)>;

void change_shape(opennrt::hlo::Shape& shape, Random& random) {
  switch (random() % 4) {
    case 0:
      shape.set_element_type(static_cast<uint32_t>(random() % 36));
      return;
    case 1:
      if (shape.tuple_shapes_size() > 0) {
        return shape.mutable_tuple_shapes()->RemoveLast();
      }
      [[fallthrough]];
    case 2:
      change_list(shape.mutable_dimensions(), random);
      shape.clear_layout();
      shape.clear_is_dynamic_dimension();
      return;
    default:
      *shape.add_tuple_shapes() = shape_of(NRTCC_F32, {2});
      return;
  }
}

template <class List>
void change_message(List* list, Random& random) {
  if (list->size() > 0 && random() % 2 == 0) {
    list->RemoveLast();
  } else if (list->size() > 0) {
    *list->Add() = list->Get(0);
  } else {
    list->Add();
  }
}

// NOLINTNEXTLINE(readability-function-size): a table
std::vector<Change> changes() {
  const auto id_of_any = [](const Computation& computation, Random& random) {
    const auto count = static_cast<uint64_t>(computation.instructions_size());
    return computation.instructions(static_cast<int>(random() % count)).id();
  };
  return {
      [](Instruction& in, Computation&, Random& random) {
        change_shape(*in.mutable_shape(), random);
      },
      [](Instruction& in, Computation&, Random& random) {
        change_list(in.mutable_operand_ids(), random);
      },
      [id_of_any](Instruction& in, Computation& computation, Random& random) {
        if (in.operand_ids_size() > 0) {
          const auto count = static_cast<uint64_t>(in.operand_ids_size());
          in.set_operand_ids(static_cast<int>(random() % count), id_of_any(computation, random));
        } else {
          in.add_operand_ids(id_of_any(computation, random));
        }
      },
      [](Instruction& in, Computation&, Random& random) {
        change_list(in.mutable_dimensions(), random);
      },
      [](Instruction& in, Computation&, Random& random) {
        change_list(in.mutable_called_computation_ids(), random);
      },
      [](Instruction& in, Computation&, Random& random) {
        change_list(in.mutable_dynamic_slice_sizes(), random);
        change_list(in.mutable_gather_slice_sizes(), random);
      },
      [](Instruction& in, Computation&, Random& random) {
        change_message(in.mutable_slice_dimensions(), random);
        change_message(in.mutable_window()->mutable_dimensions(), random);
        change_message(in.mutable_padding_config()->mutable_dimensions(), random);
      },
      [](Instruction& in, Computation&, Random& random) {
        for (auto& dimension : *in.mutable_slice_dimensions()) {
          dimension.set_start(any_number(random));
          dimension.set_limit(any_number(random));
          dimension.set_stride(random() % 2 == 0 ? 1 : any_number(random));
        }
        for (auto& dimension : *in.mutable_padding_config()->mutable_dimensions()) {
          dimension.set_low(any_number(random));
          dimension.set_interior(random() % 2 == 0 ? 0 : any_number(random));
        }
      },
      [](Instruction& in, Computation&, Random& random) {
        for (auto& dimension : *in.mutable_window()->mutable_dimensions()) {
          const int64_t number = any_number(random);
          switch (random() % 6) {
            case 0:
              dimension.set_size(number);
              break;
            case 1:
              dimension.set_stride(number);
              break;
            case 2:
              dimension.set_padding_low(number);
              break;
            case 3:
              dimension.set_padding_high(number);
              break;
            case 4:
              dimension.set_window_dilation(number);
              break;
            default:
              dimension.set_base_dilation(number);
              break;
          }
        }
      },
      [](Instruction& in, Computation&, Random& random) {
        auto& dims = *in.mutable_dot_dimensions();
        change_list(random() % 2 == 0 ? dims.mutable_lhs_batch() : dims.mutable_lhs_contracting(),
                    random);
        if (random() % 2 == 0) {
          change_list(dims.mutable_rhs_contracting(), random);
        }
      },
      [](Instruction& in, Computation&, Random& random) {
        auto& dims = *in.mutable_gather_dimensions();
        for (auto* list : {dims.mutable_offset_dims(), dims.mutable_collapsed_slice_dims(),
                           dims.mutable_start_index_map(), dims.mutable_operand_batching_dims()}) {
          if (random() % 3 == 0) {
            change_list(list, random);
          }
        }
        dims.set_index_vector_dim(random() % 2 == 0 ? dims.index_vector_dim() : any_number(random));
      },
      [](Instruction& in, Computation&, Random& random) {
        auto& dims = *in.mutable_scatter_dimensions();
        for (auto* list :
             {dims.mutable_update_window_dims(), dims.mutable_inserted_window_dims(),
              dims.mutable_scatter_dims_to_operand_dims(), dims.mutable_input_batching_dims()}) {
          if (random() % 3 == 0) {
            change_list(list, random);
          }
        }
        dims.set_index_vector_dim(random() % 2 == 0 ? dims.index_vector_dim() : any_number(random));
      },
      [](Instruction& in, Computation&, Random& random) {
        auto& dims = *in.mutable_convolution_dimensions();
        change_list(
            random() % 2 == 0 ? dims.mutable_kernel_spatial() : dims.mutable_output_spatial(),
            random);
        dims.set_input_batch(random() % 2 == 0 ? dims.input_batch() : any_number(random));
        in.set_feature_group_count(any_number(random));
        in.set_batch_group_count(any_number(random));
      },
      [](Instruction& in, Computation&, Random& random) {
        in.set_parameter_number(any_number(random));
        in.set_tuple_index(any_number(random));
        in.set_feature_index(any_number(random));
        in.set_k(any_number(random));
      },
      [](Instruction& in, Computation&, Random& random) {
        static constexpr const char* kOpcodes[] = {
            "add",  "dot",           "reduce", "while",       "conditional", "call",
            "map",  "scatter",       "gather", "convolution", "tuple",       "parameter",
            "sort", "reduce-window", "topk",   "rng",         "constant",    "concatenate"};
        in.set_opcode(kOpcodes[random() % std::size(kOpcodes)]);
      },
      [](Instruction& in, Computation&, Random&) { in.clear_literal(); },
      [](Instruction& in, Computation&, Random& random) {
        in.mutable_literal()->add_f32s(1);
        in.mutable_literal()->add_s32s(1);
        change_shape(*in.mutable_literal()->mutable_shape(), random);
      },
      [](Instruction& in, Computation&, Random&) { in.set_comparison_direction("XX"); },
      [](Instruction& in, Computation&, Random& random) { in.set_id(any_number(random)); },
      [id_of_any](Instruction& in, Computation& computation, Random& random) {
        in.set_id(id_of_any(computation, random));
      },
      [id_of_any](Instruction&, Computation& computation, Random& random) {
        computation.set_root_id(id_of_any(computation, random));
      },
      [](Instruction&, Computation& computation, Random& random) {
        computation.set_id(any_number(random));
      },
      [](Instruction& in, Computation& computation, Random&) {
        *computation.add_instructions() = in;
      },
  };
}

bool is_located(const std::string& message) {
  for (const char* what : {"instruction '", "computation", "module '", "graph '", "parameter"}) {
    if (message.find(what) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// "" if all is well.
std::string fault_of(const Module& module) {
  const auto graph = import_module(module);
  if (!graph.ok()) {
    const std::string message(graph.status().message());
    return is_located(message) ? "" : "no place in: " + message;
  }
  uint8_t* neff = nullptr;
  size_t size = 0;
  const nrtcc_status_t status = nrtcc_compile(graph->get(), nullptr, &neff, &size);
  nrtcc_free(neff);
  if (status == NRTCC_OK) {
    return "";
  }
  const std::string message = nrtcc_last_error();
  return status != NRTCC_INTERNAL && is_located(message) ? "" : "compile: " + message;
}

struct Counts {
  int refused = 0;
  int compiled = 0;
};

void mutate(uint64_t seed, const testing::RandomOptions& options, Counts& counts) {
  const auto random_case = testing::make_random_case(seed, options);
  const auto module = export_graph(*random_case.graph);
  ASSERT_TRUE(module.ok()) << module.status().message();
  Random random(seed);
  const std::vector<Change> all = changes();
  for (size_t number = 0; number < all.size(); ++number) {
    for (int times = 0; times < 3; ++times) {
      Module changed = *module;
      const bool entry = random() % 3 != 0;
      const auto count = static_cast<uint64_t>(changed.computations_size());
      Computation& computation =
          *changed.mutable_computations(static_cast<int>(entry ? count - 1 : random() % count));
      const auto instructions = static_cast<uint64_t>(computation.instructions_size());
      Instruction& instruction =
          *computation.mutable_instructions(static_cast<int>(random() % instructions));
      all[number](instruction, computation, random);
      EXPECT_EQ(fault_of(changed), "") << "seed " << seed << ", change " << number;
      (import_module(changed).ok() ? counts.compiled : counts.refused) += 1;
    }
  }
}

// OPENNRT_TEST_CASES=<count> tries more.
TEST(Mutation, EveryChangeIsRefusedWithItsPlaceOrCompiled) {
  Counts counts;
  const char* text = std::getenv("OPENNRT_TEST_CASES");
  const uint64_t cases = text == nullptr ? 12 : std::strtoull(text, nullptr, 10);
  for (uint64_t seed = 0; seed < cases && !HasFailure(); ++seed) {
    mutate(100000 + seed, {14, false, false}, counts);
    mutate(200000 + seed, {12, true, false}, counts);
    mutate(300000 + seed, {12, true, true}, counts);
    mutate(400000 + seed, {10, true, true, true}, counts);
    mutate(500000 + seed, {10, true, false, false, true}, counts);
  }
  EXPECT_GT(counts.refused, counts.compiled / 4);
}

// Exported and imported again, a module computes the same: no field of convolutions, windows,
// gathers, sorts and the rest is lost or moved on the way.
TEST(Export, RandomModulesComputeTheSameAfterARoundTrip) {
  const testing::RandomOptions families[] = {
      {12, true, false}, {12, false, true}, {10, true, true, true}, {10, true, false, false, true}};
  for (const testing::RandomOptions& options : families) {
    for (uint64_t seed = 0; seed < 40 && !HasFailure(); ++seed) {
      const auto random_case = testing::make_random_case(seed, options);
      const auto module = export_graph(*random_case.graph);
      ASSERT_TRUE(module.ok()) << module.status().message();
      const GraphPtr again = import_ok(*module);
      ASSERT_TRUE(again != nullptr);
      const auto before = testing::run_graph(*random_case.graph, random_case.inputs, {});
      const auto after = testing::run_graph(again->graph, random_case.inputs, {});
      ASSERT_TRUE(before.ok() && after.ok()) << seed;
      EXPECT_EQ(testing::difference(*random_case.graph, *before, *after), "") << seed;
    }
  }
}

}  // namespace
}  // namespace onrt::hlo
