// SPDX-License-Identifier: Apache-2.0
#include "opennrt/nrtcc.h"

extern "C" const char* nrtcc_version(void) { return ONRT_VERSION_TEXT; }
