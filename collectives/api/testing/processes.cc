// SPDX-License-Identifier: Apache-2.0
#include "collectives/api/testing/processes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/format.h"

namespace onrt::cc::testing {

SharedPool::SharedPool(uint64_t bytes)
    : fd_(::memfd_create("test-pool", MFD_CLOEXEC)), data_(nullptr), bytes_(bytes) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    data_ = data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
  }
}

SharedPool::~SharedPool() { ::munmap(data_, bytes_); }

UniqueFd SharedPool::file() const { return UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 3)); }

LocalBuffer SharedPool::at(uint64_t offset, uint64_t bytes) const {
  return {data_ + offset, bytes, {0, offset}};
}

std::string in_job(const JobSetup& setup, int rank, const ProcessBody& body) {
  SharedPool pool(setup.pool_bytes);
  JobOptions options;
  options.boot = options_for(rank, setup.size, setup.port, setup.folder->path());
  options.engine = setup.engine;
  options.files.push_back(pool.file());
  auto job = Job::join(std::move(options));
  if (!job.ok()) {
    return std::string(job.status().message());
  }
  std::vector<int> all;
  for (int i = 0; i < setup.size; ++i) {
    all.push_back(i);
  }
  auto world = (*job)->make_group(all);
  if (!world.ok()) {
    return std::string(world.status().message());
  }
  Process process{**job, **world, pool, setup.pool_bytes};
  return body(process);
}

std::string run_job(int size, const ProcessBody& body, uint64_t pool_bytes,
                    const EngineOptions& engine) {
  TemporaryFolder folder;
  const JobSetup setup{size, pool_bytes, engine, &folder, free_port()};
  Ranks ranks;
  ranks.start_all(size, [&](int rank) { return in_job(setup, rank, body); });
  std::string all;
  for (int rank = 0; rank < size; ++rank) {
    const std::string said = ranks.result(rank);
    if (said != "ok") {
      all += format("rank {}: {}\n", rank, said);
    }
  }
  return all.empty() ? "ok" : all;
}

}  // namespace onrt::cc::testing
