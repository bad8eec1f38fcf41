// SPDX-License-Identifier: Apache-2.0
// Another process that runs client.c with this process' environment.
#pragma once

#include <sys/types.h>

#include <string>

namespace onrt::api_test {

class Child {
 public:
  // `command`: see client.c.
  explicit Child(const char* command);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();  // kills it if it still runs

  pid_t pid() const { return pid_; }
  // The next line of its standard output, without the newline; "" at the end.
  std::string read_line();
  void kill();
  // Waits for its end. Exit status, or -signal.
  int wait();
  // What it wrote to stderr. After wait().
  const std::string& errors() const { return errors_; }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  int error_output_ = -1;
  std::string errors_;
};

struct ChildResult {
  int exit_status = 0;
  std::string line;
  std::string errors;
};

// Runs `client count`.
ChildResult count_in_another_process();

}  // namespace onrt::api_test
