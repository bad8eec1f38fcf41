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
#include <string>
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

// A rank of a job with what tests of the table need; no device.
struct Rank {
  const onrt_cc_api_t* cc = onrt_cc_api(ONRT_CC_VERSION);
  onrt_cc_comm_t* comm = nullptr;
  onrt_cc_group_t* world = nullptr;

  int join(int rank, int size) {
    onrt_cc_init_t how{};
    how.struct_size = sizeof(how);
    how.rank = rank;
    how.size = size;
    WANT(cc->init(&how, &comm) == NRT_SUCCESS);
    WANT(cc->world(comm, &world) == NRT_SUCCESS);
    return 0;
  }
};

onrt_cc_buffer_t host(std::vector<int32_t>& values, size_t offset = 0) {
  return {nullptr, values.data(), offset * sizeof(int32_t)};
}

using Ints = std::vector<int32_t>;

// Results by hand: rank r gives 10 r + i as element i.
Ints given(int rank, int count) {
  Ints values;
  for (int i = 0; i < count; ++i) {
    values.push_back(10 * rank + i);
  }
  return values;
}

TEST_F(CollectivesTest, OperationsOfTheTableGiveWhatTheirCommentsSay) {
  run_ranks(4, [](int rank) {
    Rank r;
    WANT(r.join(rank, 4) == 0);
    const onrt_cc_api_t* cc = r.cc;
    constexpr onrt_cc_dtype_t kType = ONRT_CC_S32;
    Ints in = given(rank, 2);
    Ints out(2, -1);
    onrt_cc_buffer_t from = host(in);
    onrt_cc_buffer_t to = host(out);

    // Sum of 10 r: 60; of i: 4 i. Largest: rank 3's. Products of 1, 11, 21, 31: 7161.
    WANT(cc->all_reduce(r.world, &from, &to, 2, kType, ONRT_CC_SUM, nullptr) == NRT_SUCCESS);
    WANT(out == (Ints{60, 64}));
    WANT(cc->all_reduce(r.world, &from, &to, 2, kType, ONRT_CC_MAX, nullptr) == NRT_SUCCESS);
    WANT(out == (Ints{30, 31}));
    WANT(cc->all_reduce(r.world, &from, &to, 2, kType, ONRT_CC_MIN, nullptr) == NRT_SUCCESS);
    WANT(out == (Ints{0, 1}));
    WANT(cc->all_reduce(r.world, &from, &to, 2, kType, ONRT_CC_PROD, nullptr) == NRT_SUCCESS);
    WANT(out == (Ints{0, 7161}));
    WANT(cc->all_reduce(r.world, &from, &to, 2, kType, ONRT_CC_AVG, nullptr) == NRT_SUCCESS);
    WANT(out == (Ints{15, 16}));

    Ints shared = rank == 2 ? given(2, 3) : Ints(3, -1);
    const onrt_cc_buffer_t both = host(shared);
    WANT(cc->broadcast(r.world, &both, 3, kType, 2, nullptr) == NRT_SUCCESS);
    WANT(shared == (Ints{20, 21, 22}));

    WANT(cc->reduce(r.world, &from, rank == 1 ? &to : nullptr, 2, kType, ONRT_CC_SUM, 1, nullptr) ==
         NRT_SUCCESS);
    WANT(out == (rank == 1 ? Ints{60, 64} : Ints{15, 16}));

    Ints all(8, -1);
    const onrt_cc_buffer_t wide = host(all);
    WANT(cc->gather(r.world, &from, rank == 3 ? &wide : nullptr, 2, kType, 3, nullptr) ==
         NRT_SUCCESS);
    WANT(all == (rank == 3 ? Ints{0, 1, 10, 11, 20, 21, 30, 31} : Ints(8, -1)));
    Ints whole = given(7, 8);
    const onrt_cc_buffer_t source = host(whole);
    WANT(cc->scatter(r.world, rank == 0 ? &source : nullptr, &to, 2, kType, 0, nullptr) ==
         NRT_SUCCESS);
    WANT(out == (Ints{70 + 2 * rank, 71 + 2 * rank}));
    WANT(cc->all_gather(r.world, &from, &wide, 2, kType, nullptr) == NRT_SUCCESS);
    WANT(all == (Ints{0, 1, 10, 11, 20, 21, 30, 31}));
    Ints blocks = given(rank, 8);
    const onrt_cc_buffer_t mine = host(blocks);
    WANT(cc->reduce_scatter(r.world, &mine, &to, 2, kType, ONRT_CC_SUM, nullptr) == NRT_SUCCESS);
    WANT(out == (Ints{60 + 4 * (2 * rank), 60 + 4 * (2 * rank + 1)}));
    WANT(cc->all_to_all(r.world, &mine, &wide, 2, kType, nullptr) == NRT_SUCCESS);
    for (int j = 0; j < 4; ++j) {
      WANT(all[static_cast<size_t>(2 * j)] == 10 * j + 2 * rank);
    }

    // Rank 0 gives one element, rank 3 four; each block one element behind the one before.
    const uint64_t counts[] = {1, 2, 3, 4};
    const uint64_t offsets[] = {0, 2, 5, 9};
    Ints part = given(rank, rank + 1);
    const onrt_cc_buffer_t uneven = host(part);
    Ints gaps(13, -1);
    const onrt_cc_buffer_t gapped = host(gaps);
    WANT(cc->all_gather_v(r.world, &uneven, &gapped, counts, offsets, kType, nullptr) ==
         NRT_SUCCESS);
    WANT(gaps == (Ints{0, -1, 10, 11, -1, 20, 21, 22, -1, 30, 31, 32, 33}));
    // Rank r sends s + 1 elements to rank s.
    const uint64_t receives[] = {static_cast<uint64_t>(rank) + 1, static_cast<uint64_t>(rank) + 1,
                                 static_cast<uint64_t>(rank) + 1, static_cast<uint64_t>(rank) + 1};
    Ints ten = given(rank, 10);
    const onrt_cc_buffer_t sent = host(ten);
    Ints got(16, -1);
    const onrt_cc_buffer_t received = host(got);
    WANT(cc->all_to_all_v(r.world, &sent, &received, counts, nullptr, receives, nullptr, kType,
                          nullptr) == NRT_SUCCESS);
    for (int j = 0; j < 4; ++j) {
      const int first = rank * (rank + 1) / 2;  // of our block in rank j's buffer
      WANT(got[static_cast<size_t>(j * (rank + 1))] == 10 * j + first);
    }
    WANT(got[15] == (rank == 3 ? 39 : -1));

    const int32_t pairs[] = {0, 1, 1, 0, 2, 2};
    out = {-5, -5};
    WANT(cc->permute(r.world, &from, &to, 2, kType, pairs, 3, nullptr) == NRT_SUCCESS);
    const Ints expected[] = {{10, 11}, {0, 1}, {20, 21}, {-5, -5}};
    WANT(out == expected[rank]);

    onrt_cc_last_call_t last{};
    last.struct_size = sizeof(last);
    WANT(cc->last_call(r.world, &last) == NRT_SUCCESS);
    WANT(last.calls == 15 && std::string(last.transport) == "shm" && last.algorithm[0] != 0);
    WANT(cc->destroy(r.comm) == NRT_SUCCESS);
    return 0;
  });
}

