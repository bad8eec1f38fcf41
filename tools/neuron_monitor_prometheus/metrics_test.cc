// SPDX-License-Identifier: Apache-2.0
// Formats: Prometheus "Exposition formats" (text 0.0.4) and the OpenMetrics 1.0 specification.
#include "tools/neuron_monitor_prometheus/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string report(const std::string& processes) {
  return R"({"neuron_runtime_data":[)" + processes + R"(],"system_data":{
    "memory_info":{"period":1,"memory_total_bytes":100,"memory_used_bytes":40,"error":""},
    "vcpu_usage":{"average_usage":{"user":25.0,"idle":75.0},"usage_data":{"0":{},"1":{}}},
    "neuron_hw_counters":{"neuron_devices":[{"neuron_device_index":0,"mem_ecc_corrected":3}]}},
    "instance_info":{"instance_id":"i-1","instance_type":"trn2.48xlarge","error":""},
    "neuron_hardware_info":{"neuron_device_count":16}})";
}

std::string process(int pid, const std::string& tag, int completed, double period = 1) {
  return R"({"pid":)" + std::to_string(pid) + R"(,"neuron_runtime_tag":")" + tag +
         R"(","report":{"neuroncore_counters":{"neuroncores_in_use":{"7":{"neuroncore_utilization":42.5}}},
         "execution_stats":{"period":)" +
         std::to_string(period) + R"(,"error_summary":{"generic":1},
         "execution_summary":{"completed":)" +
         std::to_string(completed) + R"(},
         "latency_stats":{"total_latency":{"p50":0.01},"device_latency":null}},
         "memory_used":{"neuron_runtime_used_bytes":{"host":7,"neuron_device":9,
           "usage_breakdown":{"neuroncore_memory_usage":{"7":{"tensors":9}}}}},
         "neuron_runtime_vcpu_usage":{"vcpu_usage":{"user":50.0}}}})";
}

TEST(MonitorMetrics, RatiosAreFractionsAndLabelsAreTheDocumentedOnes) {
  Metrics metrics;
  ASSERT_TRUE(metrics.update(report(process(1, "app", 5)), 10).ok());
  const std::string page = metrics.page(ExpositionFormat::kText);
  const std::string common =
      R"(instance_name="",instance_id="i-1",instance_type="trn2.48xlarge",availability_zone="",region="",subnet_id="")";
  EXPECT_THAT(page, HasSubstr("neuroncore_utilization_ratio{" + common +
                              R"(,runtime_tag="app",neuroncore="7"} 0.425)"));
  EXPECT_THAT(page, HasSubstr("execution_status_total{" + common +
                              R"(,runtime_tag="app",status_type="completed"} 5.0)"));
  EXPECT_THAT(page, HasSubstr(R"(neuroncore_memory_usage_tensors{)" + common +
                              R"(,runtime_tag="app",neuroncore="7",memory_location="None"} 9.0)"));
  EXPECT_THAT(page, HasSubstr(R"(usage_type="user"} 0.25)"));
  EXPECT_THAT(page, Not(HasSubstr(R"(usage_type="idle")")));
  EXPECT_THAT(page, HasSubstr("system_vcpu_count{" + common + "} 2.0"));
  EXPECT_THAT(page, HasSubstr(R"(event_type="mem_ecc_corrected",neuron_device_index="0"} 3.0)"));
  EXPECT_THAT(page, HasSubstr("# TYPE execution_status_total counter"));
  EXPECT_THAT(page, Not(HasSubstr("# EOF")));
}

TEST(MonitorMetrics, CountersAddUpThePeriodsButNotAGroupThatIsRepeated) {
  Metrics metrics;
  ASSERT_TRUE(metrics.update(report(process(1, "app", 5, 1.01)), 10).ok());
  ASSERT_TRUE(metrics.update(report(process(1, "app", 5, 1.01)), 11).ok());
  ASSERT_TRUE(metrics.update(report(process(1, "app", 2, 1.02)), 12).ok());
  EXPECT_THAT(metrics.page(ExpositionFormat::kText), HasSubstr(R"(status_type="completed"} 7.0)"));
}

TEST(MonitorMetrics, ProcessesOfOneTagAreOneSeries) {
  Metrics metrics;
  ASSERT_TRUE(metrics.update(report(process(1, "a", 5) + "," + process(2, "a", 6)), 10).ok());
  const std::string page = metrics.page(ExpositionFormat::kText);
  EXPECT_THAT(page, HasSubstr(R"(status_type="completed"} 11.0)"));
  EXPECT_THAT(page, HasSubstr(R"(memory_location="host"} 14.0)"));
}

TEST(MonitorMetrics, SeriesOfAProcessThatEndedAreGone) {
  Metrics metrics;
  ASSERT_TRUE(metrics.update(report(process(1, "app", 5)), 10).ok());
  ASSERT_TRUE(metrics.update(report(""), 11).ok());
  const std::string page = metrics.page(ExpositionFormat::kText);
  EXPECT_THAT(page, Not(HasSubstr("app")));
  EXPECT_THAT(page, HasSubstr("instance_info{"));
}

TEST(MonitorMetrics, OpenMetricsNamesFamiliesWithoutTotalAndEnds) {
  Metrics metrics;
  ASSERT_TRUE(metrics.update(report(process(1, "a\\\"b", 5)), 10).ok());
  const std::string page = metrics.page(ExpositionFormat::kOpenMetrics);
  EXPECT_THAT(page, HasSubstr("# TYPE execution_status counter"));
  EXPECT_TRUE(page.ends_with("# EOF\n"));
  EXPECT_EQ(format_for("application/openmetrics-text; version=1.0.0,text/plain;q=0.5"),
            ExpositionFormat::kOpenMetrics);
  EXPECT_EQ(format_for("*/*"), ExpositionFormat::kText);
}

TEST(MonitorMetrics, WhatIsNoReportChangesNothing) {
  Metrics metrics;
  ASSERT_TRUE(metrics.update(report(process(1, "app", 5)), 10).ok());
  const std::string before = metrics.page(ExpositionFormat::kText);
  for (const char* bad : {"", "x", "[]", "{}", R"({"neuron_runtime_data":5})"}) {
    EXPECT_FALSE(metrics.update(bad, 11).ok()) << bad;
  }
  EXPECT_EQ(metrics.page(ExpositionFormat::kText), before);
}

}  // namespace
}  // namespace onrt::tools
