// SPDX-License-Identifier: Apache-2.0
// Files that ranks have offered each other (HBM stacks of the emulated machine, pools of host
// memory), mapped piece by piece when an operation first touches them. One set per process and job.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cc {

// One file. Thread-safe. Pieces stay mapped until the end.
class MappedFile {
 public:
  static Result<std::shared_ptr<MappedFile>> open(UniqueFd fd);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // NRT_INVALID outside the file.
  Result<std::byte*> at(uint64_t offset, uint64_t bytes);
  bool same_file(dev_t device, ino_t inode) const { return device == device_ && inode == inode_; }

 private:
  MappedFile(UniqueFd fd, uint64_t bytes, dev_t device, ino_t inode)
      : fd_(std::move(fd)), bytes_(bytes), device_(device), inode_(inode) {}
  struct Piece {
    uint64_t offset;
    uint64_t bytes;
    std::byte* data;
  };
  const UniqueFd fd_;
  const uint64_t bytes_;
  const dev_t device_;
  const ino_t inode_;
  Mutex mutex_;
  std::vector<Piece> pieces_ ONRT_GUARDED_BY(mutex_);
};

// Thread-safe once filled.
class PeerFiles {
 public:
  // `fds`: what rank has offered, in its order. Files that several ranks offer are kept once.
  Status add(int rank, std::vector<UniqueFd> fds);
  // NRT_INVALID for a file that the rank has not offered.
  Result<std::byte*> at(int rank, int file, uint64_t offset, uint64_t bytes);

 private:
  std::vector<std::vector<std::shared_ptr<MappedFile>>> by_rank_;
  std::vector<std::shared_ptr<MappedFile>> all_;
};

}  // namespace onrt::cc
