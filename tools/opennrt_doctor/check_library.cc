// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>

#include "nrt/nrt_version.h"
#include "runtime/base/format.h"
#include "tools/opennrt_doctor/findings.h"

namespace onrt::tools {
namespace {

constexpr const char* kVendorLibrary = "/opt/aws/neuron/lib/libnrt.so.1";

struct Candidate {
  std::string path;
  std::string reason;
};

// <prefix>/lib of <prefix>/bin/opennrt-doctor.
std::string bundled_library() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : (self.parent_path().parent_path() / "lib" / "libnrt.so.1").string();
}

// The order of DESIGN: chosen by hand, the vendor's where there is a device, ours. A process that
// has loaded one already keeps it.
Candidate choose_library() {
  if (const char* chosen = std::getenv("OPENNRT_LIBNRT"); chosen != nullptr && *chosen != '\0') {
    return {chosen, "OPENNRT_LIBNRT"};
  }
  if (access("/dev/neuron0", F_OK) == 0 && access(kVendorLibrary, R_OK) == 0) {
    return {kVendorLibrary, "/dev/neuron0 is there"};
  }
  if (const std::string bundled = bundled_library(); access(bundled.c_str(), R_OK) == 0) {
    return {bundled, "comes with this program"};
  }
  return {"libnrt.so.1", "found by the dynamic loader"};
}

std::string version_of(void* library) {
  const auto get = reinterpret_cast<decltype(&nrt_get_version)>(dlsym(library, "nrt_get_version"));
  nrt_version_t version = {};
  if (get == nullptr || get(&version, sizeof(version)) != NRT_SUCCESS) {
    return "version unknown";
  }
  version.rt_detail[sizeof(version.rt_detail) - 1] = '\0';
  return format("version {}.{}.{}, {}", version.rt_major, version.rt_minor, version.rt_patch,
                version.rt_detail);
}

// The file that the loader took for a name.
std::string origin_of(void* library) {
  char folder[PATH_MAX] = "";
  const bool known = dlinfo(library, RTLD_DI_ORIGIN, folder) == 0;
  return known ? std::string(folder) + "/libnrt.so.1" : std::string("libnrt.so.1");
}

}  // namespace

Findings check_library() {
  const Candidate candidate = choose_library();
  void* library = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return {{"library", "libnrt", format("{}: {}", candidate.path, why != nullptr ? why : "?"),
             Level::kProblem, "source share/opennrt/env.sh, or name the file in OPENNRT_LIBNRT"}};
  }
  Findings found = {
      {"library", "libnrt",
       format("{} ({})",
              candidate.path.find('/') == std::string::npos ? origin_of(library) : candidate.path,
              candidate.reason),
       Level::kOk},
      {"library", "version", version_of(library), Level::kOk}};
  if (dlsym(library, "onrt_version") == nullptr) {
    found.push_back(
        {"library", "kind", "not OpenNRT's: it drives real devices only", Level::kNote});
  }
  dlclose(library);
  return found;
}

}  // namespace onrt::tools
