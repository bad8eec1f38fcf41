// SPDX-License-Identifier: Apache-2.0
// What the API says about the host, and device memory as other drivers reach it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/api/fixture.h"

namespace onrt::api_test {
namespace {

using InstanceInfo = OpenApiTest;

TEST_F(InstanceInfo, NamesTheInstanceType) {
  nrt_instance_info_t info = {};
  ASSERT_OK(nrt_get_instance_info(&info, sizeof(info)));
  EXPECT_EQ(info.family, static_cast<uint32_t>(NRT_INSTANCE_TRN2));
  EXPECT_EQ(info.size, static_cast<uint32_t>(NRT_INSTANCE_SIZE_3XL));
  EXPECT_STREQ(info.arch_name, "NCv3");
  nrt_instance_info_t shorter = {1, 2, "", ""};
  EXPECT_OK(nrt_get_instance_info(&shorter, sizeof(shorter.family)));
  EXPECT_EQ(shorter.family, info.family);
  EXPECT_EQ(shorter.size, 2u);
  EXPECT_STATUS(NRT_INVALID, nrt_get_instance_info(nullptr, sizeof(info)));
}

using HostDeviceIds = OpenApiTest;

TEST_F(HostDeviceIds, AreThoseOfTheOneDevice) {
  uint32_t id = 77;
  EXPECT_OK(nrt_host_device_id_get(0, &id));
  EXPECT_EQ(id, 0u);
  EXPECT_STATUS(NRT_INVALID, nrt_host_device_id_get(1, &id));
  EXPECT_STATUS(NRT_INVALID, nrt_host_device_id_get(-1, &id));
  uint32_t map[8] = {77, 77};
  uint32_t count = 8;
  EXPECT_OK(nrt_host_device_id_rid_map_get(&count, map));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(map[0], 0u);
  EXPECT_EQ(map[1], 77u);
}

using HbmMapping = OpenApiTest;

TEST_F(HbmMapping, EndsBehindTheLastHbm) {
  void* address = nullptr;
  size_t size = 0;
  EXPECT_STATUS(NRT_INVALID_HANDLE, nrt_get_hbm_mmap_va(0, 4, &address, &size));
  EXPECT_STATUS(NRT_INVALID, nrt_get_hbm_mmap_va(1, 0, &address, &size));
  EXPECT_STATUS(NRT_INVALID, nrt_get_hbm_mmap_va(0, -1, &address, &size));
  EXPECT_EQ(address, nullptr);
}

using Dmabuf = OpenApiTest;

// libfabric#8517, #10149, #11907: an address inside a tensor, and descriptors that must not leak.
TEST_F(Dmabuf, SharesMemoryAtAnyAddress) {
  std::vector<uint32_t> values(4096);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint32_t>(i);
  }
  const Tensor tensor = make_tensor_of(values);
  const auto va = reinterpret_cast<uint64_t>(nrt_tensor_get_va(tensor.get()));
  ASSERT_NE(va, 0u);
  int fd = -1;
  uint64_t offset = 0;
  ASSERT_OK(nrt_get_dmabuf_fd_v2(va + 400, 4, &fd, &offset));
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  void* view =
      mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset / page * page));
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_EQ(static_cast<const uint32_t*>(view)[offset % page / 4], 100u);
  munmap(view, 2 * page);
  close(fd);

  const size_t descriptors = descriptor_count();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_OK(nrt_get_dmabuf_fd_v2(va, 4096, &fd, &offset));
    close(fd);
  }
  EXPECT_EQ(descriptor_count(), descriptors);
}

// The first form has no offset to give, so it can't serve an address inside an allocation.
TEST_F(Dmabuf, FirstFormRefusesWhatItCannotDescribe) {
  const Tensor tensor = make_tensor_of(std::vector<uint8_t>(8192));
  const auto va = reinterpret_cast<uint64_t>(nrt_tensor_get_va(tensor.get()));
  int fd = 77;
  EXPECT_FAILS(NRT_INVALID, "nrt_get_dmabuf_fd_v2", nrt_get_dmabuf_fd(va + 8, 64, &fd));
  EXPECT_EQ(fd, 77);
  uint64_t offset = 0;
  EXPECT_STATUS(NRT_INVALID, nrt_get_dmabuf_fd_v2(va, 8193, &fd, &offset));
  EXPECT_STATUS(NRT_INVALID, nrt_get_dmabuf_fd_v2(4096, 64, &fd, &offset));
  EXPECT_STATUS(NRT_INVALID, nrt_get_dmabuf_fd_v2(va, 64, nullptr, &offset));
  EXPECT_EQ(fd, 77);
}

}  // namespace
}  // namespace onrt::api_test
