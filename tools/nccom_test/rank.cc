// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom_test/rank.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "nrt/nrt.h"
#include "opennrt/collectives.h"
#include "opennrt/opennrt.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"
#include "tools/common/npy.h"
#include "tools/nccom_test/elements.h"
#include "tools/nccom_test/option_files.h"

namespace onrt::tools::nccom {
namespace {

using Clock = std::chrono::steady_clock;

// onrt_* exist in our library only.
template <class Function>
Function find_extension(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

Status checked(NRT_STATUS status, const char* call) {
  if (status == NRT_SUCCESS) {
    return ok_status();
  }
  const auto last_error = find_extension<decltype(&onrt_last_error)>("onrt_last_error");
  const std::string detail = last_error != nullptr ? last_error() : "";
  return Status(status, format("{}: {}", call,
                               detail.empty() ? nrt_get_status_as_str(status) : detail.c_str()));
}

onrt_cc_dtype_t dtype_of(const TypeRow& type) {
  static constexpr std::pair<std::string_view, onrt_cc_dtype_t> kNumbers[] = {
      {"uint8", ONRT_CC_U8},  {"int8", ONRT_CC_S8},    {"uint16", ONRT_CC_U16},
      {"int16", ONRT_CC_S16}, {"fp8", ONRT_CC_F8E4M3}, {"fp16", ONRT_CC_F16},
      {"bf16", ONRT_CC_BF16}, {"int32", ONRT_CC_S32},  {"uint32", ONRT_CC_U32},
      {"fp32", ONRT_CC_F32}};
  return std::ranges::find(kNumbers, type.name, [](const auto& row) { return row.first; })->second;
}

// Device or host memory of an operation's input or output.
class Memory {
 public:
  static Result<std::unique_ptr<Memory>> allocate(const onrt_cc_api_t& cc, onrt_cc_comm_t* comm,
                                                  Buffers place, uint64_t bytes) {
    std::unique_ptr<Memory> memory(new Memory(cc, comm, bytes));
    const uint64_t size = std::max<uint64_t>(bytes, 1);
    ONRT_RETURN_IF_ERROR(
        place == Buffers::kDevice
            ? checked(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, size, "nccom-test",
                                          &memory->tensor_),
                      "nrt_tensor_allocate")
            : checked(cc.host_allocate(comm, size, &memory->host_), "host_allocate"));
    return memory;
  }
  ~Memory() {
    if (tensor_ != nullptr) {
      nrt_tensor_free(&tensor_);
    }
    if (host_ != nullptr) {
      cc_.host_free(comm_, host_);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  onrt_cc_buffer_t at(uint64_t offset) const { return {tensor_, host_, offset}; }
  Status write(uint64_t offset, std::span<const std::byte> data) {
    if (data.empty()) {
      return ok_status();
    }
    if (host_ != nullptr) {
      std::memcpy(static_cast<std::byte*>(host_) + offset, data.data(), data.size());
      return ok_status();
    }
    return checked(nrt_tensor_write(tensor_, data.data(), offset, data.size()), "nrt_tensor_write");
  }
  Status read(uint64_t offset, std::span<std::byte> data) const {
    if (data.empty()) {
      return ok_status();
    }
    if (host_ != nullptr) {
      std::memcpy(data.data(), static_cast<const std::byte*>(host_) + offset, data.size());
      return ok_status();
    }
    return checked(nrt_tensor_read(tensor_, data.data(), offset, data.size()), "nrt_tensor_read");
  }

 private:
  Memory(const onrt_cc_api_t& cc, onrt_cc_comm_t* comm, uint64_t bytes)
      : cc_(cc), comm_(comm), bytes_(bytes) {}
  const onrt_cc_api_t& cc_;
  onrt_cc_comm_t* const comm_;
  const uint64_t bytes_;
  nrt_tensor_t* tensor_ = nullptr;
  void* host_ = nullptr;
};

// Part of an output that must be part of a rank's input.
struct Piece {
  uint64_t out = 0;  // elements
  int rank = 0;
  uint64_t first = 0;
  uint64_t count = 0;
};

class Rank {
 public:
  Rank(const Options& options, const onrt_cc_api_t& cc, uint64_t seed, int rank)
      : options_(options), series_(options.series), cc_(cc), seed_(seed), rank_(rank) {
    for (const std::vector<int>& group : series_.groups) {
      const auto at = std::ranges::find(group, rank);
      if (at != group.end()) {
        ranks_ = group;
        place_ = static_cast<size_t>(at - group.begin());
      }
    }
  }
  ~Rank() {
    in_.reset();
    out_.reset();
    if (group_ != nullptr) {
      cc_.group_destroy(group_);
    }
    if (comm_ != nullptr) {
      cc_.destroy(comm_);
    }
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  bool takes_part() const { return !ranks_.empty(); }

  Status join(const std::string& root) {
    onrt_cc_init_t init = {};
    init.struct_size = sizeof(init);
    init.root = root.c_str();
    init.rank = rank_;
    init.size = options_.workers;
    init.timeout_ms = static_cast<uint64_t>(options_.timeout_seconds) * 1000;
    init.join_timeout_ms = init.timeout_ms;
    init.algorithm = series_.algorithm.empty() ? nullptr : series_.algorithm.c_str();
    ONRT_RETURN_IF_ERROR(checked(cc_.init(&init, &comm_), "init"));
    if (!takes_part()) {
      return ok_status();
    }
    const std::vector<uint32_t> ranks(ranks_.begin(), ranks_.end());
    return checked(cc_.group(comm_, ranks.data(), ranks.size(), &group_), "group");
  }

  // All ranks leave together: nobody waits for one that has gone.
  Status leave() {
    onrt_cc_group_t* world = nullptr;
    ONRT_RETURN_IF_ERROR(checked(cc_.world(comm_, &world), "world"));
    return checked(cc_.barrier(world, nullptr), "barrier");
  }

  Status run_size(uint64_t size, RowMessage* message, std::vector<double>* times) {
    measure(size);
    in_.reset();
    out_.reset();
    const int copies = series_.unique_buffers ? series_.iterations + series_.warmup : 1;
    ONRT_ASSIGN_OR_RETURN(in_, Memory::allocate(cc_, comm_, options_.buffers,
                                                in_bytes_ * static_cast<uint64_t>(copies)));
    ONRT_ASSIGN_OR_RETURN(out_, Memory::allocate(cc_, comm_, options_.buffers,
                                                 out_bytes_ * static_cast<uint64_t>(copies)));
    input_.resize(in_bytes_);
    fill_input(series_, seed_, rank_, 0, input_);
    for (int copy = 0; copy < copies; ++copy) {
      ONRT_RETURN_IF_ERROR(in_->write(in_bytes_ * static_cast<uint64_t>(copy), input_));
    }
    for (int i = 0; i < series_.warmup; ++i) {
      ONRT_RETURN_IF_ERROR(call(i));
    }
    ONRT_RETURN_IF_ERROR(checked(cc_.barrier(group_, nullptr), "barrier"));
    times->resize(static_cast<size_t>(series_.iterations));
    for (int i = 0; i < series_.iterations; ++i) {
      const auto start = Clock::now();
      ONRT_RETURN_IF_ERROR(call(series_.warmup + i));
      (*times)[static_cast<size_t>(i)] =
          std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    }
    describe(message);
    return series_.check == Check::kNone ? ok_status() : check_last(copies - 1, message);
  }

 private:
  uint64_t own(const std::vector<uint64_t>& counts, const std::vector<uint64_t>& offsets) const {
    return extent(counts, offsets) * series_.type.bytes;
  }

  // Bytes of this rank's buffers for a size.
  void measure(uint64_t size) {
    const int ranks = static_cast<int>(ranks_.size());
    elements_ = usable_size(series_, size, ranks) / series_.type.bytes;
    shape_ = shape_of(series_.operation, elements_, ranks);
    in_bytes_ = shape_.input * series_.type.bytes;
    out_bytes_ = shape_.output * series_.type.bytes;
    if (!series_.variable.empty()) {
      const VariableSizes& sizes = series_.variable[place_];
      in_bytes_ = own(sizes.send_counts, sizes.send_displacements);
      out_bytes_ = own(sizes.receive_counts, sizes.receive_displacements);
    }
  }

  Status call(int index) {
    const uint64_t copy = series_.unique_buffers ? static_cast<uint64_t>(index) : 0;
    const onrt_cc_buffer_t in = in_->at(in_bytes_ * copy);
    const onrt_cc_buffer_t out = out_->at(out_bytes_ * copy);
    const onrt_cc_dtype_t dtype = dtype_of(series_.type);
    const uint64_t block = elements_ / ranks_.size();
    switch (series_.operation) {
      case Operation::kAllReduce:
        return checked(cc_.all_reduce(group_, &in, &out, elements_, dtype, ONRT_CC_SUM, nullptr),
                       "all_reduce");
      case Operation::kAllGather:
        return checked(cc_.all_gather(group_, &in, &out, block, dtype, nullptr), "all_gather");
      case Operation::kAllGatherV:
        return all_gather_v(in, out, dtype);
      case Operation::kReduceScatter:
        return checked(cc_.reduce_scatter(group_, &in, &out, block, dtype, ONRT_CC_SUM, nullptr),
                       "reduce_scatter");
      case Operation::kAllToAll:
        return checked(cc_.all_to_all(group_, &in, &out, block, dtype, nullptr), "all_to_all");
      case Operation::kAllToAllV:
        return all_to_all_v(in, out, dtype);
      case Operation::kSendReceive:
        return send_or_receive(in, out, dtype);
      case Operation::kPermute:
        return permute(in, out, dtype);
    }
    return Status(NRT_INVALID, "unknown operation");
  }

  Status all_gather_v(const onrt_cc_buffer_t& in, const onrt_cc_buffer_t& out,
                      onrt_cc_dtype_t dtype) {
    std::vector<uint64_t> counts(ranks_.size(), elements_ / ranks_.size());
    const uint64_t* offsets = nullptr;
    if (!series_.variable.empty()) {
      counts = series_.variable[place_].receive_counts;
      offsets = series_.variable[place_].receive_displacements.data();
    }
    return checked(cc_.all_gather_v(group_, &in, &out, counts.data(), offsets, dtype, nullptr),
                   "all_gather_v");
  }

  Status all_to_all_v(const onrt_cc_buffer_t& in, const onrt_cc_buffer_t& out,
                      onrt_cc_dtype_t dtype) {
    if (series_.variable.empty()) {
      const std::vector<uint64_t> counts(ranks_.size(), elements_ / ranks_.size());
      return checked(cc_.all_to_all_v(group_, &in, &out, counts.data(), nullptr, counts.data(),
                                      nullptr, dtype, nullptr),
                     "all_to_all_v");
    }
    const VariableSizes& sizes = series_.variable[place_];
    return checked(cc_.all_to_all_v(group_, &in, &out, sizes.send_counts.data(),
                                    sizes.send_displacements.data(), sizes.receive_counts.data(),
                                    sizes.receive_displacements.data(), dtype, nullptr),
                   "all_to_all_v");
  }

  // Both at once: a rank may be source of one pair and target of another.
  Status send_or_receive(const onrt_cc_buffer_t& in, const onrt_cc_buffer_t& out,
                         onrt_cc_dtype_t dtype) {
    onrt_cc_request_t* requests[2] = {};
    int count = 0;
    Status status = ok_status();
    for (const auto& [source, target] : series_.pairs) {
      if (static_cast<size_t>(source) == place_) {
        status = checked(cc_.send(group_, &in, elements_, dtype, target, &requests[count]), "send");
        count += status.ok() ? 1 : 0;
      }
      if (status.ok() && static_cast<size_t>(target) == place_) {
        status = checked(cc_.receive(group_, &out, elements_, dtype, source, &requests[count]),
                         "receive");
        count += status.ok() ? 1 : 0;
      }
    }
    for (int i = 0; i < count; ++i) {
      Status ended = checked(cc_.request_wait(requests[i]), "request_wait");
      if (status.ok()) {
        status = std::move(ended);
      }
      cc_.request_free(requests[i]);
    }
    return status;
  }

  Status permute(const onrt_cc_buffer_t& in, const onrt_cc_buffer_t& out, onrt_cc_dtype_t dtype) {
    std::vector<int32_t> pairs;
    for (const auto& [source, target] : series_.pairs) {
      pairs.push_back(source);
      pairs.push_back(target);
    }
    return checked(cc_.permute(group_, &in, &out, elements_, dtype, pairs.data(),
                               series_.pairs.size(), nullptr),
                   "permute");
  }

  void describe(RowMessage* message) const {
    onrt_cc_last_call_t last = {};
    last.struct_size = sizeof(last);
    if (cc_.last_call(group_, &last) == NRT_SUCCESS) {
      std::memcpy(message->algorithm, last.algorithm, sizeof(message->algorithm));
      std::memcpy(message->transport, last.transport, sizeof(message->transport));
      std::memcpy(message->why, last.why, sizeof(message->why));
    }
    if (series_.operation == Operation::kSendReceive) {
      std::snprintf(message->algorithm, sizeof(message->algorithm), "message");
    }
  }

  std::vector<Piece> pieces() const {
    std::vector<Piece> list;
    const uint64_t block = elements_ / ranks_.size();
    for (size_t peer = 0; peer < ranks_.size(); ++peer) {
      const int rank = ranks_[peer];
      switch (series_.operation) {
        case Operation::kAllGather:
          list.push_back({peer * block, rank, 0, block});
          break;
        case Operation::kAllToAll:
          list.push_back({peer * block, rank, place_ * block, block});
          break;
        case Operation::kAllGatherV:
        case Operation::kAllToAllV:
          list.push_back(variable_piece(peer, block));
          break;
        default:
          break;
      }
    }
    for (const auto& [source, target] : series_.pairs) {
      if (static_cast<size_t>(target) == place_) {
        list.push_back({0, ranks_[static_cast<size_t>(source)], 0, elements_});
      }
    }
    return list;
  }

  Piece variable_piece(size_t peer, uint64_t block) const {
    const bool all_to_all = series_.operation == Operation::kAllToAllV;
    if (series_.variable.empty()) {
      return {peer * block, ranks_[peer], all_to_all ? place_ * block : 0, block};
    }
    const VariableSizes& own = series_.variable[place_];
    const uint64_t first = all_to_all ? series_.variable[peer].send_displacements[place_]
                                      : series_.variable[peer].send_displacements[0];
    return {own.receive_displacements[peer], ranks_[peer], first, own.receive_counts[peer]};
  }

  Status check_last(int copy, RowMessage* message) {
    std::vector<std::byte> result(out_bytes_);
    ONRT_RETURN_IF_ERROR(out_->read(out_bytes_ * static_cast<uint64_t>(copy), result));
    const bool equal_everywhere =
        series_.operation == Operation::kAllReduce || series_.operation == Operation::kAllGather;
    message->digest = equal_everywhere ? digest_of(result) : 0;
    if (series_.operation == Operation::kAllReduce ||
        series_.operation == Operation::kReduceScatter) {
      const uint64_t first =
          series_.operation == Operation::kReduceScatter ? place_ * shape_.output : 0;
      const ExpectedSum expected(series_, seed_, ranks_, first, shape_.output);
      const uint64_t wrong = expected.first_wrong(result);
      return wrong == shape_.output ? ok_status() : mismatch(wrong, result, expected.golden());
    }
    std::vector<std::byte> golden = result;
    const uint64_t unit = series_.type.bytes;
    for (const Piece& piece : pieces()) {
      fill_input(series_, seed_, piece.rank, piece.first,
                 std::span(golden).subspan(piece.out * unit, piece.count * unit));
    }
    const auto differs = std::ranges::mismatch(golden, result).in1 - golden.begin();
    return static_cast<size_t>(differs) == golden.size()
               ? ok_status()
               : mismatch(static_cast<uint64_t>(differs) / unit, result, golden);
  }

  Status mismatch(uint64_t index, const std::vector<std::byte>& result,
                  const std::vector<std::byte>& golden) const {
    const std::string type = format("|V{}", series_.type.bytes);
    const auto array = [&](const std::vector<std::byte>& data) {
      return Array{type, {static_cast<int64_t>(data.size() / series_.type.bytes)}, data};
    };
    const std::string path =
        format("{}/nccom_test_check_{}_rank{}.npz", variable("TMPDIR", "/tmp"), ::getpid(), rank_);
    const Status saved = write_file(
        path,
        make_npz({{"input", array(input_)}, {"output", array(result)}, {"golden", array(golden)}}));
    return Status(
        NRT_FAILURE,
        format("wrong result: element {} is {}, expected {} (seed {}; {})", index,
               element_text(series_.type, result, index), element_text(series_.type, golden, index),
               seed_, saved.ok() ? "data in " + path : std::string(saved.message())));
  }

  const Options& options_;
  const Series& series_;
  const onrt_cc_api_t& cc_;
  const uint64_t seed_;
  const int rank_;
  std::vector<int> ranks_;  // of the group
  size_t place_ = 0;        // in it
  onrt_cc_comm_t* comm_ = nullptr;
  onrt_cc_group_t* group_ = nullptr;
  uint64_t elements_ = 0;
  Shape shape_;
  uint64_t in_bytes_ = 0;
  uint64_t out_bytes_ = 0;
  std::vector<std::byte> input_;
  std::unique_ptr<Memory> in_;
  std::unique_ptr<Memory> out_;
};

void send(int pipe, const RowMessage& message, const std::vector<double>& times) {
  const std::string_view head(reinterpret_cast<const char*>(&message), sizeof(message));
  const std::string_view tail(reinterpret_cast<const char*>(times.data()),
                              times.size() * sizeof(double));
  // The parent may be gone: then nobody wants to know.
  if (!write_fully(pipe, head) || !write_fully(pipe, tail)) {
    std::_Exit(1);
  }
}

int fail(int pipe, int rank, int row, const Status& status) {
  RowMessage message;
  message.row = row;
  message.rank = rank;
  message.failed = 1;
  std::snprintf(message.text, sizeof(message.text), "%s", std::string(status.message()).c_str());
  std::fprintf(stderr, "rank %d: %s\n", rank, message.text);
  send(pipe, message, {});
  return 1;
}

// Each rank has the core of its number.
Status start_runtime(const Options& options, int rank) {
  if (options.buffers == Buffers::kHost) {
    return ok_status();
  }
  // NOLINTBEGIN(concurrency-mt-unsafe): no thread was started yet
  unsetenv("NEURON_RT_NUM_CORES");
  setenv("NEURON_RT_VISIBLE_CORES", std::to_string(rank).c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
  Status status = checked(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init");
  return status.ok() ? ok_status() : std::move(status).annotate("--buffers host needs no cores");
}

int run_all(const Options& options, const onrt_cc_api_t& cc, const std::string& root, uint64_t seed,
            int number, int pipe) {
  Rank rank(options, cc, seed, number);
  if (Status status = rank.join(root); !status.ok()) {
    return fail(pipe, number, RowMessage::kStart, status);
  }
  const auto rows = static_cast<int>(options.series.sizes.size());
  for (int row = 0; row < rows && rank.takes_part(); ++row) {
    RowMessage message;
    std::vector<double> times;
    message.row = row;
    message.rank = number;
    const Status status =
        rank.run_size(options.series.sizes[static_cast<size_t>(row)], &message, &times);
    if (!status.ok()) {
      return fail(pipe, number, row, status);
    }
    message.times = times.size();
    send(pipe, message, times);
  }
  if (Status status = rank.leave(); !status.ok()) {
    return fail(pipe, number, RowMessage::kStart, status);
  }
  RowMessage end;
  end.row = RowMessage::kEnd;
  end.rank = number;
  send(pipe, end, {});
  return 0;
}

}  // namespace

int run_rank(const Options& options, const std::string& root, uint64_t seed, int rank, int pipe) {
  const auto api = find_extension<decltype(&onrt_cc_api)>("onrt_cc_api");
  const onrt_cc_api_t* const cc = api != nullptr ? api(ONRT_CC_VERSION) : nullptr;
  if (cc == nullptr) {
    return fail(pipe, rank, RowMessage::kStart,
                Status(NRT_FAILURE, "this libnrt has no collectives that the host can start"));
  }
  if (Status status = start_runtime(options, rank); !status.ok()) {
    return fail(pipe, rank, RowMessage::kStart, status);
  }
  const int code = run_all(options, *cc, root, seed, rank, pipe);
  if (options.buffers == Buffers::kDevice) {
    nrt_close();
  }
  return code;
}

}  // namespace onrt::tools::nccom
