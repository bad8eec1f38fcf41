// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/api/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace onrt::api_test {

Child::Child(const char* command) {
  int out[2];
  int err[2];
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  const char* arguments[] = {ONRT_CLIENT, command, nullptr};
  EXPECT_EQ(posix_spawn(&pid_, ONRT_CLIENT, &actions, nullptr, const_cast<char* const*>(arguments),
                        environ),
            0);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  output_ = out[0];
  error_output_ = err[0];
}

Child::~Child() {
  if (pid_ > 0) {
    kill();
    wait();
  }
  close(output_);
  close(error_output_);
}

std::string Child::read_line() {
  std::string line;
  for (char c = 0; ::read(output_, &c, 1) == 1 && c != '\n';) {
    line += c;
  }
  return line;
}

void Child::kill() { ::kill(pid_, SIGKILL); }

int Child::wait() {
  // Its messages fit into the pipe, so it never waits for us.
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(error_output_, buffer, sizeof(buffer))) > 0;) {
    errors_.append(buffer, static_cast<size_t>(size));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

ChildResult count_in_another_process() {
  Child child("count");
  ChildResult result;
  result.line = child.read_line();
  result.exit_status = child.wait();
  result.errors = child.errors();
  return result;
}

}  // namespace onrt::api_test
