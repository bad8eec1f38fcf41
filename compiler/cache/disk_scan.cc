// SPDX-License-Identifier: Apache-2.0
// What looks at all entries of a disk cache: listing, the size limit, clearing.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "compiler/cache/disk_cache.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"

namespace onrt::cache {
namespace {

constexpr std::string_view kEntryStart = "MODULE_";
constexpr size_t kMostFlagsBytes = 65536;

// Folders that this project's compilers made; the vendor's have another name.
bool is_version(const std::string& name) {
  return name.starts_with("neuronxcc-") && name.find("+opennrt-") != std::string::npos;
}

void measure(int folder, DiskEntry& entry) {
  for (const char* name : {kNeffFile, kDoneFile, kFlagsFile, kHitsFile}) {
    struct stat info{};
    if (::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;  // absent: read() says so if it matters
    }
    entry.bytes += blocks_of(static_cast<uint64_t>(info.st_size));
    if (std::string_view(name) == kHitsFile) {
      entry.hits = std::min(static_cast<uint64_t>(info.st_size), kMostHits);
      entry.used = info.st_mtim.tv_sec;
      entry.used_ns = info.st_mtim.tv_nsec;
    }
  }
}

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status read_details(int folder, DiskEntry& entry) {
  ONRT_ASSIGN_OR_RETURN(const auto done, read_file_at(folder, kDoneFile, kMostDoneBytes));
  Result<EntryInfo> info = read_entry_info(text_of(done));
  if (!info.ok()) {
    return std::move(info).status().annotate(kDoneFile);
  }
  struct stat neff{};
  if (::fstatat(folder, kNeffFile, &neff, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno_status(kNeffFile, errno);
  }
  if (static_cast<uint64_t>(neff.st_size) != info->neff_bytes) {
    return Status(NRT_INVALID, format("{}: expected {} bytes, found {}", kNeffFile,
                                      info->neff_bytes, neff.st_size));
  }
  entry.info = std::move(info).value();
  ONRT_ASSIGN_OR_RETURN(const auto flags, read_file_at(folder, kFlagsFile, kMostFlagsBytes));
  const auto value = parse_json(text_of(flags));
  if (!value.ok() || value->type() != JsonType::kArray) {
    return Status(NRT_INVALID, format("{}: expected a JSON array of texts", kFlagsFile));
  }
  for (const JsonValue& flag : value->items()) {
    entry.flags.push_back(flag.string());
  }
  return ok_status();
}

// Removes what processes left that died here. Locks in use are not touched.
void sweep(int version, const std::vector<std::string>& names) {
  for (const std::string& file : names) {
    if (const std::string entry = entry_of_leftover(file); !entry.empty()) {
      const auto lock = EntryLock::take(version, entry, std::chrono::milliseconds(0));
      if (lock.ok()) {
        static_cast<void>(remove_at(version, temporary_name(entry)));  // again next time
      }
    }
  }
}

enum class Removal { kGone, kBusy };

Result<Removal> remove_entry(int version, const std::string& name) {
  Result<EntryLock> lock = EntryLock::take(version, name, std::chrono::milliseconds(0));
  if (!lock.ok()) {
    if (lock.status().code() == NRT_TIMEOUT) {
      return Removal::kBusy;
    }
    return std::move(lock).status();
  }
  const std::string temporary = temporary_name(name);
  ONRT_RETURN_IF_ERROR(remove_at(version, temporary));
  // By one step first: a half-removed entry would look like damage.
  if (::renameat(version, name.c_str(), version, temporary.c_str()) != 0 && errno != ENOENT) {
    return errno_status(format("'{}' cannot be removed", name), errno);
  }
  ONRT_RETURN_IF_ERROR(remove_at(version, temporary));
  return Removal::kGone;
}

}  // namespace

Result<std::vector<DiskEntry>> DiskCache::scan(Detail detail) const {
  ONRT_ASSIGN_OR_RETURN(const UniqueFd root, open_trusted_folder(path_, Absent::kIsAnError));
  ONRT_ASSIGN_OR_RETURN(const std::vector<std::string> versions, names_in(root.get()));
  std::vector<DiskEntry> entries;
  for (const std::string& version_name : versions) {
    if (!is_version(version_name)) {
      continue;
    }
    const auto version = open_folder_at(root.get(), version_name, Absent::kIsAnError);
    if (!version.ok()) {
      continue;  // gone meanwhile, or not ours
    }
    ONRT_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in(version->get()));
    sweep(version->get(), names);
    for (const std::string& name : names) {
      const UniqueFd folder(
          open_file_at(version->get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!name.starts_with(kEntryStart) || !folder.valid()) {
        continue;
      }
      DiskEntry& entry = entries.emplace_back();
      entry.folder = version_name;
      entry.name = name;
      measure(folder.get(), entry);
      if (detail == Detail::kAll) {
        entry.damage = read_details(folder.get(), entry).message();
      }
    }
  }
  std::ranges::sort(entries, [](const DiskEntry& a, const DiskEntry& b) {
    return std::pair(a.used, a.used_ns) > std::pair(b.used, b.used_ns);
  });
  return entries;
}

Result<std::vector<DiskEntry>> DiskCache::list() const { return scan(Detail::kAll); }

Result<uint64_t> DiskCache::trim_if_above(uint64_t limit) {
  ONRT_ASSIGN_OR_RETURN(const std::vector<DiskEntry> entries, scan(Detail::kSizes));
  uint64_t total = 0;
  for (const DiskEntry& entry : entries) {
    total += entry.bytes;
  }
  if (total <= limit) {
    return total;
  }
  ONRT_ASSIGN_OR_RETURN(const UniqueFd root, open_trusted_folder(path_, Absent::kIsAnError));
  Status failure;
  // The newest stays: it is what was just stored.
  for (size_t i = entries.size(); i-- > 1 && total > limit - limit / 8;) {
    const auto version = open_folder_at(root.get(), entries[i].folder, Absent::kIsAnError);
    if (!version.ok()) {
      continue;
    }
    const Result<Removal> removal = remove_entry(version->get(), entries[i].name);
    if (!removal.ok()) {
      failure = removal.status();  // others may go
    } else if (*removal == Removal::kGone) {
      total -= entries[i].bytes;
      ++evictions_;
    }
  }
  if (total > limit && !failure.ok()) {
    return std::move(failure).annotate(path_);
  }
  return total;
}

Result<Removed> DiskCache::clear() {
  ONRT_ASSIGN_OR_RETURN(const std::vector<DiskEntry> entries, scan(Detail::kSizes));
  ONRT_ASSIGN_OR_RETURN(const UniqueFd root, open_trusted_folder(path_, Absent::kIsAnError));
  Removed removed;
  for (const DiskEntry& entry : entries) {
    ONRT_ASSIGN_OR_RETURN(const UniqueFd version,
                          open_folder_at(root.get(), entry.folder, Absent::kIsAnError));
    ONRT_ASSIGN_OR_RETURN(const Removal removal, remove_entry(version.get(), entry.name));
    if (removal == Removal::kBusy) {
      ++removed.busy;
      continue;
    }
    ++removed.entries;
    removed.bytes += entry.bytes;
  }
  ONRT_ASSIGN_OR_RETURN(const std::vector<std::string> versions, names_in(root.get()));
  for (const std::string& name : versions) {
    if (is_version(name) && ::unlinkat(root.get(), name.c_str(), AT_REMOVEDIR) != 0 &&
        errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT) {
      return errno_status(format("'{}/{}' cannot be removed", path_, name), errno);
    }
  }
  return removed;
}

}  // namespace onrt::cache
