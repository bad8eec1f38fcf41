// SPDX-License-Identifier: Apache-2.0
// The C API: compiling through a cache.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compiler/api/compile_request.h"
#include "compiler/api/graph_handle.h"
#include "compiler/cache/canonical.h"
#include "compiler/cache/compile_cache.h"
#include "opennrt/nrtcc.h"
#include "runtime/base/digest.h"
#include "runtime/base/format.h"

struct nrtcc_cache {
  explicit nrtcc_cache(onrt::cache::CacheOptions options) : cache(std::move(options)) {}

  static constexpr uint64_t kAlive = 0x6e72746363636831;  // "nrtccch1"
  uint64_t tag = kAlive;
  mutable onrt::cache::CompileCache cache;
};

namespace onrt::nrtcc {
namespace {

using cache::CompileCache;
using cache::Key;

Status check_cache(const nrtcc_cache_t* cache) {
  return cache != nullptr && cache->tag == nrtcc_cache::kAlive
             ? ok_status()
             : hir::invalid("cache: expected a handle from nrtcc_cache_open() that is open");
}

Status read_size(int64_t value, std::string_view name, uint64_t minus_one, uint64_t& size) {
  if (value < -1) {
    return hir::invalid(format("option {}: expected -1, 0 or a size, found {}", name, value));
  }
  size = value == 0 ? size : value == -1 ? minus_one : static_cast<uint64_t>(value);
  return ok_status();
}

Result<cache::CacheOptions> read_cache_options(const nrtcc_cache_options_t* given) {
  cache::CacheOptions options;
  int64_t disk_bytes = 0;
  if (given != nullptr) {
    if (given->struct_size < sizeof(size_t)) {
      return hir::invalid(
          format("option struct_size: expected sizeof(nrtcc_cache_options_t), found {}",
                 given->struct_size));
    }
    if (has_field(*given, given->folder) && given->folder != nullptr) {
      options.folder = given->folder;
    }
    if (has_field(*given, given->disk_bytes)) {
      disk_bytes = given->disk_bytes;
    }
    if (has_field(*given, given->memory_bytes)) {
      ONRT_RETURN_IF_ERROR(read_size(given->memory_bytes, "memory_bytes", 0, options.memory.bytes));
    }
    if (has_field(*given, given->memory_programs)) {
      ONRT_RETURN_IF_ERROR(
          read_size(given->memory_programs, "memory_programs", 0, options.memory.entries));
    }
  }
  ONRT_RETURN_IF_ERROR(
      read_size(disk_bytes, "disk_bytes", cache::kNoLimit, options.disk.limit_bytes));
  if (disk_bytes == 0 && !options.folder.empty()) {
    Result<uint64_t> limit = cache::disk_limit_of_environment();
    if (!limit.ok()) {
      return hir::invalid(std::string(limit.status().message()));
    }
    options.disk.limit_bytes = *limit;
  }
  return options;
}

// What changes the program, in the words of neuronx-cc. Defaults are spelled out.
std::vector<std::string> flags_of(const CompileRequest& request) {
  const CompileOptions& compile = request.compile;
  const Target* target = find_target(compile.target);
  const uint32_t lnc = compile.lnc != 0 || target == nullptr ? compile.lnc : target->default_lnc;
  std::vector<std::string> flags = {
      "--target=" + compile.target,
      format("--logical-nc-config={}", lnc),
      format("--optlevel={}", compile.optimization),
  };
  if (compile.dot_type == Dtype::kF32) {
    flags.emplace_back("--auto-cast=none");
  } else {
    flags.emplace_back("--auto-cast=matmult");
    flags.push_back(
        format("--auto-cast-type={}", compile.dot_type == Dtype::kF16 ? "fp16" : "bf16"));
  }
  if (request.compression == NeffCompression::kNone) {
    flags.emplace_back("--enable-fast-loading-neuron-binaries");
  }
  return flags;
}

cache::Digest digest_of_flags(const std::vector<std::string>& flags) {
  Sha256 digest;
  for (const std::string& flag : flags) {
    digest.update(std::as_bytes(std::span(flag.c_str(), flag.size() + 1)));
  }
  return digest.finish();
}

struct Identity {
  Key key;
  cache::Labels labels;
};

Result<Identity> identify(const hir::Graph& graph, const CompileRequest& request) {
  Identity made;
  made.labels.graph = graph.name();
  made.labels.flags = flags_of(request);
  made.key.flags = digest_of_flags(made.labels.flags);
  ONRT_ASSIGN_OR_RETURN(made.key.graph, cache::digest_of(graph));
  return made;
}

Status compile_cached(CompileCache& cache, const hir::Graph& graph, const CompileRequest& request,
                      uint8_t** neff, size_t* size, nrtcc_origin_t* origin) {
  ONRT_ASSIGN_OR_RETURN(const Identity identity, identify(graph, request));
  const auto compile_it = [&] { return compile(graph, request); };
  Result<CompileCache::Outcome> outcome =
      request.compile.dump_dir.empty() ? cache.get(identity.key, identity.labels, compile_it)
                                       : cache.renew(identity.key, identity.labels, compile_it);
  if (!outcome.ok()) {
    return std::move(outcome).status();
  }
  ONRT_RETURN_IF_ERROR(give(*outcome->program, outcome->remarks, neff, size));
  if (origin != nullptr) {
    *origin = static_cast<nrtcc_origin_t>(outcome->origin);
  }
  return ok_status();
}

nrtcc_cache_stats_t stats_of(const CompileCache& cache) {
  const cache::Counters counters = cache.counters();
  nrtcc_cache_stats_t made = {};
  made.memory_hits = counters.memory.hits;
  made.memory_waits = counters.memory.waits;
  made.memory_evictions = counters.memory.evictions;
  made.memory_programs = counters.memory.entries;
  made.memory_bytes = counters.memory.bytes;
  made.disk_hits = counters.disk_hits;
  made.disk_stores = counters.stored;
  made.disk_evictions = counters.disk_evictions;
  made.disk_damaged = counters.damaged;
  made.compiled = counters.compiled;
  made.failed = counters.failed;
  made.disk_used = cache.uses_disk() ? 1 : 0;
  return made;
}

Status give_text(const std::string& from, char** text) {
  ONRT_ASSIGN_OR_RETURN(void* copy, allocate_copy(from.c_str(), from.size() + 1));
  *text = static_cast<char*>(copy);
  return ok_status();
}

static_assert(static_cast<int>(cache::Origin::kCompiled) == NRTCC_COMPILED &&
              static_cast<int>(cache::Origin::kMemory) == NRTCC_FROM_MEMORY &&
              static_cast<int>(cache::Origin::kDisk) == NRTCC_FROM_DISK);

}  // namespace
}  // namespace onrt::nrtcc

