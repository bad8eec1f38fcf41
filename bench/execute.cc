// SPDX-License-Identifier: Apache-2.0
// nrt_execute of a one-op model (f32 add of 1024 elements) beside PoCL: enqueue of the same kernel
// and finish. Medians of single calls.
#include "bench/harness.h"
#include "bench/machine.h"
#include "bench/opencl_peer.h"

namespace {

using onrt::bench::check;
using onrt::bench::Row;

constexpr int64_t kElements = 1024;

// A loaded model with its tensors bound.
struct Loaded {
  explicit Loaded(const std::vector<uint8_t>& neff) {
    check("load", nrt_load(neff.data(), neff.size(), 0, 1, &model));
    check("input set", nrt_allocate_tensor_set(&inputs));
    check("output set", nrt_allocate_tensor_set(&outputs));
    nrt_tensor_info_array_t* info = nullptr;
    check("tensor info", nrt_get_model_tensor_info(model, &info));
    for (uint64_t i = 0; i < info->tensor_count; ++i) {
      const nrt_tensor_info_t& tensor = info->tensor_array[i];
      nrt_tensor_t* memory = nullptr;
      check(tensor.name,
            nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, tensor.size, tensor.name, &memory));
      check(tensor.name, nrt_tensor_memset(memory, 0, 0, tensor.size));
      check(tensor.name,
            nrt_add_tensor_to_tensor_set(tensor.usage == NRT_TENSOR_USAGE_INPUT ? inputs : outputs,
                                         tensor.name, memory));
    }
    nrt_free_model_tensor_info(info);
  }
  nrt_model_t* model = nullptr;
  nrt_tensor_set_t* inputs = nullptr;
  nrt_tensor_set_t* outputs = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  onrt::bench::parse_options(argc, argv, "");
  onrt::bench::Machine machine;
  nrtcc_graph_t* graph = onrt::bench::make_add_graph(kElements);
  const Loaded loaded(onrt::bench::compile(graph));
  nrtcc_graph_destroy(graph);
  std::vector<onrt::bench::Candidate> candidates{
      {"ours", onrt::bench::latency([&] {
         check("execute", nrt_execute(loaded.model, loaded.inputs, loaded.outputs));
       })}};
  const auto peer = onrt::bench::OpenClPeer::start(kElements);
  if (peer != nullptr) {
    fprintf(stderr, "execute: %s\n", peer->version().c_str());
    candidates.push_back({"pocl", onrt::bench::latency([&] { peer->run(); })});
  }
  Row row;
  row.key = "execute/add1024";
  row.title = "nrt_execute, one op, 1024 elements, median";
  row.unit = "us";
  row.higher_is_better = false;
  row.goal = 2.0;  // at most half of PoCL's time
  row.limit = 10;
  onrt::bench::report(
      {onrt::bench::compare(row, candidates, [](double seconds) { return seconds * 1e6; })});
  check("unload", nrt_unload(loaded.model));
  return 0;
}
