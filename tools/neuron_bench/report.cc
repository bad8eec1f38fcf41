// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "tools/common/table.h"
#include "tools/neuron_bench/exec.h"

namespace onrt::tools {
namespace {

std::string type_text(const TensorInfo& info) {
  const std::string type = numpy_type(info.dtype);
  return array_text(type.empty() ? "?" : type, info.shape);
}

double median(const std::vector<double>& sorted) {
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace

std::string report_text(const ExecReport& report) {
  Table table;
  for (const char* heading : {"TENSOR", "NAME", "TYPE", "BYTES", "FILE"}) {
    table.add_column({heading});
  }
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    const TensorInfo& info = report.tensors[i];
    std::string file = report.sources[i];
    if (file.empty()) {
      file = info.is_input ? "(zeros)" : report.request.output.value_or("(not kept)");
    }
    table.add_row({info.is_input ? "input" : "output", printable(info.name), type_text(info),
                   std::to_string(info.bytes), printable(file)});
  }
  std::string out = table.text(Rules::kOutside);
  out += format("load         {:.1f} us\n", report.load_us);
  out += format("iterations   {} (after {} to warm up)\n", report.wall_us.size(),
                report.request.warmup);
  out += format("wall time    median {:.1f} us, least {:.1f} us, most {:.1f} us (this host)\n",
                median(report.wall_us), report.wall_us.front(), report.wall_us.back());
  out += report.device_us ? format("device time  {:.3f} us (model of a NeuronCore, not measured)\n",
                                   *report.device_us)
                          : std::string("device time  unknown: this libnrt does not report it\n");
  return report.cost ? out + "\nby the timing model, for one execution:\n" + cost_text(*report.cost)
                     : out;
}

std::string report_json(const ExecReport& report) {
  JsonWriter out(2);
  out.begin_object().key("model").string(report.request.model);
  out.key("core").integer(report.request.core).key("load_us").real(report.load_us);
  out.key("iterations").unsigned_integer(report.wall_us.size());
  out.key("warmup").integer(report.request.warmup);
  out.key("wall_us").begin_object().key("median").real(median(report.wall_us));
  out.key("least").real(report.wall_us.front()).key("most").real(report.wall_us.back());
  out.end_object().key("device_us");
  if (report.device_us) {
    out.real(*report.device_us);
  } else {
    out.null();
  }
  out.key("cost");
  if (report.cost) {
    cost_json(*report.cost, out);
  } else {
    out.null();
  }
  out.key("status").integer(report.numerics.code()).key("tensors").begin_array();
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    const TensorInfo& info = report.tensors[i];
    out.begin_object().key("name").string(info.name);
    out.key("usage").string(info.is_input ? "input" : "output");
    out.key("type").string(numpy_type(info.dtype)).key("shape").begin_array();
    for (const int64_t extent : info.shape) {
      out.integer(extent);
    }
    out.end_array().key("bytes").unsigned_integer(info.bytes).key("file");
    const std::string file = info.is_input ? report.sources[i] : report.request.output.value_or("");
    if (file.empty()) {
      out.null();
    } else {
      out.string(file);
    }
    out.end_object();
  }
  return out.end_array().end_object().take() + "\n";
}

}  // namespace onrt::tools
