// SPDX-License-Identifier: Apache-2.0
// Blocking execution.
#include "runtime/api/handles.h"
#include "runtime/api/infodump.h"
#include "runtime/core/execute.h"

using namespace onrt;       // NOLINT(google-build-using-namespace)
using namespace onrt::api;  // NOLINT(google-build-using-namespace)

namespace {

// Runs `body(session, model, inputs, outputs)`; a failure of the device leaves its facts in the
// log.
template <class Body>
Status execute(const nrt_model_t* model, const nrt_tensor_set_t* input_set,
               nrt_tensor_set_t* output_set, const char* function, Body&& body) {
  return with_model(model, [&](Session& session, Model& found) -> Status {
    ONRT_ASSIGN_OR_RETURN(TensorSet* const inputs, object_of<TensorSet>(input_set, "input_set"));
    ONRT_ASSIGN_OR_RETURN(TensorSet* const outputs, object_of<TensorSet>(output_set, "output_set"));
    Status status = body(session, found, *inputs, *outputs);
    if (needs_infodump(status.code())) {
      nrt_infodump(session, status.code(), function);
    }
    return status;
  });
}

}  // namespace

extern "C" NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                                  nrt_tensor_set_t* output_set) {
  return c_boundary(
      [&] { return execute(model, input_set, output_set, "nrt_execute", execute_model); });
}

extern "C" NRT_STATUS nrt_execute_repeat(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                                         nrt_tensor_set_t* output_set, int repeat_count) {
  return c_boundary([&] {
    return execute(model, input_set, output_set, "nrt_execute_repeat",
                   [&](Session& session, Model& found, TensorSet& inputs, TensorSet& outputs) {
                     return execute_model_repeatedly(session, found, inputs, outputs, repeat_count);
                   });
  });
}
