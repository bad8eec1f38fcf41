/* SPDX-License-Identifier: Apache-2.0 */
/* Version of the library that is loaded, which may differ from these headers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define RT_VERSION_DETAIL_LEN 128
#define GIT_HASH_LEN 64

typedef struct nrt_version {
  uint64_t rt_major;
  uint64_t rt_minor;
  uint64_t rt_patch;
  uint64_t rt_maintenance;
  char rt_detail[RT_VERSION_DETAIL_LEN]; /* text; starts with "OpenNRT" in this implementation */
  char git_hash[GIT_HASH_LEN];           /* commit the library was built from, or "unknown" */
} nrt_version_t;

/*
 * Fills the first `size` bytes of *ver, so that callers built with a shorter or longer struct work;
 * bytes past the struct this library knows are left alone. Texts always end in NUL.
 * May be called before nrt_init(). Errors: NRT_INVALID for NULL or a size of 0.
 */
NRT_STATUS nrt_get_version(nrt_version_t* ver, size_t size);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
