// SPDX-License-Identifier: Apache-2.0
// What torch asks of a device type: allocator, device guard, hooks, generator.
#include "python/torch_neuronx/csrc/aten/backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <random>
#include <unordered_map>

#include "python/torch_neuronx/csrc/aten/tensor.h"
#include "python/torch_neuronx/csrc/device.h"
#include "python/torch_neuronx/csrc/queue.h"

namespace tnx {

std::optional<Type> type_of(c10::ScalarType type) {
  using c10::ScalarType;
  switch (type) {
    case ScalarType::Bool:
      return kPred;
    case ScalarType::Byte:
      return kU8;
    case ScalarType::Char:
      return kS8;
    case ScalarType::Short:
      return kS16;
    case ScalarType::Int:
      return kS32;
    case ScalarType::Long:
      return kS64;
    case ScalarType::UInt16:
      return kU16;
    case ScalarType::UInt32:
      return kU32;
    case ScalarType::UInt64:
      return kU64;
    case ScalarType::Half:
      return kF16;
    case ScalarType::BFloat16:
      return kBF16;
    case ScalarType::Float:
      return kF32;
    case ScalarType::Double:
      return kF64;
    case ScalarType::Float8_e5m2:
      return NRTCC_F8E5M2;
    case ScalarType::Float8_e4m3fn:
      return NRTCC_F8E4M3FN;
    default:
      return std::nullopt;
  }
}

// ---- memory -------------------------------------------------------------------------------------

namespace {

void delete_block(void* context) { release(static_cast<Block*>(context)); }

// One of torch's counters from one of ours.
c10::CachingAllocator::StatArray stat_of(const MemoryStats::Counter& counter) {
  c10::CachingAllocator::StatArray all;
  auto& stat = all[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  stat.current = counter.current;
  stat.peak = counter.peak;
  stat.allocated = counter.allocated;
  stat.freed = counter.freed;
  return all;
}

// What torch.accelerator asks beside memory itself.
struct DeviceAllocator final : c10::DeviceAllocator {
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    translated([] { tnx::empty_cache(current_device()); });
  }
  void recordStream(const c10::DataPtr& /*memory*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const MemoryStats ours = tnx::memory_stats(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocation = stats.active = stat_of(ours.allocations);
    stats.segment = stat_of(ours.segments);
    stats.allocated_bytes = stats.active_bytes = stat_of(ours.allocated_bytes);
    stats.reserved_bytes = stat_of(ours.reserved_bytes);
    stats.requested_bytes = stat_of(ours.requested_bytes);
    stats.num_alloc_retries = ours.retries;
    stats.num_ooms = ours.out_of_memory;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    tnx::reset_accumulated_stats(device);
  }
  void resetPeakStats(c10::DeviceIndex device) override { tnx::reset_peak_stats(device); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return translated([&] {
      const auto total = static_cast<size_t>(total_memory(device));
      const auto reserved = static_cast<size_t>(tnx::memory_stats(device).reserved_bytes.current);
      return std::pair(total - std::min(total, reserved), total);
    });
  }
  c10::DataPtr allocate(size_t bytes) override {
    const int device = current_device();
    return translated([&] {
      Block* block = tnx::allocate(device, bytes);
      return c10::DataPtr(block == nullptr ? nullptr : block->address(), block, &delete_block,
                          c10::Device(kDevice, static_cast<c10::DeviceIndex>(device)));
    });
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "raw device memory can't be copied; copy tensors");
  }
};

DeviceAllocator allocator;
REGISTER_ALLOCATOR(kDevice, &allocator)

// Page-aligned host memory that is known as pinned: the emulator has nothing to pin, and a device
// reads it like any other.
struct PinnedAllocator final : c10::Allocator {
  std::mutex mutex;
  std::unordered_map<void*, size_t> blocks;

  static PinnedAllocator& get() {
    static auto* const self = new PinnedAllocator;  // outlives all tensors
    return *self;
  }
  c10::DataPtr allocate(size_t bytes) override {
    void* address = nullptr;
    if (bytes > 0) {
      constexpr size_t kPage = 4096;
      TORCH_CHECK(posix_memalign(&address, kPage, bytes) == 0, "out of host memory: ", bytes,
                  " bytes");
      const std::lock_guard lock(mutex);
      blocks[address] = bytes;
    }
    return {address, address, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  static void free_block(void* address) {
    if (address == nullptr) {
      return;
    }
    const std::lock_guard lock(get().mutex);
    get().blocks.erase(address);
    std::free(address);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool owns(const void* address) {
    const std::lock_guard lock(mutex);
    for (const auto& [begin, bytes] : blocks) {
      const auto* first = static_cast<const char*>(begin);
      if (address >= first && address < first + bytes) {
        return true;
      }
    }
    return false;
  }
};

}  // namespace

c10::Allocator* device_allocator() { return &allocator; }

Block* block_of(const at::Tensor& tensor) {
  const c10::DataPtr& pointer = tensor.storage().data_ptr();
  if (pointer.get() != nullptr && pointer.get_deleter() != &delete_block) {
    // torch wraps a storage's pointer in a tensor of its own, to pickle it.
    Block* block = block_at(pointer.get());
    TORCH_CHECK(block != nullptr, "this memory does not belong to device neuron");
    return block;
  }
  return static_cast<Block*>(pointer.get_context());
}

Layout layout_of(const at::Tensor& tensor) {
  return {Dims(tensor.sizes().begin(), tensor.sizes().end()),
          Dims(tensor.strides().begin(), tensor.strides().end())};
}

int64_t byte_offset(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
}

Flat flat_of(const at::Tensor& tensor, const Layout& layout) {
  const int64_t offset = tensor.storage_offset();
  const auto stored = static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
  const int64_t wanted = wanted_length(layout);
  if (wanted > stored - offset) {  // whole rows may lie in front
    const int64_t start = row_start(layout, offset);
    if (start > 0 && wanted <= stored - offset + start) {
      return {start, wanted};
    }
  }
  return {0, std::min(wanted, stored - offset)};
}

at::Tensor empty_on(int device, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                    c10::ScalarType type) {
  const auto make = [&] {
    return at::detail::empty_strided_generic(
        sizes, strides, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
  };
  const int before = current_device();
  if (before == device) {
    return make();
  }
  exchange_device(device);
  struct Restore {
    int device;
    ~Restore() { exchange_device(device); }
  } restore{before};
  return make();
}

// ---- streams and events -------------------------------------------------------------------------

namespace {

// A device has one queue: its streams are numbers, and in order with each other. Stream 0 is the
// default one.
constexpr c10::StreamId kMostStreams = 32;
thread_local std::unordered_map<int, c10::StreamId> current_streams;
std::atomic<c10::StreamId> next_stream{1};

struct Event {
  std::shared_ptr<Mark> mark;  // of the last record
};

const Mark& recorded(void* event) {
  TORCH_CHECK(event != nullptr && static_cast<Event*>(event)->mark != nullptr,
              "both events must be recorded before the time between them is taken");
  return *static_cast<Event*>(event)->mark;
}

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, device), id);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kDevice, "expected a neuron device, found ", device);
    const int before = current_device();
    if (device.has_index() && device.index() != before) {
      translated([&] { return exchange_device(device.index()); });
    }
    return {kDevice, static_cast<c10::DeviceIndex>(before)};
  }
  c10::Device getDevice() const override {
    return {kDevice, static_cast<c10::DeviceIndex>(current_device())};
  }
  void setDevice(c10::Device device) const override { exchangeDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    try {
      if (device.has_index()) {
        exchange_device(device.index());
      }
    } catch (const Error&) {  // the interface has no way to say it; the next use does
    }
  }
  c10::Stream getStream(c10::Device device) const override {
    const int index = device.has_index() ? device.index() : current_device();
    const auto at = current_streams.find(index);
    return stream_of(static_cast<c10::DeviceIndex>(index),
                     at == current_streams.end() ? 0 : at->second);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream_of(
        device.has_index() ? device.index() : static_cast<c10::DeviceIndex>(current_device()), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    const c10::StreamId id = 1 + next_stream.fetch_add(1) % kMostStreams;
    return stream_of(
        device.has_index() ? device.index() : static_cast<c10::DeviceIndex>(current_device()), id);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) {
      *event = new Event;
    }
    static_cast<Event*>(*event)->mark = translated([&] { return mark(stream.device_index()); });
  }
  // What is queued on the event's own device comes later anyway.
  void block(void* event, const c10::Stream& stream) const override {
    const auto* e = static_cast<Event*>(event);
    if (e != nullptr && e->mark != nullptr && e->mark->device() != stream.device_index()) {
      translated([&] { wait(*e->mark); });
    }
  }
  bool queryEvent(void* event) const override {
    const auto* e = static_cast<Event*>(event);
    return e == nullptr || e->mark == nullptr || query(*e->mark);
  }
  void synchronizeEvent(void* event) const override {
    const auto* e = static_cast<Event*>(event);
    if (e != nullptr && e->mark != nullptr) {
      translated([&] { wait(*e->mark); });
    }
  }
  bool queryStream(const c10::Stream& stream) const override {
    return is_idle(stream.device_index());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    translated([&] { synchronize(stream.device_index()); });
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    translated([&] { synchronize(device); });
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    const Mark& begin = recorded(first);
    const Mark& end = recorded(second);
    translated([&] {
      wait(begin);
      wait(end);
    });
    return std::chrono::duration<double, std::milli>(end.when() - begin.when()).count();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

// ---- random numbers -----------------------------------------------------------------------------

namespace {

constexpr size_t kStateBytes = 16;  // seed, offset: what DTensor's tracker expects of Philox

struct NeuronGenerator final : c10::GeneratorImpl {
  explicit NeuronGenerator(c10::DeviceIndex device)
      : c10::GeneratorImpl(c10::Device(kDevice, device),
                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    std::random_device device;
    set_current_seed((uint64_t{device()} << 32 | device()) & 0x1fffffffffffff);
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                    state.numel() == static_cast<int64_t>(kStateBytes) && state.is_contiguous() &&
                    state.is_cpu(),
                "the state of a neuron generator is a CPU tensor of ", kStateBytes, " uint8");
    const auto* bytes = static_cast<const uint8_t*>(state.data());
    std::memcpy(&seed_, bytes, 8);
    std::memcpy(&offset_, bytes + 8, 8);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::empty({static_cast<int64_t>(kStateBytes)},
                                 at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    auto* bytes = state.data_ptr<uint8_t>();
    std::memcpy(bytes, &seed_, 8);
    std::memcpy(bytes + 8, &offset_, 8);
    return state.getIntrusivePtr();
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    seed_ = other->current_seed();
    offset_ = other->get_offset();
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::intrusive_ptr<c10::GeneratorImpl>::reclaim(clone_impl());
  }
  NeuronGenerator* clone_impl() const override {
    auto* copy = new NeuronGenerator(device().index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }
  static c10::DeviceType device_type() { return kDevice; }

 private:
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

}  // namespace

const at::Generator& default_generator(int device) {
  static std::mutex mutex;
  static auto& generators = *new std::deque<at::Generator>();
  const std::lock_guard lock(mutex);
  const int index = device < 0 ? current_device() : device;
  while (static_cast<int>(generators.size()) <= index) {
    generators.push_back(
        at::make_generator<NeuronGenerator>(static_cast<c10::DeviceIndex>(generators.size())));
  }
  return generators[static_cast<size_t>(index)];
}

RandomState draw(const std::optional<at::Generator>& generator, int device, uint64_t elements) {
  at::Generator g =
      generator.has_value() && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(g.device().type() == kDevice,
              "Expected a 'neuron' device type for generator but found '", g.device().type(), "'");
  const std::lock_guard lock(g.mutex());
  const RandomState state{g.current_seed(), g.get_offset()};
  // Philox gives four 32-bit words a step.
  g.set_offset(state.offset + (elements + 3) / 4);
  return state;
}

// ---- hooks --------------------------------------------------------------------------------------

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return initialized(); }
  void init() const override {
    translated([] { initialize(); });
  }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    translated([&] { exchange_device(device); });
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return static_cast<c10::DeviceIndex>(translated([&] { return exchange_device(device); }));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<NeuronGenerator>(
        device < 0 ? static_cast<c10::DeviceIndex>(current_device()) : device);
  }
  at::Device getDeviceFromPtr(void*) const override {
    return {kDevice, static_cast<c10::DeviceIndex>(current_device())};
  }
  bool isPinnedPtr(const void* address) const override {
    return PinnedAllocator::get().owns(address);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedAllocator::get(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    translated([&] { resize_storage(storage, bytes); });
  }
};

}  // namespace

void resize_storage(const c10::Storage& storage, size_t bytes) {
  auto* impl = storage.unsafeGetStorageImpl();
  TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
  auto* old = static_cast<Block*>(impl->data_ptr().get_context());
  const int device = impl->device().index();
  Block* block = allocate(device, bytes);
  const size_t kept = std::min(bytes, impl->nbytes());
  if (kept > 0) {
    copy(old, 0, block, 0, kept);
  }
  impl->set_data_ptr_noswap(c10::DataPtr(block == nullptr ? nullptr : block->address(), block,
                                         &delete_block, impl->device()));
  impl->set_nbytes(bytes);
}

void register_hooks() {
  static auto* const hooks = new Hooks;
  at::RegisterPrivateUse1HooksInterface(hooks);
}

}  // namespace tnx