using onrt::Status;
using onrt::nrtcc::boundary;
using onrt::nrtcc::check_cache;
using onrt::nrtcc::check_graph;
using onrt::nrtcc::check_pointer;

extern "C" {

nrtcc_status_t nrtcc_cache_open(const nrtcc_cache_options_t* options, nrtcc_cache_t** cache) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_pointer(cache, "cache"));
    ONRT_ASSIGN_OR_RETURN(auto read, onrt::nrtcc::read_cache_options(options));
    *cache = new nrtcc_cache(std::move(read));
    return onrt::ok_status();
  });
}

void nrtcc_cache_close(nrtcc_cache_t* cache) {
  if (cache != nullptr && cache->tag == nrtcc_cache::kAlive) {
    cache->tag = 0;
    delete cache;
  }
}

nrtcc_status_t nrtcc_compile_cached(nrtcc_cache_t* cache, const nrtcc_graph_t* graph,
                                    const nrtcc_options_t* options, uint8_t** neff, size_t* size,
                                    nrtcc_origin_t* origin) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    ONRT_RETURN_IF_ERROR(check_pointer(neff, "neff"));
    ONRT_RETURN_IF_ERROR(check_pointer(size, "size"));
    ONRT_ASSIGN_OR_RETURN(const auto request, onrt::nrtcc::read_options(options));
    if (cache != nullptr) {
      ONRT_RETURN_IF_ERROR(check_cache(cache));
      return onrt::nrtcc::compile_cached(cache->cache, graph->graph, request, neff, size, origin);
    }
    ONRT_ASSIGN_OR_RETURN(const onrt::cache::Program program,
                          onrt::nrtcc::compile(graph->graph, request));
    ONRT_RETURN_IF_ERROR(onrt::nrtcc::give(program, {}, neff, size));
    if (origin != nullptr) {
      *origin = NRTCC_COMPILED;
    }
    return onrt::ok_status();
  });
}

nrtcc_status_t nrtcc_cache_stats(const nrtcc_cache_t* cache, nrtcc_cache_stats_t* stats) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_cache(cache));
    ONRT_RETURN_IF_ERROR(check_pointer(stats, "stats"));
    const size_t size = stats->struct_size;
    if (size < sizeof(size_t)) {
      return onrt::hir::invalid(
          onrt::format("stats struct_size: expected sizeof(nrtcc_cache_stats_t), found {}", size));
    }
    nrtcc_cache_stats_t made = onrt::nrtcc::stats_of(cache->cache);
    made.struct_size = size;
    std::memcpy(stats, &made, std::min(size, sizeof(made)));
    return onrt::ok_status();
  });
}

nrtcc_status_t nrtcc_cache_problem(const nrtcc_cache_t* cache, char** text) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_cache(cache));
    ONRT_RETURN_IF_ERROR(check_pointer(text, "text"));
    return onrt::nrtcc::give_text(cache->cache.disk_problem(), text);
  });
}

nrtcc_status_t nrtcc_cache_key(const nrtcc_graph_t* graph, const nrtcc_options_t* options,
                               char** text) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    ONRT_RETURN_IF_ERROR(check_pointer(text, "text"));
    ONRT_ASSIGN_OR_RETURN(const auto request, onrt::nrtcc::read_options(options));
    ONRT_ASSIGN_OR_RETURN(const auto identity, onrt::nrtcc::identify(graph->graph, request));
    return onrt::nrtcc::give_text(onrt::cache::key_text(identity.key), text);
  });
}

}  // extern "C"
