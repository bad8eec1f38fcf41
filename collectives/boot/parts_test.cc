// SPDX-License-Identifier: Apache-2.0
// Addresses, launchers, fingerprints, secrets, roster, exchanges, pages: each alone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "collectives/boot/abort_page.h"
#include "collectives/boot/exchange.h"
#include "collectives/boot/fd_share.h"
#include "collectives/boot/fingerprint.h"
#include "collectives/boot/rank_env.h"
#include "collectives/boot/root_address.h"
#include "collectives/boot/roster.h"
#include "collectives/boot/secret.h"
#include "collectives/boot/testing.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// ---- addresses ----

TEST(RootAddresses, OfEveryKindAreRead) {
  const std::map<std::string, std::string> rows = {{"10.0.0.1:45654", "10.0.0.1"},
                                                   {"[fd00::1]:1", "fd00::1"},
                                                   {"[fe80::1%eth0]:1", "fe80::1%eth0"},
                                                   {"[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1"},
                                                   {"node-0.cluster:65535", "node-0.cluster"}};
  for (const auto& [text, host] : rows) {
    const auto address = parse_root_address(text, "NEURON_RT_ROOT_COMM_ID");
    ASSERT_TRUE(address.ok()) << address.status().message();
    EXPECT_EQ((*address).host, host);
    EXPECT_EQ((*address).text(), text);
  }
}

TEST(RootAddresses, BadOnesNameVariableExpectationAndValue) {
  for (const char* text : {"",
                           "host",
                           "host:",
                           "host:0",
                           "host:65536",
                           "host:1x",
                           ":80",
                           "a b:80",
                           "fd00::1:80",
                           "[]:80",
                           "0.0.0.0:80",
                           "[::]:80",
                           "h\n:80",
                           "0:80",
                           "0x0.0:80",
                           "[0::0]:80",
                           "[::%eth0]:80",
                           "[fe80::1%]:80",
                           "[fe80::1%e%f]:80",
                           "[0.0.0%0]:80",
                           "[node-0]:80",
                           "[10.0.0.1]:80"}) {
    const auto address = parse_root_address(text, "NEURON_RT_ROOT_COMM_ID");
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), NRT_INVALID);
    EXPECT_THAT(
        std::string(address.status().message()),
        AllOf(HasSubstr("NEURON_RT_ROOT_COMM_ID: expected host:port"), HasSubstr("found '")));
    EXPECT_EQ(address.status().message().find('\n'), std::string_view::npos);
  }
}

// ---- launchers ----

Result<std::optional<RankInfo>> discover(const std::map<std::string, std::string>& variables) {
  return discover_rank([&](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

struct LauncherCase {
  std::map<std::string, std::string> variables;
  const char* launcher;
  int rank;
  int size;
};

TEST(RankDiscovery, KnowsEveryLauncher) {
  const LauncherCase rows[] = {
      {{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}},
       "torchrun",
       3,
       4},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, "Open MPI", 0, 2},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "MPICH", 1, 2},
      {{{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_LOCALID", "1"}},
       "Slurm",
       5,
       6},
      {{{"NEURON_PJRT_PROCESS_INDEX", "1"}, {"NEURON_PJRT_PROCESSES_NUM_DEVICES", "32,32,32"}},
       "Neuron PJRT",
       1,
       3},
      // mpirun within a Slurm step: the inner launcher counts.
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "8"}},
       "MPICH",
       1,
       8},
  };
  for (const LauncherCase& row : rows) {
    const auto info = discover(row.variables);
    ASSERT_TRUE(info.ok()) << info.status().message();
    ASSERT_TRUE(*info) << row.launcher;
    EXPECT_EQ((*info)->launcher, row.launcher);
    EXPECT_EQ((*info)->rank, row.rank);
    EXPECT_EQ((*info)->size, row.size);
  }
}

