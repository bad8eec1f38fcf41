// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/cache_command.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <map>

#include "compiler/cache/disk_cache.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "runtime/base/settings.h"

namespace onrt::cc {
namespace {

using cache::DiskCache;
using cache::DiskEntry;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// "3 s", "5 min", "2 h", "9 d".
std::string age_text(int64_t then) {
  const int64_t seconds = std::max<int64_t>(0, std::time(nullptr) - then);
  return seconds < 120      ? format("{} s", seconds)
         : seconds < 7200   ? format("{} min", seconds / 60)
         : seconds < 172800 ? format("{} h", seconds / 3600)
                            : format("{} d", seconds / 86400);
}

// Names come from modules; a terminal would obey control characters.
std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string flags_text(const DiskEntry& entry) {
  std::string text;
  for (const std::string& flag : entry.flags) {
    text += (text.empty() ? "" : " ") + printable(flag);
  }
  return text;
}

void list_text(const std::vector<DiskEntry>& entries) {
  for (const DiskEntry& entry : entries) {
    print(format("{}/{}\n", printable(entry.folder), printable(entry.name)));
    if (!entry.damage.empty()) {
      print(format("    damaged: {}\n", printable(entry.damage)));
      continue;
    }
    print(format("    {}, NEFF {}, made {} ago in {:.1f} ms, {} hits, used {} ago\n    {}\n",
                 printable(entry.info.graph), format_bytes(entry.info.neff_bytes),
                 age_text(entry.info.created), static_cast<double>(entry.info.compile_us) / 1000,
                 entry.hits, age_text(entry.used), flags_text(entry)));
  }
  if (entries.empty()) {
    print("no entries\n");
  }
}

void entry_json(const DiskEntry& entry, JsonWriter& writer) {
  writer.begin_object().key("compiler").string(entry.folder).key("entry").string(entry.name);
  writer.key("damage");
  entry.damage.empty() ? writer.null() : writer.string(entry.damage);
  writer.key("bytes").unsigned_integer(entry.bytes);
  writer.key("hits").unsigned_integer(entry.hits).key("used").integer(entry.used);
  if (entry.damage.empty()) {
    writer.key("graph").string(entry.info.graph).key("key").string(entry.info.key);
    writer.key("neff_bytes").unsigned_integer(entry.info.neff_bytes);
    writer.key("created").integer(entry.info.created);
    writer.key("compile_us").integer(entry.info.compile_us);
    writer.key("flags").begin_array();
    for (const std::string& flag : entry.flags) {
      writer.string(flag);
    }
    writer.end_array();
  }
  writer.end_object();
}

Status list(const std::vector<DiskEntry>& entries, const Options& options) {
  if (!options.json) {
    list_text(entries);
    return ok_status();
  }
  JsonWriter writer(2);
  writer.begin_array();
  for (const DiskEntry& entry : entries) {
    entry_json(entry, writer);
  }
  writer.end_array();
  print(writer.take() + "\n");
  return ok_status();
}

struct Sum {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t hits = 0;
  uint64_t damaged = 0;

  void add(const DiskEntry& entry) {
    ++entries;
    bytes += entry.bytes;
    hits += entry.hits;
    damaged += entry.damage.empty() ? 0 : 1;
  }
  void write(JsonWriter& writer) const {
    writer.key("entries").unsigned_integer(entries).key("bytes").unsigned_integer(bytes);
    writer.key("hits").unsigned_integer(hits).key("damaged").unsigned_integer(damaged);
  }
  std::string text() const {
    return format("{} entries, {}, {} hits, {} damaged", entries, format_bytes(bytes), hits,
                  damaged);
  }
};

Status info(const std::string& path, const std::vector<DiskEntry>& entries,
            const Options& options) {
  ONRT_ASSIGN_OR_RETURN(const uint64_t limit, cache::disk_limit_of_environment());
  Sum all;
  std::map<std::string, Sum> compilers;
  for (const DiskEntry& entry : entries) {
    all.add(entry);
    compilers[entry.folder].add(entry);
  }
  const std::string own = format("neuronxcc-{}", cache::compiler_id());
  if (!options.json) {
    print(format("folder   {}\nlimit    {}\nall      {}\n", path,
                 limit == cache::kNoLimit ? "none" : format_bytes(limit), all.text()));
    for (const auto& [name, sum] : compilers) {
      print(format("{}{}\n         {}\n", printable(name), name == own ? " (this compiler)" : "",
                   sum.text()));
    }
    return ok_status();
  }
  JsonWriter writer(2);
  writer.begin_object().key("folder").string(path).key("limit_bytes");
  limit == cache::kNoLimit ? writer.null() : writer.unsigned_integer(limit);
  all.write(writer);
  writer.key("this_compiler").string(own).key("compilers").begin_object();
  for (const auto& [name, sum] : compilers) {
    writer.key(name).begin_object();
    sum.write(writer);
    writer.end_object();
  }
  writer.end_object().end_object();
  print(writer.take() + "\n");
  return ok_status();
}

Status clear(DiskCache* cache, const Options& options) {
  cache::Removed removed;
  if (cache != nullptr) {
    ONRT_ASSIGN_OR_RETURN(removed, cache->clear());
  }
  if (options.json) {
    JsonWriter writer(2);
    writer.begin_object().key("entries").unsigned_integer(removed.entries);
    writer.key("bytes").unsigned_integer(removed.bytes);
    writer.key("busy").unsigned_integer(removed.busy).end_object();
    print(writer.take() + "\n");
    return ok_status();
  }
  print(format("removed {} entries, {}{}\n", removed.entries, format_bytes(removed.bytes),
               removed.busy == 0
                   ? ""
                   : format("; {} stay: another process is compiling them", removed.busy)));
  return ok_status();
}

// A folder that isn't there is an empty cache.
Status run_action(const std::string& url, const Options& options) {
  ONRT_ASSIGN_OR_RETURN(const std::string path, cache::path_of_url(url));
  std::unique_ptr<DiskCache> cache;
  std::vector<DiskEntry> entries;
  struct stat found{};
  if (::lstat(path.c_str(), &found) == 0 || errno != ENOENT) {
    ONRT_ASSIGN_OR_RETURN(cache, DiskCache::open_existing(url, {}));
    ONRT_ASSIGN_OR_RETURN(entries, cache->list());
  } else if (!options.json) {
    print(format("no folder '{}'\n", path));
  }
  const std::string& action = options.files[0];
  return action == "list"   ? list(entries, options)
         : action == "info" ? info(path, entries, options)
                            : clear(cache.get(), options);
}

}  // namespace

std::string cache_folder(const Options& options) {
  if (options.no_cache || !options.cache_dir.empty()) {
    return options.no_cache ? "" : options.cache_dir;
  }
  return std::string(Settings::from_environment().text(Setting::kCompileCacheUrl));
}

int run_cache(const Options& options) {
  const std::string folder = cache_folder(options);
  const Status status =
      run_action(folder.empty() ? std::string(cache::kDefaultFolder) : folder, options);
  if (!status.ok()) {
    std::fputs(format("neuronx-cc: error: cache: {}\n", status.message()).c_str(), stderr);
    return kExitFailure;
  }
  return 0;
}

}  // namespace onrt::cc
