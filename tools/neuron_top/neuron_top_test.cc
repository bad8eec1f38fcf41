// SPDX-License-Identifier: Apache-2.0
// Expected layout, sections, units and keys: SDK documentation, neuron-top user guide and images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/json.h"
#include "tools/common/table.h"
#include "tools/neuron_top/screen.h"

namespace onrt::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// `devices` devices of `cores` logical cores; one application on core 1 of device 0.
TopModel model_of(int devices, int cores) {
  TopModel model;
  model.machine.instance_type = "trn2.48xlarge";
  model.machine.instance_id = "i-0123";
  model.machine.neuroncore_version = "v3";
  model.machine.device_count = devices;
  model.machine.physical_cores_per_device = cores * 2;
  model.machine.logical_core_size = 2;
  App app;
  app.pid = 42;
  app.tag = "trainer";
  AppCore core;
  core.index = 1;
  core.percent = 56.8125;
  core.flops = 1.5e12;
  core.memory.tensors = 2ULL << 30;
  core.memory.constants = 120;
  core.memory.model_code = 30;
  app.device = core.memory;
  app.cores.push_back(core);
  app.models.push_back({1001, "net", 0, 1, true, 30, 100});
  app.host.application = 17ULL << 30;
  model.apps.push_back(app);
  return model;
}

std::string text(const TopModel& model, TopState& state, int width, int height) {
  return plain_text(draw(model, state, width, height));
}

TEST(NeuronTop, ATitleWithoutAnInstanceIdHasNoGap) {
  TopModel model = model_of(1, 4);
  model.machine.instance_id.clear();
  TopState state;
  EXPECT_NE(text(model, state, 160, 0).find("running on (trn2.48xlarge)"), std::string::npos);
}

TEST(NeuronTop, ShowsTheDocumentedSections) {
  const TopModel model = model_of(16, 4);
  TopState state;
  const std::string screen = text(model, state, 160, 0);
  for (const char* part : {"running on i-0123 (trn2.48xlarge)",
                           "NeuronCore v3d Utilization (Avg: 0.89%)",
                           "NC3",
                           "ND15",
                           "[ 56.81%]",
                           "vCPU Utilization",
                           "System vCPU Usage",
                           "Runtime vCPU Usage",
                           "Memory Usage Summary",
                           "Host Used Memory",
                           "Total: 17.0GB",
                           "DMA Buffers: 0.0B",
                           "App. Memory: 17.0GB",
                           "Device Used Memory",
                           "Tensors: 2.0GB",
                           "Constants: 120.0B",
                           "Model Code: 30.0B",
                           "Runtime Memory: 0.0B",
                           "Model Scratchpad: 0.0B",
                           "Memory Usage Details",
                           "Model ID",
                           "Neuron Apps >[1]:all<",
                           "[2]:trainer",
                           "f: FLOPS on/off",
                           "1-9: select tab"}) {
    EXPECT_THAT(screen, HasSubstr(part));
  }
}

TEST(NeuronTop, EverySizeAndNumberOfCoresFits) {
  for (const auto& [devices, cores] : {std::pair(1, 2), {16, 4}, {16, 8}, {144, 4}, {12, 2}}) {
    const TopModel model = model_of(devices, cores);
    for (const auto& [width, height] :
         {std::pair(80, 24), {40, 12}, {200, 60}, {80, 13}, {45, 100}}) {
      TopState state;
      const auto lines = draw(model, state, width, height);
      EXPECT_EQ(lines.size(), static_cast<size_t>(height)) << devices << " " << width;
      for (const Line& line : lines) {
        size_t columns = 0;
        for (const Span& span : line) {
          columns += text_width(span.text);
        }
        EXPECT_LE(columns, static_cast<size_t>(width)) << plain_text({line});
      }
      const std::string screen = plain_text(lines);
      EXPECT_THAT(screen, HasSubstr("Neuron Apps"));
      EXPECT_THAT(screen, HasSubstr("ND"));
    }
  }
  TopState state;
  EXPECT_THAT(text(model_of(1, 2), state, 30, 10), HasSubstr("30x10 is too small"));
}

TEST(NeuronTop, DevicesWithoutARowAreShownByTheirMean) {
  TopState state;
  EXPECT_THAT(text(model_of(16, 4), state, 80, 24), HasSubstr("+"));
}

TEST(NeuronTop, AParentOfTheTreeIsTheSumOfItsChildren) {
  const TopModel model = model_of(2, 4);
  TopState state;
  state.expanded.clear();
  state.press(Key::kExpandAll, model);
  const auto rows = tree_rows(model, state);
  for (size_t i = 0; i < rows.size(); ++i) {
    uint64_t sum = 0;
    bool parent = false;
    for (size_t j = i + 1; j < rows.size() && rows[j].depth > rows[i].depth; ++j) {
      if (rows[j].depth == rows[i].depth + 1) {
        sum += rows[j].device_bytes;
        parent = true;
      }
    }
    if (parent) {
      EXPECT_EQ(rows[i].device_bytes, sum) << rows[i].label;
    }
  }
  EXPECT_EQ(rows[0].device_bytes, (2ULL << 30) + 150);
}

