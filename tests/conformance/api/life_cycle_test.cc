// SPDX-License-Identifier: Apache-2.0
// nrt_init() and nrt_close(): what may be called when, again and again, and across fork().
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "nrt/nrt_version.h"
#include "tests/conformance/api/child.h"
#include "tests/conformance/api/fixture.h"
#include "tests/conformance/api/neff.h"

namespace onrt::api_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using PreInitCalls = ApiTest;

TEST_F(PreInitCalls, VersionIsThatOfTheReleaseWeMatch) {
  nrt_version_t version = {};
  ASSERT_OK(nrt_get_version(&version, sizeof(version)));
  EXPECT_EQ(version.rt_major, 2u);
  EXPECT_EQ(version.rt_minor, 35u);
  EXPECT_THAT(version.rt_detail, StartsWith("OpenNRT"));
  EXPECT_THAT(onrt_version(), StartsWith("2.35."));
}

TEST_F(PreInitCalls, VersionFillsWhatTheCallersStructHolds) {
  nrt_version_t version = {};
  version.rt_minor = 77;
  EXPECT_OK(nrt_get_version(&version, sizeof(version.rt_major)));
  EXPECT_EQ(version.rt_major, 2u);
  EXPECT_EQ(version.rt_minor, 77u);

  std::vector<unsigned char> larger(sizeof(version) + 16, 0xAA);
  EXPECT_OK(nrt_get_version(reinterpret_cast<nrt_version_t*>(larger.data()), larger.size()));
  EXPECT_EQ(larger[sizeof(version)], 0xAA);
  EXPECT_FAILS(NRT_INVALID, "ver", nrt_get_version(nullptr, sizeof(version)));
  EXPECT_FAILS(NRT_INVALID, "size", nrt_get_version(&version, 0));
}

TEST_F(PreInitCalls, CountsNeedNoInit) {
  uint32_t total[2] = {};
  uint32_t visible[2] = {};
  setenv("NEURON_RT_VISIBLE_CORES", "1-2", 1);
  EXPECT_OK(nrt_get_total_nc_count(&total[0]));
  EXPECT_OK(nrt_get_total_vnc_count(&total[1]));
  EXPECT_OK(nrt_get_visible_nc_count(&visible[0]));
  EXPECT_OK(nrt_get_visible_vnc_count(&visible[1]));
  EXPECT_THAT(total, ElementsAre(kCores, kCores)) << "the environment does not change the total";
  EXPECT_THAT(visible, ElementsAre(2u, 2u));
  EXPECT_STATUS(NRT_INVALID, nrt_get_total_vnc_count(nullptr));
}

TEST_F(PreInitCalls, StatusTextsAreTheNames) {
  EXPECT_STREQ(nrt_get_status_as_str(NRT_SUCCESS), "NRT_SUCCESS");
  EXPECT_STREQ(nrt_get_status_as_str(NRT_EXEC_HW_ERR_DMA_ABORT), "NRT_EXEC_HW_ERR_DMA_ABORT");
  EXPECT_THAT(nrt_get_status_as_str(static_cast<NRT_STATUS>(999)), HasSubstr("Unknown"));
}

TEST_F(PreInitCalls, LastErrorBelongsToItsThread) {
  EXPECT_STATUS(NRT_INVALID, nrt_get_version(nullptr, 1));
  const std::string mine = onrt_last_error();
  std::string theirs = "?";
  std::thread([&] { theirs = onrt_last_error(); }).join();
  EXPECT_THAT(mine, HasSubstr("ver"));
  EXPECT_EQ(theirs, "");
}

using ReInit = ApiTest;

TEST_F(ReInit, SecondInitChangesNothingAndInitAfterCloseWorks) {
  ASSERT_OK(init());
  Tensor kept = make_tensor_of<float>({1, 2});
  ASSERT_OK(init());
  EXPECT_THAT(read<float>(kept, 2), ElementsAre(1, 2));
  kept.reset();
  nrt_close();

  ASSERT_OK(init());
  const Model model = load(add_neff(2));
  const Tensor a = make_tensor_of<float>({1, 2});
  const Tensor b = make_tensor_of<float>({10, 20});
  const Tensor sum = make_tensor(8);
  const TensorSet inputs = make_set({{"input0", a.get()}, {"input1", b.get()}});
  const TensorSet outputs = make_set({{"output0", sum.get()}});
  ASSERT_OK(nrt_execute(model.get(), inputs.get(), outputs.get()));
  EXPECT_THAT(read<float>(sum, 2), ElementsAre(11, 22));
}

TEST_F(ReInit, HundredRoundsLeaveNothingBehind) {
  size_t descriptors = 0;
  size_t threads = 0;
  uint64_t resident = 0;
  for (int round = 0; round < 100; ++round) {
    ASSERT_OK(init());
    Tensor tensor = make_tensor_of<float>({1, 2, 3});
    tensor.reset();
    nrt_close();
    if (round == 10) {
      descriptors = descriptor_count();
      threads = thread_count();
      resident = resident_bytes();
    }
  }
  EXPECT_EQ(descriptor_count(), descriptors);
  EXPECT_EQ(thread_count(), threads);
  EXPECT_LT(resident_bytes(), resident + (4u << 20));
}

TEST_F(ReInit, MayUseAnotherCoreSize) {
  ASSERT_OK(init());
  nrt_close();
  setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
  ASSERT_OK(init());
  uint32_t count = 0;
  EXPECT_OK(nrt_get_visible_vnc_count(&count));
  EXPECT_EQ(count, 2 * kCores);
}

using Close = ApiTest;

TEST_F(Close, WithoutInitAndTwiceIsHarmless) {
  nrt_close();
  nrt_close();
  ASSERT_OK(init());
  nrt_close();
  nrt_close();
}

