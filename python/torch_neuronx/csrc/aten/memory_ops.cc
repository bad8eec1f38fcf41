// SPDX-License-Identifier: Apache-2.0
// Operations that make, view, move and copy tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_copy_from_native.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/all.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <array>
#include <unordered_map>

#include "python/torch_neuronx/csrc/aten/backend.h"
#include "python/torch_neuronx/csrc/aten/overlap.h"
#include "python/torch_neuronx/csrc/aten/tensor.h"
#include "python/torch_neuronx/csrc/device.h"
#include "python/torch_neuronx/csrc/program.h"
#include "python/torch_neuronx/csrc/queue.h"

namespace tnx {
namespace {

using OptType = std::optional<at::ScalarType>;
using OptLayout = std::optional<at::Layout>;
using OptDevice = std::optional<at::Device>;
using OptBool = std::optional<bool>;

int index_of(const OptDevice& device) {
  return device.has_value() && device->has_index() ? device->index() : current_device();
}

void check_factory(const OptLayout& layout, const OptBool& pinned) {
  TORCH_CHECK(!layout.has_value() || *layout == at::kStrided,
              "device neuron holds strided tensors only");
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
}

// With torch.use_deterministic_algorithms memory that nobody wrote is filled, as on the CPU.
at::Tensor determined(at::Tensor tensor) {
  if (at::globalContext().deterministicAlgorithms() &&
      at::globalContext().deterministicFillUninitializedMemory()) {
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

at::Tensor empty(c10::IntArrayRef sizes, OptType type, OptLayout layout, OptDevice device,
                 OptBool pinned, std::optional<at::MemoryFormat> format) {
  check_factory(layout, pinned);
  const int before = translated([&] { return exchange_device(index_of(device)); });
  struct Restore {
    int device;
    ~Restore() { exchange_device(device); }
  } restore{before};
  return determined(at::detail::empty_generic(
      sizes, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      type.value_or(at::get_default_dtype_as_scalartype()), format));
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, OptType type,
                         OptLayout layout, OptDevice device, OptBool pinned) {
  check_factory(layout, pinned);
  return translated([&] {
    return determined(empty_on(index_of(device), sizes, strides,
                               type.value_or(at::get_default_dtype_as_scalartype())));
  });
}

// ---- copies -------------------------------------------------------------------------------------

struct CopyKey {
  std::vector<int64_t> words;
  bool operator==(const CopyKey&) const = default;
};
struct CopyHash {
  size_t operator()(const CopyKey& key) const {
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (const int64_t word : key.words) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// Bytes of a storage, from and to.
std::pair<int64_t, int64_t> range_of(const at::Tensor& tensor, const Flat& flat) {
  const auto width = static_cast<int64_t>(tensor.itemsize());
  const int64_t begin = byte_offset(tensor) - flat.start * width;
  return {begin, begin + flat.length * width};
}

nrt_tensor_t* memory_of(const at::Tensor& tensor, const Flat& flat) {
  const auto [begin, end] = range_of(tensor, flat);
  return tensor_of(block_of(tensor), static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

// Between tensors of one device: one program for each pair of layouts and types.
void copy_on_device(const at::Tensor& source, const at::Tensor& target) {
  const auto from = type_of(source.scalar_type());
  const auto to = type_of(target.scalar_type());
  TORCH_CHECK(from && to, "copying ", source.scalar_type(), " to ", target.scalar_type(),
              " on device neuron");
  const Layout read{layout_of(source)};
  const Layout written{layout_of(target)};
  const Flat from_flat = flat_of(source, read);
  const Flat to_flat = flat_of(target, written);
  if (*from == *to && read == written && is_dense(read)) {
    const auto bytes = static_cast<size_t>(source.numel()) * source.itemsize();
    copy(target.device().index(), memory_of(source, {0, source.numel()}),
         memory_of(target, {0, target.numel()}), bytes);
    return;
  }
  static std::mutex mutex;
  static auto& programs = *new std::unordered_map<CopyKey, std::shared_ptr<Program>, CopyHash>();
  const int device = target.device().index();
  CopyKey key{
      {device, *from, *to, from_flat.start, from_flat.length, to_flat.start, to_flat.length}};
  for (const Dims* dims : {&read.sizes, &read.strides, &written.strides}) {
    key.words.push_back(static_cast<int64_t>(dims->size()));
    key.words.insert(key.words.end(), dims->begin(), dims->end());
  }
  const std::lock_guard lock(mutex);
  constexpr size_t kMostPrograms = 4096;
  if (programs.size() >= kMostPrograms && !programs.contains(key)) {
    programs.clear();
  }
  std::shared_ptr<Program>& program = programs[key];
  if (program == nullptr) {
    Graph g("copy");
    const Value in = g.parameter(*from, {from_flat.length});
    const Value out = g.parameter(*to, {to_flat.length});
    const Value value = g.convert(read_view(g, in, read, from_flat.start), *to);
    g.finish({write_view(g, out, value, written, to_flat.start)}, {1});
    dump_graph(g, "copy");
    program = std::make_shared<Program>(g, "copy", device, 2, 1);
  }
  nrt_tensor_t* const result = memory_of(target, to_flat);
  const std::array inputs{memory_of(source, from_flat), result};
  launch(device, program, inputs, {&result, 1});
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (!a.storage().is_alias_of(b.storage())) {
    return false;
  }
  const auto [a_begin, a_end] = range_of(a, flat_of(a, layout_of(a)));
  const auto [b_begin, b_end] = range_of(b, flat_of(b, layout_of(b)));
  return a_begin < b_end && b_begin < a_end;
}

at::Tensor contiguous_on(int device, c10::IntArrayRef sizes, at::ScalarType type) {
  const Dims strides = contiguous_strides(Dims(sizes.begin(), sizes.end()));
  return empty_on(device, sizes, strides, type);
}

void copy_to_device(const at::Tensor& source, const at::Tensor& target) {
  // Converted and laid out on the host: the device then gets one transfer.
  const Layout layout = layout_of(target);
  if (is_dense(layout)) {
    at::Tensor staged = source;
    if (source.scalar_type() != target.scalar_type() || source.strides() != target.strides() ||
        !is_dense(layout_of(source))) {
      staged = at::empty_strided(target.sizes(), target.strides(),
                                 at::TensorOptions().dtype(target.scalar_type()).device(at::kCPU));
      staged.copy_(source);
    }
    write(block_of(target), static_cast<size_t>(byte_offset(target)), staged.const_data_ptr(),
          static_cast<size_t>(target.numel()) * target.itemsize());
    return;
  }
  const at::Tensor staged =
      contiguous_on(target.device().index(), target.sizes(), target.scalar_type());
  copy_to_device(source, staged);
  copy_on_device(staged, target);
}

void copy_to_host(const at::Tensor& source, const at::Tensor& target) {
  at::Tensor dense = source;
  if (!is_dense(layout_of(source))) {
    dense = contiguous_on(source.device().index(), source.sizes(), source.scalar_type());
    copy_on_device(source, dense);
  }
  const bool direct =
      dense.scalar_type() == target.scalar_type() && dense.strides() == target.strides();
  const at::Tensor host =
      direct ? target
             : at::empty_strided(dense.sizes(), dense.strides(),
                                 at::TensorOptions().dtype(dense.scalar_type()).device(at::kCPU));
  read(block_of(dense), static_cast<size_t>(byte_offset(dense)), host.mutable_data_ptr(),
       static_cast<size_t>(dense.numel()) * dense.itemsize());
  if (!direct) {
    target.copy_(host);
  }
}

// The same memory without the mark that says "conjugate (negate) what is here".
at::Tensor unmarked(const at::Tensor& tensor) {
  at::Tensor plain = tensor.is_neg() ? at::_neg_view(tensor) : tensor;
  return plain.is_conj() ? at::_conj(plain) : plain;
}

// `target` has the sizes of `source`, stretched if need be.
void copy_any(const at::Tensor& source, const at::Tensor& target) {
  if (target.numel() == 0 || source.is_same(target)) {
    return;
  }
  const bool from_device = source.device().type() == kDevice;
  const bool to_device = target.device().type() == kDevice;
  const at::Tensor from = unmarked(source);
  const at::Tensor to = unmarked(target);
  if (source.is_conj() != target.is_conj() || source.is_neg() != target.is_neg() ||
      source.is_complex() != target.is_complex() ||
      (source.is_complex() && source.scalar_type() != target.scalar_type())) {
    // The host changes what is in memory.
    at::Tensor host = at::empty(source.sizes(), source.options().device(at::kCPU));
    copy_any(from, host);
    host = source.is_conj() ? at::_conj(host) : host;
    host = source.is_neg() ? at::_neg_view(host) : host;
    at::Tensor changed = at::empty(target.sizes(), target.options().device(at::kCPU));
    changed = target.is_conj() ? at::_conj(changed) : changed;
    changed = target.is_neg() ? at::_neg_view(changed) : changed;
    changed.copy_(host);
    copy_any(unmarked(changed), to);
    return;
  }
  if (from.is_complex()) {
    copy_any(at::view_as_real(from), at::view_as_real(to));
    return;
  }
  if (!from_device && !to_device) {
    to.copy_(from);
  } else if (!from_device) {
    copy_to_device(from, to);
  } else if (!to_device) {
    copy_to_host(from, to);
  } else if (source.device() != target.device()) {
    const at::Tensor host = at::empty(from.sizes(), from.options().device(at::kCPU));
    copy_to_host(from, host);
    copy_to_device(host, to);
  } else if (overlap(from, to)) {
    const at::Tensor staged =
        contiguous_on(from.device().index(), from.sizes(), from.scalar_type());
    copy_on_device(from, staged);
    copy_on_device(staged, to);
  } else {
    copy_on_device(from, to);
  }
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool /*non_blocking*/) {
  if (in_bad_fork()) {
    translated([] { initialize(); });  // says so
  }
  // Blocking either way: the host's memory may be changed or freed as soon as this returns.
  check_copy(source, target);
  translated([&] { copy_any(source.expand_as(target), target); });
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (!target.sizes().equals(source.sizes())) {
    target.resize_(source.sizes());
  }
  return copy_from(source, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) {
  const at::Tensor host = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  translated([&] { copy_any(tensor, host); });
  return host.item();
}

// ---- storage ------------------------------------------------------------------------------------

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> format) {
  if (self.sizes().equals(sizes) && !format.has_value()) {
    return self;  // the strides stay, as on the CPU
  }
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  const size_t bytes = static_cast<size_t>(self.numel() + self.storage_offset()) * self.itemsize();
  const auto before = static_cast<int64_t>(self.storage().nbytes());
  if (self.numel() > 0 && bytes > self.storage().nbytes()) {
    translated([&] { resize_storage(self.storage(), bytes); });
  }
  if (at::globalContext().deterministicAlgorithms() &&
      at::globalContext().deterministicFillUninitializedMemory()) {
    at::native::fill_resize_deterministic_(self, before);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, int64_t offset,
                        c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return at::native::set_storage_cpu_(self, std::move(storage), offset, sizes, strides);
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage storage) {
  const auto n = static_cast<int64_t>(storage.nbytes() / self.itemsize());
  return at::native::set_storage_cpu_(self, std::move(storage), 0, {n}, {});
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_storage_cpu_(self, source.storage(), source.storage_offset(),
                                      source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  const at::Tensor none =
      empty({0}, self.scalar_type(), std::nullopt, self.device(), std::nullopt, std::nullopt);
  return set_source_tensor(self, none);
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == other.storage_offset() && self.sizes().equals(other.sizes()) &&
         self.strides().equals(other.strides());
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  if (!self.sizes().equals(other.sizes())) {
    return false;
  }
  return self.numel() == 0 || at::all(at::eq(self, other)).item<bool>();
}

void record_stream(at::Tensor&, at::Stream) {}  // memory is reused in the order of programs

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Storage", TORCH_FN(set_source_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_source_tensor));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("is_set_to", TORCH_FN(is_set_to));
  m.impl("equal", TORCH_FN(equal));
  m.impl("record_stream", TORCH_FN(record_stream));
}

// Without these torch resolves the mark by a clone, which is a copy, and so on for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace tnx