TEST(NeuronTop, KeysMoveExpandAndCollapse) {
  const TopModel model = model_of(2, 4);
  TopState state;
  state.expanded.clear();
  EXPECT_EQ(tree_rows(model, state).size(), 2u);
  state.press(Key::kUp, model);
  EXPECT_EQ(state.selected, 0);
  state.press(Key::kEnter, model);
  EXPECT_EQ(tree_rows(model, state).size(), 6u);
  state.press(Key::kDown, model);
  state.press(Key::kDown, model);  // NC 1
  state.press(Key::kRight, model);
  const auto rows = tree_rows(model, state);
  EXPECT_EQ(rows[3].label, "net");
  EXPECT_EQ(rows[3].model_id, "1001");
  EXPECT_EQ(rows.size(), 12u);
  state.press(Key::kLeft, model);
  EXPECT_EQ(tree_rows(model, state).size(), 6u);
  state.press(Key::kExpandAll, model);  // something is open: all close
  EXPECT_EQ(tree_rows(model, state).size(), 2u);
  EXPECT_LT(state.selected, 2);
}

TEST(NeuronTop, TheSelectedRowIsAlwaysOnTheScreen) {
  const TopModel model = model_of(64, 4);
  TopState state;
  state.expanded.clear();
  for (int i = 0; i < 63; ++i) {
    state.press(Key::kDown, model);
  }
  EXPECT_THAT(text(model, state, 80, 24), HasSubstr("[+] ND 63"));
  for (int i = 0; i < 63; ++i) {
    state.press(Key::kUp, model);
  }
  EXPECT_THAT(text(model, state, 80, 24), HasSubstr("[+] ND 0"));
}

TEST(NeuronTop, TabsFollowTheirProcessAndFallBackToAll) {
  TopModel model = model_of(1, 4);
  App other = model.apps[0];
  other.pid = 7;
  other.tag = "server";
  other.cores[0].index = 2;
  model.apps.insert(model.apps.begin(), other);
  TopState state;
  state.choose_tab(3, model);
  EXPECT_EQ(chosen_apps(model, state).at(0)->pid, 42);
  model.apps.erase(model.apps.begin());  // the other ends
  EXPECT_EQ(chosen_apps(model, state).at(0)->pid, 42);
  EXPECT_THAT(text(model, state, 132, 40), HasSubstr(">[2]:trainer<"));
  model.apps.clear();
  EXPECT_THAT(text(model, state, 132, 40), HasSubstr(">[1]:all<"));
  state.press(Key::kNext, model);
  state.press(Key::kPrevious, model);
  state.choose_tab(9, model);
  EXPECT_THAT(text(model, state, 132, 40), HasSubstr(">[1]:all<"));
}

TEST(NeuronTop, FlopsAreTeraflops) {
  const TopModel model = model_of(1, 2);
  TopState state;
  state.press(Key::kFlops, model);
  const std::string screen = text(model, state, 132, 0);
  EXPECT_THAT(screen, HasSubstr("[  1.5000]"));
  EXPECT_THAT(screen, HasSubstr("(Avg: 0.7500)"));
}

TEST(NeuronTop, ATagCannotDriveTheTerminal) {
  TopModel model = model_of(1, 2);
  model.apps[0].tag = "\x1b[2J evil\n";
  model.apps[0].models[0].name = "\x1b]0;x";
  TopState state;
  state.press(Key::kExpandAll, model);
  state.press(Key::kExpandAll, model);
  EXPECT_THAT(text(model, state, 132, 50), Not(HasSubstr("\x1b")));
}

TEST(NeuronTop, JsonHasTheFiguresAndParses) {
  const auto json = parse_json(top_json(model_of(1, 4)));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->find("neuroncore_version")->string(), "v3d");
  const JsonValue& app = json->find("apps")->items().at(0);
  EXPECT_EQ(app.find("tag")->string(), "trainer");
  EXPECT_EQ(app.find("neuroncores")->items().at(0).find("neuroncore")->integer(), 1);
  EXPECT_EQ(app.find("models")->items().at(0).find("model_id")->integer(), 1001);
}

TEST(NeuronTop, BytesHaveOneDigitAndUnitsOf1024) {
  EXPECT_EQ(short_bytes(0), "0.0B");
  EXPECT_EQ(short_bytes(256 * 1024), "256.0KB");
  EXPECT_EQ(short_bytes(18790481920ULL), "17.5GB");
}

}  // namespace
}  // namespace onrt::tools
