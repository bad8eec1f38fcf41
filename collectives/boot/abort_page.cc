// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/abort_page.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "collectives/boot/messages.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr uint32_t kFree = 0;
constexpr uint32_t kWriting = 1;
constexpr uint32_t kSet = 2;
// How long a writer may take between its two stores; it is dead if it takes longer.
constexpr std::chrono::milliseconds kWriterPatience{200};

Status system_failure(std::string_view what) {
  return Status(NRT_RESOURCE, format("{}: {}", what, std::generic_category().message(errno)));
}

}  // namespace

struct AbortPage::Shared {
  // kFree -> kWriting by the first cause (exchange), -> kSet with release once text is whole;
  // readers of other processes acquire it.
  std::atomic<uint32_t> state;
  uint32_t size;
  std::byte cause[kPageBytes - 2 * sizeof(uint32_t)];
};

Result<std::unique_ptr<AbortPage>> AbortPage::create() {
  UniqueFd memory(::memfd_create("opennrt-cc-abort", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  memory = above_standard_streams(std::move(memory));
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  event = above_standard_streams(std::move(event));
  if (!memory.valid() || !event.valid()) {
    return system_failure("page for aborts: memfd and eventfd");
  }
  // Sealed: nobody can cut it short under the others.
  if (::ftruncate(memory.get(), kPageBytes) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_failure("page for aborts");
  }
  return map(std::move(memory), std::move(event));
}

Result<std::unique_ptr<AbortPage>> AbortPage::adopt(UniqueFd memory, UniqueFd event) {
  struct stat status{};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (::fstat(memory.get(), &status) != 0 || status.st_size != kPageBytes || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    return Status(NRT_INVALID, "page for aborts: not what a rank of this job hands out");
  }
  return map(std::move(memory), std::move(event));
}

Result<std::unique_ptr<AbortPage>> AbortPage::map(UniqueFd memory, UniqueFd event) {
  void* place = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (place == MAP_FAILED) {
    return system_failure("page for aborts: mmap");
  }
  static_assert(sizeof(Shared) == kPageBytes);
  return std::unique_ptr<AbortPage>(
      new AbortPage(std::move(memory), std::move(event), static_cast<Shared*>(place)));
}

AbortPage::~AbortPage() { ::munmap(shared_, kPageBytes); }

bool AbortPage::set(const Cause& cause) {
  uint32_t expected = kFree;
  if (!shared_->state.compare_exchange_strong(expected, kWriting, std::memory_order_acq_rel)) {
    return false;
  }
  const ByteVector text = encode_cause(cause);
  static_assert(kLongestCause + 64 < sizeof(Shared::cause));
  std::memcpy(shared_->cause, text.data(), text.size());
  shared_->size = static_cast<uint32_t>(text.size());
  shared_->state.store(kSet, std::memory_order_release);
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it is readable already.
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof(one));
  return true;
}

std::optional<Cause> AbortPage::cause() const {
  if (shared_->state.load(std::memory_order_acquire) == kFree) {
    return std::nullopt;
  }
  const auto patience = std::chrono::steady_clock::now() + kWriterPatience;
  while (shared_->state.load(std::memory_order_acquire) == kWriting &&
         std::chrono::steady_clock::now() < patience) {
    std::this_thread::yield();
  }
  std::optional<Cause> cause;
  if (shared_->state.load(std::memory_order_acquire) == kSet) {
    const uint32_t size = shared_->size;
    if (size <= sizeof(Shared::cause)) {
      ByteVector text(size);
      std::memcpy(text.data(), shared_->cause, size);
      cause = parse_cause(text);
    }
  }
  if (!cause) {
    cause.emplace();
    cause->kind = CauseKind::kPeerDied;
    cause->code = NRT_EXEC_HW_ERR_COLLECTIVES;
    cause->text = "a rank of this host ended the job and died before it said why";
  }
  return cause;
}

const std::atomic<uint32_t>& AbortPage::word() const { return shared_->state; }

}  // namespace onrt::cc
