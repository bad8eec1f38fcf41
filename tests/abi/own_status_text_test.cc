// SPDX-License-Identifier: Apache-2.0
// Some clients define nrt_get_status_as_str() themselves. The library must not call theirs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "nrt/nrt_status.h"
#include "nrt/nrt_version.h"

extern "C" const char* nrt_get_status_as_str(NRT_STATUS) { return "text of the client"; }

namespace {

TEST(StatusText, OfTheClientStaysTheClients) {
  setenv("NEURON_RT_LOG_LEVEL", "ERROR", 1);
  setenv("NEURON_RT_LOG_LOCATION", "console", 1);
  EXPECT_STREQ(nrt_get_status_as_str(NRT_SUCCESS), "text of the client");
  testing::internal::CaptureStderr();
  EXPECT_EQ(nrt_get_version(nullptr, 0), NRT_INVALID);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("NRT_INVALID"), std::string::npos) << log;
  EXPECT_EQ(log.find("text of the client"), std::string::npos) << log;
}

}  // namespace
