// SPDX-License-Identifier: Apache-2.0
// The real launchers start ranks: torchrun, mpirun of Open MPI and MPICH, srun of a Slurm of this
// test's own. ONRT_BOOT_RANK is the program that they start.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "collectives/boot/net.h"
#include "collectives/boot/testing.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using testing::free_port;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

constexpr int kRanks = 4;

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read only
  return value == nullptr ? "" : value;
}

// What `command` prints, both streams.
std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(format("{{ {}; }} 2>&1", command).c_str(), "r");  // NOLINT: fixed commands
  std::string text;
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof(buffer), pipe) != nullptr) {
    text += buffer;
  }
  if (pipe != nullptr) {
    ::pclose(pipe);
  }
  return text;
}

bool is_installed(const std::string& program) {
  return !output_of(format("command -v {}", program)).empty();
}

class Launchers : public ::testing::Test {
 protected:
  Launchers() {
    // Not those of whoever runs this test.
    for (const char* name : {"RANK", "WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
                             "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}) {
      ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe): no threads here
    }
  }
  // Variables of the ranks, as a shell writes them.
  std::string environment() const {
    return format("OPENNRT_MACHINE_DIR={} OPENNRT_COMM_JOIN_TIMEOUT=60", folder_.path());
  }
  std::string root() const { return format("NEURON_RT_ROOT_COMM_ID=127.0.0.1:{}", free_port()); }
  void expect_all(const std::string& output, const std::string& launcher) const {
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_THAT(output, HasSubstr(format("rank {} of {} by {}", rank, kRanks, launcher)));
    }
  }
  TemporaryFolder folder_;
};

TEST_F(Launchers, TorchrunStartsRanksAtItsOwnAddress) {
  const std::string chosen = variable("ONRT_PYTHON");
  const std::string python = chosen.empty() ? "python3" : chosen;
  if (output_of(python + " -c 'import torch.distributed.run' && echo found").find("found") ==
      std::string::npos) {
    GTEST_SKIP() << "no PyTorch in " << python;
  }
  // Neither address nor secret is given: MASTER_ADDR and the folder's secret serve.
  expect_all(output_of(format("{} {} -m torch.distributed.run --nproc-per-node {} --master-addr "
                              "127.0.0.1 --master-port {} --no-python {}",
                              environment(), python, kRanks, free_port(), ONRT_BOOT_RANK)),
             "torchrun");
}

TEST_F(Launchers, MpirunOfOpenMpiStartsRanks) {
  if (!is_installed("mpirun.openmpi")) {
    GTEST_SKIP() << "no mpirun.openmpi";
  }
  const std::string as_root =
      ::geteuid() == 0 ? "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" : "";
  expect_all(output_of(format("{} {} {} mpirun.openmpi -np {} --oversubscribe {}", environment(),
                              root(), as_root, kRanks, ONRT_BOOT_RANK)),
             "Open MPI");
}

TEST_F(Launchers, MpirunOfMpichStartsRanks) {
  if (!is_installed("mpirun.mpich")) {
    GTEST_SKIP() << "no mpirun.mpich";
  }
  expect_all(output_of(format("{} {} mpirun.mpich -np {} {}", environment(), root(), kRanks,
                              ONRT_BOOT_RANK)),
             "MPICH");
}

// slurmctld and slurmd of one node, in a folder and on ports of their own, without munge.
class OwnSlurm {
 public:
  explicit OwnSlurm(const std::string& folder) : folder_(folder) {
    ::mkdir((folder + "/state").c_str(), 0755);
    ::mkdir((folder + "/spool").c_str(), 0755);
    const std::string user = output_of("id -un | tr -d '\\n'");
    const std::string host = output_of("hostname -s | tr -d '\\n'");
    const std::string text = format(
        "ClusterName=onrt\nSlurmctldHost={1}(127.0.0.1)\nSlurmctldPort={2}\nSlurmdPort={3}\n"
        "SlurmUser={4}\nSlurmdUser={4}\nAuthType=auth/none\nCredType=cred/none\nMpiDefault=none\n"
        "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nReturnToService=2\n"
        "StateSaveLocation={0}/state\nSlurmdSpoolDir={0}/spool\nSlurmctldPidFile={0}/ctld.pid\n"
        "SlurmdPidFile={0}/d.pid\nSlurmctldLogFile={0}/ctld.log\nSlurmdLogFile={0}/d.log\n"
        "JobAcctGatherType=jobacct_gather/none\n"
        "NodeName={1} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN\n"
        "PartitionName=p Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8\n",
        folder, host, free_port(), free_port(), user);
    const UniqueFd file(::open(path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    write_fully(file.get(), text);
    start("slurmctld", {"slurmctld", "-D", "-i", "-f", path()});
    start("slurmd", {"slurmd", "-D", "-f", path()});
  }
  ~OwnSlurm() {
    for (const int pid : pids_) {
      ::kill(pid, SIGTERM);
      ::waitpid(pid, nullptr, 0);
    }
  }
  OwnSlurm(const OwnSlurm&) = delete;
  OwnSlurm& operator=(const OwnSlurm&) = delete;

  std::string path() const { return folder_ + "/slurm.conf"; }
  bool is_idle() const {
    for (int attempt = 0; attempt < 75; ++attempt) {
      if (output_of(format("SLURM_CONF={} sinfo -h -o %T", path())) == "idle\n") {
        return true;
      }
      ::usleep(200'000);
    }
    return false;
  }

 private:
  void start(const std::string& name, std::vector<std::string> arguments) {
    const int pid = ::fork();
    if (pid == 0) {
      const int log = ::open((folder_ + "/" + name + ".out").c_str(), O_WRONLY | O_CREAT, 0644);
      ::dup2(log, 1);
      ::dup2(log, 2);
      std::vector<char*> pointers;
      pointers.reserve(arguments.size() + 1);
      for (std::string& argument : arguments) {
        pointers.push_back(argument.data());
      }
      pointers.push_back(nullptr);
      ::execvp(pointers[0], pointers.data());
      ::_exit(127);
    }
    pids_.push_back(pid);
  }
  std::string folder_;
  std::vector<int> pids_;
};

TEST_F(Launchers, SrunStartsRanks) {
  if (!is_installed("slurmctld") || !is_installed("slurmd") || !is_installed("srun")) {
    GTEST_SKIP() << "no slurmctld, slurmd or srun";
  }
  const TemporaryFolder place;
  const OwnSlurm slurm(place.path());
  if (!slurm.is_idle()) {
    GTEST_SKIP() << "a Slurm of one node does not start here";
  }
  expect_all(output_of(format("SLURM_CONF={} {} {} srun --overcommit -n {} {}", slurm.path(),
                              environment(), root(), kRanks, ONRT_BOOT_RANK)),
             "Slurm");
}

}  // namespace
}  // namespace onrt::cc
