// SPDX-License-Identifier: Apache-2.0
// Jobs of forked processes for tests: every rank runs a body with its Job, and says "ok" or what
// was wrong.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/api/job.h"
#include "collectives/boot/testing.h"

namespace onrt::cc::testing {

// Memory that peers can map: a memfd, given to the job as file 0.
class SharedPool {
 public:
  explicit SharedPool(uint64_t bytes);
  ~SharedPool();
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;
  UniqueFd file() const;
  LocalBuffer at(uint64_t offset, uint64_t bytes) const;

 private:
  UniqueFd fd_;
  std::byte* data_;
  uint64_t bytes_;
};

struct Process {
  Job& job;
  Group& world;
  SharedPool& pool;
  uint64_t pool_bytes;
};
using ProcessBody = std::function<std::string(Process&)>;

struct JobSetup {
  int size = 2;
  uint64_t pool_bytes = 1 << 20;
  EngineOptions engine;
  TemporaryFolder* folder = nullptr;
  uint16_t port = 0;
};

// The body of rank `rank`, to run in its process.
std::string in_job(const JobSetup& setup, int rank, const ProcessBody& body);
// Runs all ranks; "ok" when all said "ok", else what was said.
std::string run_job(int size, const ProcessBody& body, uint64_t pool_bytes = 1 << 20,
                    const EngineOptions& engine = {});

}  // namespace onrt::cc::testing