TEST_F(CollectivesTest, SplitsGroupsAndMessagesAreTheirOwn) {
  run_ranks(4, [](int rank) {
    Rank r;
    WANT(r.join(rank, 4) == 0);
    const onrt_cc_api_t* cc = r.cc;
    // Case H11: a group of one rank is not the world.
    const auto me = static_cast<uint32_t>(rank);
    onrt_cc_group_t* alone = nullptr;
    WANT(cc->group(r.comm, &me, 1, &alone) == NRT_SUCCESS);
    Ints value = {rank + 1};
    const onrt_cc_buffer_t both = host(value);
    WANT(cc->all_reduce(alone, &both, &both, 1, ONRT_CC_S32, ONRT_CC_SUM, nullptr) == NRT_SUCCESS);
    WANT(value == Ints{rank + 1});
    WANT(cc->broadcast(alone, &both, 1, ONRT_CC_S32, 0, nullptr) == NRT_SUCCESS);
    WANT(value == Ints{rank + 1});
    // Odd and even ranks; rank 2 stays out of the second split.
    onrt_cc_group_t* half = nullptr;
    WANT(cc->split(r.world, rank % 2, &half) == NRT_SUCCESS);
    WANT(cc->all_reduce(half, &both, &both, 1, ONRT_CC_S32, ONRT_CC_SUM, nullptr) == NRT_SUCCESS);
    WANT(value == Ints{rank % 2 == 0 ? 4 : 6});
    onrt_cc_group_t* three = nullptr;
    WANT(cc->split(r.world, rank == 2 ? -1 : 5, &three) == NRT_SUCCESS);
    WANT((three == nullptr) == (rank == 2));
    int32_t place = -1;
    int32_t size = -1;
    if (three != nullptr) {
      WANT(cc->group_rank(three, &place, &size) == NRT_SUCCESS);
      WANT(size == 3 && place == (rank == 3 ? 2 : rank));
      WANT(cc->barrier(three, nullptr) == NRT_SUCCESS);
      WANT(cc->group_destroy(three) == NRT_SUCCESS);
    }
    // Members that make no sense are refused here and harm nobody.
    const uint32_t twice[] = {me, me};
    const uint32_t others[] = {(me + 1) % 4};
    onrt_cc_group_t* none = nullptr;
    WANT(cc->group(r.comm, twice, 2, &none) == NRT_INVALID);
    WANT(cc->group(r.comm, others, 1, &none) == NRT_INVALID);
    WANT(cc->group_destroy(r.world) == NRT_INVALID);

    // Case H15: both sides of a pair receive first.
    constexpr size_t kMany = 1 << 20;
    uint64_t before[4] = {};  // the splits have gathered colours
    uint64_t sent[4] = {};
    WANT(cc->traffic(r.world, sent, before) == NRT_SUCCESS);
    Ints out(kMany, rank);
    Ints in(kMany, -1);
    const onrt_cc_buffer_t to = host(out);
    const onrt_cc_buffer_t from = host(in);
    onrt_cc_request_t* receive = nullptr;
    onrt_cc_request_t* send = nullptr;
    WANT(cc->receive(r.world, &from, kMany, ONRT_CC_S32, rank ^ 1, &receive) == NRT_SUCCESS);
    WANT(cc->send(r.world, &to, kMany, ONRT_CC_S32, rank ^ 1, &send) == NRT_SUCCESS);
    // Complaint 14: nobody has to ask for a message to go on.
    int32_t done = 0;
    for (int turn = 0; turn < 6000 && done == 0; ++turn) {
      ::usleep(10'000);
      WANT(cc->request_test(receive, &done) == NRT_SUCCESS);
    }
    WANT(done == 1);
    WANT(in == Ints(kMany, rank ^ 1));
    WANT(cc->request_wait(send) == NRT_SUCCESS);
    WANT(cc->request_free(send) == NRT_SUCCESS);
    WANT(cc->request_free(receive) == NRT_SUCCESS);
    uint64_t received[4] = {};
    WANT(cc->traffic(r.world, sent, received) == NRT_SUCCESS);
    WANT(sent[rank ^ 1] == 4 * kMany && received[rank ^ 1] == before[rank ^ 1] + 4 * kMany);
    WANT(sent[rank ^ 2] == 0 && received[rank ^ 2] == before[rank ^ 2]);
    WANT(cc->group_destroy(half) == NRT_SUCCESS);
    WANT(cc->group_destroy(half) == NRT_INVALID_HANDLE);
    WANT(cc->group_destroy(alone) == NRT_SUCCESS);
    WANT(cc->destroy(r.comm) == NRT_SUCCESS);
    return 0;
  });
}

// Case H13: other counts, large and small, are refused on all ranks, in words that have both.
TEST_F(CollectivesTest, OtherCountsFailOnAllRanksWithBoth) {
  for (const size_t count : {size_t{100}, size_t{4096}, size_t{1} << 20}) {
    run_ranks(2, [count](int rank) {
      Rank r;
      WANT(r.join(rank, 2) == 0);
      const size_t mine = count * static_cast<size_t>(rank + 1);
      Ints values(mine, 1);
      const onrt_cc_buffer_t both = host(values);
      WANT(r.cc->all_reduce(r.world, &both, &both, mine, ONRT_CC_S32, ONRT_CC_SUM, nullptr) ==
           NRT_INVALID);
      const std::string text = onrt_last_error();
      WANT(text.find(std::to_string(count) + " elements") != std::string::npos);
      WANT(text.find(std::to_string(2 * count) + " elements") != std::string::npos);
      WANT(values == Ints(mine, 1));
      // The job has ended with it, for every call and in status().
      WANT(r.cc->barrier(r.world, nullptr) == NRT_INVALID);
      WANT(r.cc->status(r.comm) == NRT_INVALID);
      WANT(r.cc->destroy(r.comm) == NRT_SUCCESS);
      return 0;
    });
  }
}

TEST_F(CollectivesTest, AnAbortEndsWhatWaitsAndWhatIsAskedLater) {
  run_ranks(3, [](int rank) {
    Rank r;
    WANT(r.join(rank, 3) == 0);
    WANT(r.cc->barrier(r.world, nullptr) == NRT_SUCCESS);
    if (rank == 1) {
      ::usleep(50'000);
      WANT(r.cc->abort(r.comm, "rank one is\tfed up") == NRT_SUCCESS);
      WANT(r.cc->abort(r.comm, nullptr) == NRT_SUCCESS);  // the first cause stays
    }
    Ints value = {rank};
    const onrt_cc_buffer_t both = host(value);
    onrt_cc_request_t* request = nullptr;
    if (rank == 0) {  // asynchronously, and a message that nobody sends
      WANT(r.cc->receive(r.world, &both, 1, ONRT_CC_S32, 2, &request) == NRT_SUCCESS);
      WANT(r.cc->request_wait(request) == NRT_FAILURE);
      WANT(r.cc->request_free(request) == NRT_SUCCESS);
    }
    WANT(r.cc->all_reduce(r.world, &both, &both, 1, ONRT_CC_S32, ONRT_CC_SUM, nullptr) ==
         NRT_FAILURE);
    WANT(std::string(onrt_last_error()).find(R"(rank one is\x09fed up)") != std::string::npos);
    WANT(r.cc->status(r.comm) == NRT_FAILURE);
    WANT(value == Ints{rank});
    WANT(r.cc->destroy(r.comm) == NRT_SUCCESS);
    return 0;
  });
}

// Case H12 through the table: no root, one that is no address, one whose port is taken; and jobs
// side by side.
TEST_F(CollectivesTest, RootsThatCannotBeAreNamedAtOnce) {
  const onrt_cc_api_t* cc = onrt_cc_api(ONRT_CC_VERSION);
  onrt_cc_init_t how{};
  how.struct_size = sizeof(how);
  how.size = 2;
  how.join_timeout_ms = 60000;
  onrt_cc_comm_t* comm = nullptr;
  ::unsetenv("NEURON_RT_ROOT_COMM_ID");
  for (const int rank : {0, 1}) {
    how.rank = rank;
    EXPECT_EQ(cc->init(&how, &comm), NRT_INVALID);
    EXPECT_NE(std::string(onrt_last_error()).find("NEURON_RT_ROOT_COMM_ID"), std::string::npos)
        << onrt_last_error();
  }
  how.rank = 0;
  for (const char* root : {"127.0.0.1:99999", "localhost:abc", ":1", "[10.0.0.1]:1"}) {
    how.root = root;
    EXPECT_EQ(cc->init(&how, &comm), NRT_INVALID);
    EXPECT_NE(std::string(onrt_last_error()).find(root), std::string::npos) << onrt_last_error();
  }
  const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(taken, reinterpret_cast<sockaddr*>(&address), size);
  ::listen(taken, 1);
  ::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string root = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  how.root = root.c_str();
  EXPECT_NE(cc->init(&how, &comm), NRT_SUCCESS);
  const std::string text = onrt_last_error();
  EXPECT_NE(text.find(root), std::string::npos) << text;
  EXPECT_NE(text.find("in use"), std::string::npos) << text;
  ::close(taken);
}

TEST_F(CollectivesTest, JobsSideBySideDoNotDisturbEachOther) {
  const std::string roots[] = {free_root(), free_root()};
  run_ranks(4, [&](int process) {
    ::setenv("NEURON_RT_ROOT_COMM_ID", roots[process / 2].c_str(), 1);
    Rank r;
    WANT(r.join(process % 2, 2) == 0);
    Ints value = {process};
    const onrt_cc_buffer_t both = host(value);
    WANT(r.cc->all_reduce(r.world, &both, &both, 1, ONRT_CC_S32, ONRT_CC_SUM, nullptr) ==
         NRT_SUCCESS);
    WANT(value == Ints{process / 2 == 0 ? 1 : 5});
    // The end of one job, by a failure, is nothing to the other.
    if (process == 0) {
      WANT(r.cc->abort(r.comm, nullptr) == NRT_SUCCESS);
    }
    if (process >= 2) {
      for (int turn = 0; turn < 100; ++turn) {
        WANT(r.cc->barrier(r.world, nullptr) == NRT_SUCCESS);
      }
    }
    WANT(r.cc->destroy(r.comm) == NRT_SUCCESS);
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

// Two operations of one context end as one: rank r gives r + 1, so sums are 3.
TEST_F(CollectivesTest, CoalescedOperationsEndTogether) {
  run_ranks(2, [](int rank) {
    const auto me = static_cast<uint32_t>(rank);
    WANT(init() == NRT_SUCCESS);
    WANT(nrt_cc_global_comm_init(0, me, 2) == NRT_SUCCESS);
    const std::vector<float> values(64, static_cast<float>(rank + 1));
    nrt_tensor_t* in[2] = {};
    nrt_tensor_t* out[2] = {};
    for (int i = 0; i < 2; ++i) {
      WANT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 256, "in", &in[i]) == NRT_SUCCESS);
      WANT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, i == 0 ? 512 : 256, "out",
                               &out[i]) == NRT_SUCCESS);
      WANT(nrt_tensor_write(in[i], values.data(), 0, 256) == NRT_SUCCESS);
    }
    uint32_t ranks[] = {0, 1};
    nrt_cc_comm_t comm = {ranks, me, 2, me, 2, 0};
    nrt_tensor_list_t inputs[] = {{&in[0], 1}, {&in[1], 1}};
    nrt_tensor_list_t outputs[] = {{&out[0], 1}, {&out[1], 1}};
    const nrt_dtype_t dtypes[] = {NRT_DTYPE_FLOAT32, NRT_DTYPE_FLOAT32};
    const nrt_op_type_t ops[] = {NRT_OP_ADD, NRT_OP_ADD};
    const nrt_cc_op_type_t kinds[] = {NRT_CC_ALLGATHER, NRT_CC_ALLREDUCE};
    nrt_cc_context_t* context = nullptr;
    WANT(nrta_cc_prepare_coalesced(&comm, inputs, outputs, dtypes, ops, kinds, 0, &context) ==
         NRT_INVALID);
    WANT(nrta_cc_prepare_coalesced(&comm, inputs, inputs, dtypes, ops, kinds, 2, &context) ==
         NRT_INVALID);  // nothing is gathered into 256 bytes
    WANT(context == nullptr);
    WANT(nrta_cc_prepare_coalesced(&comm, inputs, outputs, dtypes, ops, kinds, 2, &context) ==
         NRT_SUCCESS);
    NRT_STATUS result = NRT_FAILURE;
    nrta_seq_t sequence = 0;
    WANT(nrta_cc_schedule(&context, 0, &result, &sequence) == NRT_SUCCESS);
    bool done = false;
    while (!done) {
      WANT(nrta_is_completed(sequence, &done) == NRT_SUCCESS);
    }
    WANT(result == NRT_SUCCESS);
    const std::vector<float> gathered = read(out[0], 128);
    WANT(gathered[0] == 1.0f && gathered[63] == 1.0f && gathered[64] == 2.0f);
    WANT(read(out[1], 64) == std::vector<float>(64, 3.0f));
    for (int i = 0; i < 2; ++i) {
      nrt_tensor_free(&in[i]);
      nrt_tensor_free(&out[i]);
    }
    nrt_close();
    return 0;
  });
}

}  // namespace
}  // namespace onrt::api_test
