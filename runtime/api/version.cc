// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "nrt/nrt_version.h"
#include "opennrt/opennrt.h"
#include "runtime/api/last_error.h"
#include "runtime/base/format.h"

namespace {

using onrt::Status;

// Clients gate features on the vendor's numbers, so ours follow the release that we match.
nrt_version_t library_version() {
  nrt_version_t version = {};
  version.rt_major = ONRT_VERSION_MAJOR;
  version.rt_minor = ONRT_VERSION_MINOR;
  version.rt_patch = ONRT_VERSION_PATCH;
  version.rt_maintenance = 0;
  std::strncpy(version.rt_detail, "OpenNRT " ONRT_VERSION_TEXT, RT_VERSION_DETAIL_LEN - 1);
  std::strncpy(version.git_hash, ONRT_GIT_HASH, GIT_HASH_LEN - 1);
  return version;
}

}  // namespace

extern "C" NRT_STATUS nrt_get_version(nrt_version_t* ver, size_t size) {
  return onrt::api::c_boundary([&]() -> Status {
    if (ver == nullptr) {
      return Status(NRT_INVALID, "ver: expected a struct to fill, found NULL");
    }
    if (size == 0) {
      return Status(NRT_INVALID, "size: expected the size of nrt_version_t, found 0");
    }
    const nrt_version_t version = library_version();
    std::memcpy(ver, &version, std::min(size, sizeof(version)));
    return onrt::ok_status();
  });
}

extern "C" const char* onrt_version(void) { return ONRT_VERSION_TEXT; }
