// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>

#include "runtime/base/digest.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "runtime/base/settings.h"

namespace onrt::cache {
namespace {

constexpr size_t kMostNameBytes = 255;

std::string digest_of(const Program& program) {
  Sha256 digest;
  digest.update(program.neff);
  digest.update(std::as_bytes(std::span(program.warnings)));
  return to_hex(digest.finish());
}

Result<Program> read_program(int folder, const Key& key) {
  ONRT_ASSIGN_OR_RETURN(const auto done, read_file_at(folder, kDoneFile, kMostDoneBytes));
  Result<EntryInfo> info =
      read_entry_info({reinterpret_cast<const char*>(done.data()), done.size()});
  if (!info.ok()) {
    return std::move(info).status().annotate(kDoneFile);
  }
  if (info->key != key_text(key)) {
    return Status(NRT_INVALID, format("{}: made for another key", kDoneFile));
  }
  Program program;
  ONRT_ASSIGN_OR_RETURN(program.neff, read_file_at(folder, kNeffFile, info->neff_bytes));
  if (program.neff.size() != info->neff_bytes) {
    return Status(NRT_INVALID, format("{}: expected {} bytes, found {}", kNeffFile,
                                      info->neff_bytes, program.neff.size()));
  }
  program.warnings = std::move(info->warnings);
  if (const std::string found = digest_of(program); found != info->sha256) {
    return Status(NRT_INVALID,
                  format("{}: expected SHA-256 {}, found {}", kNeffFile, info->sha256, found));
  }
  return program;
}

// A cache that is read-only has no counters; a hit is a hit all the same.
void count_hit(int folder) {
  const UniqueFd file(
      open_file_at(folder, kHitsFile, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  if (!file.valid() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return;
  }
  if (static_cast<uint64_t>(info.st_size) >= kMostHits || ::write(file.get(), "+", 1) != 1) {
    ::futimens(file.get(), nullptr);
  }
}

std::string flags_text(const std::vector<std::string>& flags) {
  JsonWriter writer;
  writer.begin_array();
  for (const std::string& flag : flags) {
    writer.string(flag);
  }
  writer.end_array();
  return writer.take();
}

// What JSON can't hold would come back as other bytes than were digested.
std::string as_utf8(std::string text) {
  if (!is_utf8(text)) {
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  }
  return text;
}

}  // namespace

Result<uint64_t> disk_limit_of_environment() {
  const Settings settings = Settings::from_environment();
  const std::string_view text = settings.text(Setting::kCompileCacheSize);
  const auto bytes = parse_bytes(text);
  if (!bytes) {
    return Status(NRT_INVALID, format("OPENNRT_COMPILE_CACHE_SIZE='{}': expected a size such as "
                                      "4GiB, or 0 for no limit",
                                      text));
  }
  return *bytes == 0 ? kNoLimit : *bytes;
}

Result<std::unique_ptr<DiskCache>> DiskCache::open(std::string_view url, DiskOptions options) {
  ONRT_ASSIGN_OR_RETURN(std::string path, path_of_url(url));
  ONRT_RETURN_IF_ERROR(open_trusted_folder(path, Absent::kIsMade).status());
  return std::unique_ptr<DiskCache>(new DiskCache(std::move(path), std::move(options)));
}

Result<std::unique_ptr<DiskCache>> DiskCache::open_existing(std::string_view url,
                                                            DiskOptions options) {
  ONRT_ASSIGN_OR_RETURN(std::string path, path_of_url(url));
  ONRT_RETURN_IF_ERROR(open_trusted_folder(path, Absent::kIsAnError).status());
  return std::unique_ptr<DiskCache>(new DiskCache(std::move(path), std::move(options)));
}

void DiskCache::step(std::string_view name) const {
  if (options_.at_step) {
    options_.at_step(name);
  }
}

Result<UniqueFd> DiskCache::open_version(Absent absent) const {
  ONRT_ASSIGN_OR_RETURN(const UniqueFd root, open_trusted_folder(path_, absent));
  Result<UniqueFd> folder = open_folder_at(root.get(), version_folder(), absent);
  return folder.ok() ? std::move(folder) : std::move(folder).status().annotate(path_);
}

DiskCache::Found DiskCache::find(const Key& key) const {
  const auto version = open_version(Absent::kIsAnError);
  if (!version.ok()) {
    return {};
  }
  const UniqueFd folder(open_file_at(version->get(), entry_name(key),
                                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) {
    return {{}, errno == ENOENT ? "" : std::string(errno_status("the entry", errno).message())};
  }
  Result<Program> program = read_program(folder.get(), key);
  if (!program.ok()) {
    return {{}, std::string(program.status().message())};
  }
  count_hit(folder.get());
  return {std::move(program).value(), {}};
}

Result<EntryLock> DiskCache::lock(const Key& key) const {
  ONRT_ASSIGN_OR_RETURN(const UniqueFd version, open_version(Absent::kIsMade));
  const std::string name = entry_name(key);
  Result<EntryLock> lock = EntryLock::take(version.get(), name, options_.patience);
  if (!lock.ok()) {
    return std::move(lock).status().annotate(format("{}/{}", path_, version_folder()));
  }
  step("locked");
  ONRT_RETURN_IF_ERROR(remove_at(version.get(), temporary_name(name)));
  return lock;
}

Status DiskCache::write_entry(int folder, const std::string& name, const Key& key,
                              const Program& program, const Labels& labels) const {
  const std::string temporary = temporary_name(name);
  EntryInfo info;
  info.key = key_text(key);
  info.compiler = options_.compiler;
  info.graph = as_utf8(labels.graph.substr(0, kMostNameBytes));
  info.warnings = program.warnings;
  info.sha256 = digest_of(program);
  info.neff_bytes = program.neff.size();
  info.created = std::time(nullptr);
  info.compile_us = labels.compile_time.count();
  const std::string done = write_entry_info(info);
  const std::string flags = flags_text(labels.flags);
  ONRT_ASSIGN_OR_RETURN(const UniqueFd made, open_folder_at(folder, temporary, Absent::kIsMade));
  step("made");
  ONRT_RETURN_IF_ERROR(write_file_at(made.get(), kNeffFile, program.neff));
  step("neff");
  ONRT_RETURN_IF_ERROR(write_file_at(made.get(), kFlagsFile, std::as_bytes(std::span(flags))));
  ONRT_RETURN_IF_ERROR(write_file_at(made.get(), kHitsFile, {}));
  ONRT_RETURN_IF_ERROR(write_file_at(made.get(), kDoneFile, std::as_bytes(std::span(done))));
  step("done");
  ONRT_RETURN_IF_ERROR(remove_at(folder, name));  // a damaged one
  step("removed");
  if (::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) {
    return errno_status(format("'{}' cannot be named", name), errno);
  }
  step("renamed");
  return ok_status();
}

Status DiskCache::store(const EntryLock& /*lock*/, const Key& key, const Program& program,
                        const Labels& labels) {
  const Program kept{program.neff, as_utf8(program.warnings)};
  // A character takes at most six in JSON.
  if (kept.bytes() > options_.limit_bytes || kept.warnings.size() > kMostDoneBytes / 8) {
    return ok_status();
  }
  ONRT_ASSIGN_OR_RETURN(const UniqueFd version, open_version(Absent::kIsMade));
  const std::string name = entry_name(key);
  Status status = write_entry(version.get(), name, key, kept, labels);
  if (!status.ok()) {
    static_cast<void>(remove_at(version.get(), temporary_name(name)));  // the first failure counts
    return std::move(status).annotate(format("{}/{}", path_, version_folder()));
  }
  return keep_limit(blocks_of(kept.neff.size()) + blocks_of(kept.warnings.size()) +
                    3 * kBlockBytes);
}

Status DiskCache::keep_limit(uint64_t added) {
  if (options_.limit_bytes == kNoLimit) {
    return ok_status();
  }
  const MutexLock lock(mutex_);
  added_bytes_ += added;
  if (known_bytes_ != kNoLimit && known_bytes_ + added_bytes_ <= options_.limit_bytes &&
      added_bytes_ <= options_.limit_bytes / 16) {
    return ok_status();
  }
  // Other processes add as well: what is there is looked up now and then.
  ONRT_ASSIGN_OR_RETURN(const uint64_t left, trim_if_above(options_.limit_bytes));
  known_bytes_ = left;
  added_bytes_ = 0;
  return ok_status();
}

}  // namespace onrt::cache