TEST(RankDiscovery, TakesTheRootFromTorchrunOnePortHigher) {
  const auto info = discover(
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ((*info)->root->text(), "[::1]:29501");
}

TEST(RankDiscovery, AProcessOnItsOwnHasNone) {
  const auto info = discover({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});  // a batch script
  ASSERT_TRUE(info.ok());
  EXPECT_FALSE(*info);
}

TEST(RankDiscovery, BadValuesAreNamed) {
  const std::map<std::string, std::string> rows[] = {
      {{"RANK", "4"}, {"WORLD_SIZE", "4"}},
      {{"RANK", "x"}, {"WORLD_SIZE", "4"}},
      {{"RANK", "-1"}, {"WORLD_SIZE", "4"}},
  };
  for (const auto& row : rows) {
    const auto info = discover(row);
    EXPECT_THAT(std::string(info.status().message()),
                AllOf(HasSubstr("RANK: expected a whole number from 0 to 3"),
                      HasSubstr(format("'{}'", row.at("RANK")))));
  }
}

// ---- fingerprints ----

TEST(Fingerprints, DifferencesNameVariableRanksAndValues) {
  const std::vector<FingerprintEntry> a = {{"A", "1"}, {"B", "x"}, {"C", ""}};
  const std::vector<FingerprintEntry> b = {{"A", "2"}, {"B", "x"}};
  EXPECT_EQ(fingerprint_difference(0, a, 5, b), "A: rank 0 has '1', rank 5 has '2'");
  const std::vector<FingerprintEntry> only_a = {{"A", "1"}};
  EXPECT_EQ(fingerprint_difference(0, a, 5, a), "");
  EXPECT_EQ(fingerprint_difference(0, a, 5, only_a), "B: rank 0 has 'x', rank 5 has not set");
}

TEST(Fingerprints, LongAndHostileValuesStayOneShortLine) {
  std::vector<FingerprintEntry> a;
  for (int i = 0; i < 100; ++i) {
    a.push_back({format("V{:03}\n", i), std::string(4000, 'v')});
  }
  const std::string text = fingerprint_difference(0, a, 1, {});
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("and 84 more"));
  EXPECT_LT(text.size(), 4000U);
}

// ---- secrets ----

void put(const std::string& path, const std::string& text, mode_t mode) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  ASSERT_TRUE(write_fully(fd.get(), text));
  ::fchmod(fd.get(), mode);
}

TEST(Secrets, FilesThatOthersCouldReadAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/s";
  put(path, "0123456789abcdef", 0600);
  EXPECT_TRUE(secret_from_file(path).ok());
  put(path, "0123456789abcdef", 0640);
  EXPECT_THAT(std::string(secret_from_file(path).status().message()),
              AllOf(HasSubstr(path), HasSubstr("expected permissions 0600, found 0640")));
  put(path, "short", 0600);
  EXPECT_THAT(std::string(secret_from_file(path).status().message()),
              HasSubstr("expected 16 to 4096 bytes, found 5"));
  EXPECT_THAT(std::string(secret_from_file(folder.path()).status().message()),
              HasSubstr("regular file"));
  EXPECT_FALSE(secret_from_file(folder.path() + "/none").ok());
}

TEST(Secrets, FilesAndDescriptorsOfTheSameBytesAgree) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/s";
  put(path, "0123456789abcdef", 0600);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto from_file = secret_from_file(path);
  const auto from_fd = secret_from_fd(fd.get());
  const auto again = secret_from_fd(fd.get());
  ASSERT_TRUE(from_file.ok() && from_fd.ok() && again.ok());
  EXPECT_EQ((*from_file).mac({}), (*from_fd).mac({}));
  EXPECT_EQ((*from_fd).mac({}), (*again).mac({}));
  EXPECT_FALSE(secret_from_fd(987654).ok());
}

