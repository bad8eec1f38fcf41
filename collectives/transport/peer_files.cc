// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/peer_files.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

// Mappings begin and end at such a boundary: few of them, at little cost (no page exists before it
// is touched).
constexpr uint64_t kPieceGrain = 1ULL << 30;

}  // namespace

Result<std::shared_ptr<MappedFile>> MappedFile::open(UniqueFd fd) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Status(NRT_INVALID, "memory that a peer offers: expected a regular file");
  }
  return std::shared_ptr<MappedFile>(new MappedFile(
      std::move(fd), static_cast<uint64_t>(status.st_size), status.st_dev, status.st_ino));
}

MappedFile::~MappedFile() {
  const MutexLock lock(mutex_);
  for (const Piece& piece : pieces_) {
    ::munmap(piece.data, piece.bytes);
  }
}

Result<std::byte*> MappedFile::at(uint64_t offset, uint64_t bytes) {
  if (offset > bytes_ || bytes > bytes_ - offset) {
    return Status(NRT_INVALID,
                  format("memory of a peer: {} bytes at {} are not within its {} bytes", bytes,
                         offset, bytes_));
  }
  const MutexLock lock(mutex_);
  for (const Piece& piece : pieces_) {
    if (offset >= piece.offset && offset + bytes <= piece.offset + piece.bytes) {
      return piece.data + (offset - piece.offset);
    }
  }
  const uint64_t begin = offset / kPieceGrain * kPieceGrain;
  const uint64_t end = std::min(bytes_, (offset + bytes + kPieceGrain) / kPieceGrain * kPieceGrain);
  void* data = ::mmap(nullptr, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      fd_.get(), static_cast<off_t>(begin));
  if (data == MAP_FAILED) {
    return Status(NRT_RESOURCE, format("mapping {} of a peer's memory: {}",
                                       format_bytes(end - begin), std::strerror(errno)));
  }
  ::madvise(data, end - begin, MADV_DONTDUMP);
  ::madvise(data, end - begin, MADV_DONTFORK);
  pieces_.push_back({begin, end - begin, static_cast<std::byte*>(data)});
  return pieces_.back().data + (offset - begin);
}

Status PeerFiles::add(int rank, std::vector<UniqueFd> fds) {
  const auto place = static_cast<size_t>(rank);
  by_rank_.resize(std::max(by_rank_.size(), place + 1));
  for (UniqueFd& fd : fds) {
    struct stat status{};
    std::shared_ptr<MappedFile> file;
    if (::fstat(fd.get(), &status) == 0) {
      const auto known = std::find_if(all_.begin(), all_.end(), [&](const auto& other) {
        return other->same_file(status.st_dev, status.st_ino);
      });
      file = known == all_.end() ? nullptr : *known;
    }
    if (file == nullptr) {
      ONRT_ASSIGN_OR_RETURN(file, MappedFile::open(std::move(fd)));
      all_.push_back(file);
    }
    by_rank_[place].push_back(std::move(file));
  }
  return ok_status();
}

Result<std::byte*> PeerFiles::at(int rank, int file, uint64_t offset, uint64_t bytes) {
  const auto place = static_cast<size_t>(rank);
  if (rank < 0 || place >= by_rank_.size() || file < 0 ||
      static_cast<size_t>(file) >= by_rank_[place].size()) {
    return Status(NRT_INVALID, format("memory of rank {}: it has not offered file {}", rank, file));
  }
  return by_rank_[place][static_cast<size_t>(file)]->at(offset, bytes);
}

}  // namespace onrt::cc
