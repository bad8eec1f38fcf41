// SPDX-License-Identifier: Apache-2.0
// Collectives through the C API, by two processes with a core and a tensor of their own each:
// opennrt/collectives.h and the vendor's functions that the host calls.
#include "opennrt/collectives.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "nrt/nrt_async.h"
#include "tests/conformance/api/fixture.h"

namespace onrt::api_test {
namespace {

using CollectivesTest = ApiTest;

std::string free_root() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// Runs `body(rank)` in `size` processes; each says what is wrong on stderr and returns how often.
void run_ranks(int size, const std::function<int(int)>& body) {
  ::setenv("NEURON_RT_ROOT_COMM_ID", free_root().c_str(), 1);
  ::setenv("NEURON_RT_NUM_CORES", "1", 1);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::alarm(60);
      std::exit(body(rank));
    }
    pids.push_back(pid);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ::unsetenv("NEURON_RT_NUM_CORES");
}

#define WANT(condition)                                                                   \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, onrt_last_error()); \
      return 1;                                                                           \
    }                                                                                     \
  } while (false)

std::vector<float> read(nrt_tensor_t* tensor, size_t count) {
  std::vector<float> values(count);
  nrt_tensor_read(tensor, values.data(), 0, count * sizeof(float));
  return values;
}

TEST_F(CollectivesTest, TableHasItsVersionsOnly) {
  ASSERT_NE(onrt_cc_api(ONRT_CC_VERSION), nullptr);
  EXPECT_EQ(onrt_cc_api(ONRT_CC_VERSION)->version, ONRT_CC_VERSION);
  EXPECT_EQ(onrt_cc_api(0), nullptr);
  EXPECT_EQ(onrt_cc_api(ONRT_CC_VERSION + 1), nullptr);
}

TEST_F(CollectivesTest, TensorsAndHostMemoryAreReduced) {
  run_ranks(2, [](int rank) {
    const onrt_cc_api_t* cc = onrt_cc_api(ONRT_CC_VERSION);
    WANT(init() == NRT_SUCCESS);
    onrt_cc_init_t how{};
    how.struct_size = sizeof(how);
    how.rank = rank;
    how.size = 2;
    onrt_cc_comm_t* comm = nullptr;
    onrt_cc_group_t* world = nullptr;
    WANT(cc->init(&how, &comm) == NRT_SUCCESS);
    WANT(cc->world(comm, &world) == NRT_SUCCESS);
    const std::vector<float> ones(3000, static_cast<float>(rank + 1));
    nrt_tensor_t* tensor = nullptr;
    WANT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 12000, "t", &tensor) == NRT_SUCCESS);
    WANT(nrt_tensor_write(tensor, ones.data(), 0, 12000) == NRT_SUCCESS);
    const onrt_cc_buffer_t device = {tensor, nullptr, 0};
    WANT(cc->all_reduce(world, &device, &device, 3000, ONRT_CC_F32, ONRT_CC_SUM, nullptr) ==
         NRT_SUCCESS);
    WANT(read(tensor, 3000) == std::vector<float>(3000, 3.0f));
    // Device memory on one rank, private memory on the other; and asynchronously.
    std::vector<float> own(3000, 5.0f);
    const onrt_cc_buffer_t host = {nullptr, own.data(), 0};
    const onrt_cc_buffer_t& mixed = rank == 0 ? device : host;
    onrt_cc_request_t* request = nullptr;
    WANT(cc->all_reduce(world, &mixed, &mixed, 3000, ONRT_CC_F32, ONRT_CC_SUM, &request) ==
         NRT_SUCCESS);
    WANT(cc->request_wait(request) == NRT_SUCCESS);
    WANT(cc->request_free(request) == NRT_SUCCESS);
    WANT((rank == 0 ? read(tensor, 3000) : own) == std::vector<float>(3000, 8.0f));
    // Refused here, without harm to the job.
    WANT(cc->all_reduce(world, &device, &device, 4000, ONRT_CC_F32, ONRT_CC_SUM, nullptr) ==
         NRT_INVALID);
    WANT(cc->barrier(world, nullptr) == NRT_SUCCESS);
    nrt_tensor_free(&tensor);
    WANT(cc->destroy(comm) == NRT_SUCCESS);
    WANT(cc->destroy(comm) == NRT_INVALID_HANDLE);
    nrt_close();
    return 0;
  });
}

TEST_F(CollectivesTest, ContextsOfTheVendorsInterfaceAreScheduled) {
  run_ranks(2, [](int rank) {
    const auto me = static_cast<uint32_t>(rank);
    WANT(init() == NRT_SUCCESS);
    WANT(nrt_cc_global_comm_init(0, me, 2) == NRT_SUCCESS);
    WANT(nrt_build_global_comm(0, me, 3) == NRT_INVALID);
    WANT(nrt_cc_create_stream(0) == NRT_SUCCESS);
    const std::vector<float> values(64, static_cast<float>(rank + 1));
    nrt_tensor_t* in = nullptr;
    nrt_tensor_t* out = nullptr;
    WANT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 256, "in", &in) == NRT_SUCCESS);
    WANT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 512, "out", &out) == NRT_SUCCESS);
    WANT(nrt_tensor_write(in, values.data(), 0, 256) == NRT_SUCCESS);
    uint32_t ranks[] = {0, 1};
    nrt_cc_comm_t comm = {ranks, me, 2, me, 2, 0};
    nrt_tensor_list_t inputs = {&in, 1};
    nrt_tensor_list_t outputs = {&out, 1};
    nrt_cc_context_t* context = nullptr;
    WANT(nrta_cc_prepare(&comm, &inputs, &inputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLGATHER,
                         &context) == NRT_INVALID);  // the output is too small
    WANT(nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLGATHER,
                         &context) == NRT_SUCCESS);
    NRT_STATUS result = NRT_FAILURE;
    nrta_seq_t sequence = 0;
    WANT(nrta_cc_schedule(&context, 0, &result, &sequence) == NRT_SUCCESS);
    WANT(context == nullptr);
    bool done = false;
    while (!done) {
      WANT(nrta_is_completed(sequence, &done) == NRT_SUCCESS);
    }
    WANT(result == NRT_SUCCESS);
    nrta_seq_t latest = 0;
    WANT(nrta_get_sequence(0, NRTA_XU_COLLECTIVES, 0, &latest) == NRT_SUCCESS);
    WANT(latest == sequence);
    WANT(nrta_is_completed(sequence + 1, &done) == NRT_INVALID);
    const std::vector<float> gathered = read(out, 128);
    WANT(gathered[0] == 1.0f && gathered[64] == 2.0f);
    WANT(nrt_barrier(0, me, 2) == NRT_SUCCESS);
    const int mine = 40 + rank;
    int all[2] = {};
    WANT(nrt_all_gather(0, me, 2, sizeof(int), const_cast<int*>(&mine), all) == NRT_SUCCESS);
    WANT(all[0] == 40 && all[1] == 41);
    nrt_tensor_free(&in);
    nrt_tensor_free(&out);
    nrt_close();
    return 0;
  });
}

}  // namespace
}  // namespace onrt::api_test