TEST(Secrets, TheLocalOneIsTheSameForAllWhoComeAtOnce) {
  const TemporaryFolder folder;
  const auto place = open_private_folder(folder.path() + "/a/b");
  ASSERT_TRUE(place.ok()) << place.status().message();
  std::vector<Mac> macs(8);
  std::vector<std::thread> threads;
  for (Mac& mac : macs) {
    threads.emplace_back([&] {
      const auto secret = local_secret((*place).get());
      mac = secret.ok() ? (*secret).mac({}) : Mac{};
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_NE(macs[0], Mac{});
  for (const Mac& mac : macs) {
    EXPECT_EQ(mac, macs[0]);
  }
  EXPECT_THAT(folder.names("a/b"), ElementsAre(kLocalSecretName));
  struct stat status{};
  ASSERT_EQ(::fstatat((*place).get(), kLocalSecretName, &status, 0), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
}

TEST(Secrets, PlantedFoldersAndFilesAreRefused) {
  const TemporaryFolder folder;
  const std::string open_to_all = folder.path() + "/open";
  ::mkdir(open_to_all.c_str(), 0777);
  ::chmod(open_to_all.c_str(), 0777);
  EXPECT_THAT(std::string(open_private_folder(open_to_all).status().message()),
              HasSubstr("others can't write to"));
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(::symlink("/tmp", link.c_str()), 0);
  EXPECT_FALSE(open_private_folder(link).ok());
  EXPECT_FALSE(open_private_folder("relative").ok());
  const auto place = open_private_folder(folder.path() + "/cc");
  ASSERT_TRUE(place.ok());
  put(folder.path() + "/elsewhere", "0123456789abcdef", 0600);
  ASSERT_EQ(::symlinkat("../elsewhere", (*place).get(), kLocalSecretName), 0);
  EXPECT_FALSE(local_secret((*place).get()).ok());
}

// ---- roster ----

JoinMessage member(uint32_t rank, uint32_t size) {
  JoinMessage join;
  join.rank = rank;
  join.size = size;
  join.pid = 1000 + rank;
  join.port = static_cast<uint16_t>(2000 + rank);
  join.address = "127.0.0.1";
  join.host_id = "host";
  join.host_name = "name";
  return join;
}

TEST(Rosters, GivePlacesInTheOrderOfArrival) {
  Roster roster(1, member(0, 40));
  for (uint32_t rank = 39; rank >= 1; --rank) {
    const auto verdict = roster.admit(member(rank, 40), "peer");
    ASSERT_FALSE(verdict.problem);
    const uint32_t place = 40 - rank;
    EXPECT_EQ(verdict.welcome.place, place);
    EXPECT_EQ(verdict.welcome.leader_rank, 0U);
    // Places 1 to 16 are the root's children, 17 to 32 those of place 1, which rank 39 has.
    const uint32_t parent = place <= 16 ? 0 : place <= 32 ? 39 : 38;
    EXPECT_EQ(verdict.welcome.parent_rank, parent);
    EXPECT_EQ(verdict.welcome.parent_address.empty(), parent == 0);
  }
  EXPECT_TRUE(roster.complete());
  EXPECT_TRUE(roster.is_below(20, 39));
  EXPECT_FALSE(roster.is_below(39, 20));
  EXPECT_THAT(roster.foremost({20, 39}), ElementsAre(39));
  const auto described = parse_description(roster.describe(), 40);
  ASSERT_TRUE(described);
  EXPECT_EQ((*described)[7].pid, 1007U);
}

TEST(Rosters, KnowTheFirstOfEveryHost) {
  Roster roster(1, member(0, 4));
  JoinMessage other = member(3, 4);
  other.host_id = "other";
  EXPECT_EQ(roster.admit(other, "peer").welcome.leader_rank, 3U);
  other = member(1, 4);
  other.host_id = "other";
  EXPECT_EQ(roster.admit(other, "peer").welcome.leader_rank, 3U);
  EXPECT_THAT(roster.not_joined(), ElementsAre(2));
}

TEST(Rosters, ListsOfRanksAreShort) {
  EXPECT_EQ(rank_list({4}), "rank 4");
  EXPECT_EQ(rank_list({1, 2, 3, 7, 9, 10}), "ranks 1-3, 7, 9-10");
  std::vector<uint32_t> odd;
  for (uint32_t rank = 1; rank < 100; rank += 2) {
    odd.push_back(rank);
  }
  EXPECT_THAT(rank_list(odd), HasSubstr("and 38 more"));
}

// ---- exchanges ----

ContributeMessage contribution(uint32_t rank, ExchangeKind kind, uint32_t number = 0) {
  ContributeMessage part;
  part.id = {0, number};
  part.kind = kind;
  part.rank = rank;
  return part;
}

TEST(Exchanges, EndWhenAllHaveContributed) {
  ExchangeTable table(3);
  EXPECT_FALSE(table.add(contribution(2, ExchangeKind::kBarrier)).result);
  EXPECT_FALSE(table.add(contribution(0, ExchangeKind::kBarrier)).result);
  EXPECT_THAT(*table.missing({0, 0}), ElementsAre(1));
  EXPECT_TRUE(table.add(contribution(1, ExchangeKind::kBarrier)).result);
  EXPECT_TRUE(table.is_over({0, 0}));
  EXPECT_FALSE(table.missing({0, 0}));
}

TEST(Exchanges, ContributionsAgainOfOthersAndToWhatIsOverAreProblems) {
  ExchangeTable table(2);
  EXPECT_FALSE(table.add(contribution(0, ExchangeKind::kBarrier)).problem);
  EXPECT_TRUE(table.add(contribution(0, ExchangeKind::kBarrier)).problem);
  EXPECT_TRUE(table.add(contribution(1, ExchangeKind::kAllGather)).problem);
  EXPECT_TRUE(table.add(contribution(2, ExchangeKind::kBarrier)).problem);
  EXPECT_TRUE(table.add(contribution(1, ExchangeKind::kBarrier)).result);
  EXPECT_TRUE(table.add(contribution(1, ExchangeKind::kBarrier)).problem);
}

TEST(Exchanges, GroupsDoNotMeet) {
  const ByteVector ab = member_bits({0, 1}, 4);
  const ByteVector cd = member_bits({2, 3}, 4);
  EXPECT_NE(group_key(ab, 0), group_key(cd, 0));
  EXPECT_NE(group_key(ab, 0), group_key(ab, 1));
  EXPECT_EQ(group_key({}, 0), 0U);
  EXPECT_THAT(members_of(cd, 4), ElementsAre(2, 3));
  ExchangeTable table(4);
  ContributeMessage part = contribution(0, ExchangeKind::kBarrier);
  part.id.group = group_key(ab, 0);
  part.members = ab;
  EXPECT_FALSE(table.add(part).problem);
  part.rank = 2;
  EXPECT_TRUE(table.add(part).problem);
}

// ---- pages and descriptors ----

TEST(AbortPages, KeepTheFirstCauseForAllWhoMapThem) {
  const auto page = AbortPage::create();
  ASSERT_TRUE(page.ok()) << page.status().message();
  const auto other =
      AbortPage::adopt(UniqueFd(::dup((*page)->memory_fd())), UniqueFd(::dup((*page)->event_fd())));
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ((*other)->word(), 0U);
  EXPECT_FALSE((*other)->cause());
  Cause cause;
  cause.code = NRT_TIMEOUT;
  cause.text = std::string(kLongestCause + 100, 'x');
  EXPECT_TRUE((*page)->set(cause));
  cause.text = "second";
  EXPECT_FALSE((*other)->set(cause));
  EXPECT_NE((*other)->word(), 0U);
  EXPECT_EQ((*other)->cause()->text, std::string(kLongestCause, 'x'));
  pollfd entry{(*other)->event_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
}

TEST(AbortPages, OtherFilesAreRefused) {
  const UniqueFd memory(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory.get(), 4096), 0);  // but not sealed
  EXPECT_FALSE(AbortPage::adopt(UniqueFd(::dup(memory.get())), UniqueFd()).ok());
}

TEST(SharedDescriptors, NamesOfDeadServersAreRemoved) {
  const TemporaryFolder folder;
  const auto place = open_private_folder(folder.path() + "/cc");
  ASSERT_TRUE(place.ok());
  const auto never = [] { return false; };
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::seconds(5); };
  testing::Ranks server;
  server.start(0, [&](int) -> std::string {
    auto own = FdServer::open((*place).get(), socket_name(7, "0"), {(*place).get()});
    testing::Ranks::say(own.ok() ? "open" : std::string(own.status().message()));
    while (true) {
      (*own).serve();
      ::usleep(1000);
    }
  });
  ASSERT_EQ(server.next_line(0), "open");
  remove_stale_sockets((*place).get());
  EXPECT_TRUE(fetch_fds((*place).get(), socket_name(7, "0"), 1, soon(), never).ok());
  EXPECT_FALSE(fetch_fds((*place).get(), socket_name(7, "0"), 2, soon(), never).ok());
  server.signal(0, SIGKILL);
  EXPECT_EQ(server.result(0), "killed by signal 9");
  EXPECT_THAT(folder.names("cc"), ElementsAre("cc.0000000000000007.0.sock"));
  remove_stale_sockets((*place).get());
  EXPECT_THAT(folder.names("cc"), ElementsAre());
}

}  // namespace
}  // namespace onrt::cc