// Clients free what they hold in the order of their destructors.
TEST_F(Close, HandlesMayBeFreedAfterwards) {
  ASSERT_OK(init());
  nrt_tensor_t* tensor = nullptr;
  nrt_tensor_t* slice = nullptr;
  nrt_tensor_set_t* set = nullptr;
  ASSERT_OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, nullptr, &tensor));
  ASSERT_OK(nrt_tensor_allocate_slice(tensor, 0, 32, nullptr, &slice));
  ASSERT_OK(nrt_allocate_tensor_set(&set));
  ASSERT_OK(nrt_add_tensor_to_tensor_set(set, "x", tensor));
  nrt_close();
  nrt_tensor_free(&tensor);
  nrt_destroy_tensor_set(&set);
  nrt_tensor_free(&slice);
  EXPECT_EQ(tensor, nullptr);
  EXPECT_EQ(slice, nullptr);
  EXPECT_EQ(set, nullptr);
  ASSERT_OK(init());
  EXPECT_EQ(bytes_used(), bytes_used());
}

// A new session does not take handles of the old one for its own.
TEST_F(Close, HandlesOfAnEarlierSessionAreRefused) {
  ASSERT_OK(init());
  const Tensor old = make_tensor(64);
  nrt_close();
  ASSERT_OK(init());
  char buffer[64];
  EXPECT_STATUS(NRT_INVALID_HANDLE, nrt_tensor_read(old.get(), buffer, 0, sizeof(buffer)));
}

using Settings = ApiTest;

// opennrt-settings(7): a value that is not allowed makes nrt_init() fail, and the text names it.
TEST_F(Settings, WrongValuesAreNamedByInit) {
  struct Row {
    const char* name;
    const char* value;
  };
  for (const Row& row :
       {Row{"NEURON_RT_LOG_LEVEL", "banana"}, Row{"NEURON_RT_LOG_LOCATION", "banana"},
        Row{"NEURON_RT_LOG_LOCATION", "file:/nonexistent/log"},
        Row{"NEURON_RT_NUMERICAL_ERRORS_VERBOSITY", "banana"},
        Row{"NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", "-1"}, Row{"NEURON_RT_VALIDATE_HASH", "banana"},
        Row{"OPENNRT_EMU_SIMD", "banana"}, Row{"OPENNRT_EMU_THREADS", "banana"},
        Row{"OPENNRT_EMU_HBM_BACKING", "banana"}, Row{"OPENNRT_BACKEND", "banana"},
        Row{"OPENNRT_EMULATE", "banana"}, Row{"OPENNRT_MACHINE", "../banana"}}) {
    const char* before = getenv(row.name);
    const std::string kept = before == nullptr ? "" : before;
    setenv(row.name, row.value, 1);
    EXPECT_STATUS(NRT_INVALID, init()) << row.name;
    EXPECT_THAT(onrt_last_error(), HasSubstr(row.name));
    EXPECT_THAT(onrt_last_error(), HasSubstr(row.value));
    setenv(row.name, kept.c_str(), 1);  // an empty value is the same as none
    ASSERT_OK(init());
    nrt_close();
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they mix two copies' globals
using SecondLibrary = ApiTest;

// fcntl locks are the process': another copy of the library would find every core free.
TEST_F(SecondLibrary, OfTheSameProcessIsRefusedAndHarmsNothing) {
  Dl_info first{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&nrt_init), &first), 0);
  const auto copy = folder() / "second.so";
  std::filesystem::copy_file(std::filesystem::canonical(first.dli_fname), copy);
  void* library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto second = reinterpret_cast<decltype(&nrt_init)>(dlsym(library, "nrt_init"));
  const auto text = reinterpret_cast<decltype(&onrt_last_error)>(dlsym(library, "onrt_last_error"));
  ASSERT_NE(second, &nrt_init);

  ASSERT_OK(init());
  const Tensor tensor = make_tensor_of<float>({5, 6});
  EXPECT_EQ(second(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_RESOURCE);
  EXPECT_THAT(text(), HasSubstr("another copy of libnrt.so.1 in this process"));
  EXPECT_THAT(read<float>(tensor, 2), ElementsAre(5, 6));
  EXPECT_EQ(count_in_another_process().exit_status, 1) << "the second copy gave our cores away";
  dlclose(library);
}
#endif

using ForkChild = OpenApiTest;

// sdk#1083: servers that fork after loading.
TEST_F(ForkChild, IsRefusedWhileTheParentGoesOn) {
  const Tensor tensor = make_tensor_of<float>({5, 6});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    float values[2] = {};
    nrt_tensor_t* another = nullptr;
    int failures = 0;
    failures += nrt_tensor_read(tensor.get(), values, 0, sizeof(values)) != NRT_FAILURE;
    failures += std::strstr(onrt_last_error(), "CHILD") == nullptr ? 10 : 0;
    failures +=
        nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &another) == NRT_FAILURE ? 0
                                                                                              : 20;
    failures += init() != NRT_FAILURE ? 40 : 0;
    nrt_close();
    _exit(failures);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(read<float>(tensor, 2), ElementsAre(5, 6));
  EXPECT_EQ(count_in_another_process().exit_status, 1) << "the child gave our cores away";
}

TEST_F(ForkChild, MayExecuteAProgramThatUsesTheRuntime) {
  nrt_close();
  setenv("NEURON_RT_VISIBLE_CORES", "0", 1);
  ASSERT_OK(init());
  setenv("NEURON_RT_VISIBLE_CORES", "1", 1);
  const ChildResult other = count_in_another_process();
  EXPECT_EQ(other.line, "pre 0:1 init 0 post 1") << other.errors;
}

}  // namespace
}  // namespace onrt::api_test
