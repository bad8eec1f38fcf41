// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over its corpus without libFuzzer:
//   x_fuzz [FILE|FOLDER]...
// Each file goes to the target whole, and cut at a few places (a cheap stand-in for mutation that
// finds most missing length checks). An empty input is always tried. The name of the input is on
// stderr before it runs only when the program dies in it.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Read by the signal handler, hence plain storage that is written before each run.
char current_input[4096];

void report_death(int signal_number) {
  const char text[] = "\nfuzz target died in input ";
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text, sizeof text - 1);
  ignored = ::write(STDERR_FILENO, current_input, std::strlen(current_input));
  ignored = ::write(STDERR_FILENO, "\n", 1);
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void run(const std::string& name, const std::vector<uint8_t>& bytes, size_t size) {
  std::snprintf(current_input, sizeof current_input, "%s (first %zu of %zu bytes)", name.c_str(),
                size, bytes.size());
  // A copy of exactly `size` bytes lets AddressSanitizer see a read past the end.
  const std::vector<uint8_t> input(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

void run_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(1);
  }
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)),
                                   std::istreambuf_iterator<char>());
  run(path.string(), bytes, bytes.size());
  for (size_t part = 1; part < 8; ++part) {
    run(path.string(), bytes, bytes.size() * part / 8);
  }
  if (!bytes.empty()) {
    run(path.string(), bytes, bytes.size() - 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
    std::signal(signal_number, report_death);
  }
  run("empty input", {}, 0);
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path = argv[i];
    if (std::filesystem::is_directory(path)) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
        if (entry.is_regular_file()) {
          files.push_back(entry.path());
        }
      }
    } else {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    run_file(file);
  }
  std::printf("%zu corpus files replayed\n", files.size());
  if (argc > 1 && files.empty()) {
    std::fprintf(stderr, "the corpus is empty\n");
    return 1;
  }
  return 0;
}
