// SPDX-License-Identifier: Apache-2.0
// The finished libnrt.so.1 as a file: name, version nodes, exports, dependencies, what is pending.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/abi/elf_file.h"

namespace onrt::abi {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const ElfFile& library() {
  static const ElfFile kFile = ElfFile::read(ONRT_LIBRARY);
  return kFile;
}

// Lines of a committed list without comments, sorted.
std::set<std::string> read_list(const std::string& name) {
  std::ifstream file(std::string(ONRT_SOURCE_DIR "/tests/abi/") + name);
  std::set<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') {
      lines.insert(line);
    }
  }
  return lines;
}

std::vector<std::string> minus(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::vector<std::string> difference;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(difference));
  return difference;
}

std::set<std::string> exported_names() {
  std::set<std::string> names;
  for (const ElfSymbol& symbol : library().exported) {
    names.insert(symbol.text());
  }
  return names;
}

TEST(Library, HasTheNameThatClientsLoad) { EXPECT_EQ(library().soname, "libnrt.so.1"); }

TEST(Library, HasTheVersionNodesThatClientsReferTo) {
  EXPECT_THAT(library().nodes, UnorderedElementsAre("NRT_2.0.0", "NRT_3.0.0", "OPENNRT_1.0"));
}

TEST(Library, NeedsOnlyLibrariesOfTheBaseSystem) {
  const std::regex allowed(
      "(libc|libm|libstdc\\+\\+|libgcc_s|libz|ld-linux-[a-z0-9-]+|libasan|libubsan|libtsan)"
      "\\.so\\.[0-9]+");
  for (const std::string& name : library().needed) {
    EXPECT_TRUE(std::regex_match(name, allowed)) << name;
  }
}

// The list holds what clients may rely on: a name leaves it only with a new SONAME.
TEST(Library, ExportsTheCommittedSymbolsAndNoOthers) {
  const std::set<std::string> committed = read_list("symbols.txt");
  EXPECT_THAT(minus(committed, exported_names()), IsEmpty()) << "gone from the library";
  EXPECT_THAT(minus(exported_names(), committed), IsEmpty()) << "not in tests/abi/symbols.txt";
}

// A process has its own fmt, protobuf and C++ run time; ours must not meet them.
TEST(Library, ExportsCFunctionsOnly) {
  const std::regex allowed("(nrt|nrta|nec|ndl|nds|onrt)_[a-z0-9_]+");
  for (const ElfSymbol& symbol : library().exported) {
    EXPECT_TRUE(symbol.is_function && std::regex_match(symbol.name, allowed)) << symbol.text();
  }
}

// Monitoring tools find functions of the driver library there.
TEST(Library, KeepsItsSymbolTable) {
  for (const char* name : {"nrt_init", "ndl_available_devices", "nds_open"}) {
    EXPECT_THAT(library().symtab, Contains(HasSubstr(name)));
  }
}

TEST(Library, HasBothGenerationsOfTheAsynchronousInterface) {
  std::set<std::string> old_names;
  std::set<std::string> new_names;
  for (const ElfSymbol& symbol : library().exported) {
    if (symbol.name.rfind("nrta_", 0) == 0) {
      (symbol.version == "NRT_2.0.0" ? old_names : new_names).insert(symbol.name);
    }
  }
  for (const char* name : {"nrta_tensor_write", "nrta_tensor_read", "nrta_tensor_copy",
                           "nrta_execute_schedule", "nrta_cc_schedule", "nrta_is_completed"}) {
    EXPECT_THAT(old_names, Contains(name));
    EXPECT_THAT(new_names, Contains(name));
  }
  EXPECT_THAT(old_names, Contains("nrta_error_tracker_create"));
  EXPECT_THAT(new_names, Contains("nrta_event_register_xu_completion"));
}

TEST(PendingFunctions, AreThoseOfTheCommittedList) {
  std::set<std::string> pending;
  for (const ElfSymbol& symbol : library().exported) {
    if (symbol.section == "onrt_pending") {
      pending.insert(symbol.text());
    }
  }
  const std::set<std::string> committed = read_list("pending.txt");
  EXPECT_THAT(minus(committed, pending), IsEmpty()) << "implemented: take them off the list";
  EXPECT_THAT(minus(pending, committed), IsEmpty()) << "the list may only shrink";
}

// They ignore their arguments, so any will do.
TEST(PendingFunctions, SayThatTheyBelongToALaterRelease) {
  setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
  void* handle = dlopen(ONRT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  auto last_error = reinterpret_cast<const char* (*)()>(dlsym(handle, "onrt_last_error"));
  ASSERT_NE(last_error, nullptr);
  for (const ElfSymbol& symbol : library().exported) {
    if (symbol.section == "onrt_pending") {
      void* address = dlvsym(handle, symbol.name.c_str(), symbol.version.c_str());
      ASSERT_NE(address, nullptr) << symbol.text();
      reinterpret_cast<void (*)(long, long, long, long, long, long)>(address)(0, 0, 0, 0, 0, 0);
      EXPECT_THAT(last_error(), HasSubstr(symbol.name + "()"));
      EXPECT_THAT(last_error(), HasSubstr("later release"));
    }
  }
  dlclose(handle);
}

// Every function that a header names, in declarations and in prose.
TEST(Headers, NameOnlyFunctionsThatTheLibraryHas) {
  void* handle = dlopen(ONRT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  const std::regex call("\\b(nrt|nrta|nec|ndl|nds|onrt)_[a-z0-9_]+ ?\\(");
  size_t found = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(ONRT_SOURCE_DIR "/include")) {
    if (entry.path().extension() != ".h" || entry.path().filename() == "nrtcc.h") {
      continue;
    }
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    for (std::sregex_iterator match(text.begin(), text.end(), call), end; match != end; ++match) {
      std::string name = match->str();
      name.resize(name.find_first_of(" ("));
      EXPECT_NE(dlsym(handle, name.c_str()), nullptr) << entry.path() << ": " << name;
      ++found;
    }
  }
  EXPECT_GT(found, 250u);
  dlclose(handle);
}

// A plug-in host loads and drops the library without linking it.
TEST(Library, CanBeLoadedDroppedAndLoadedAgain) {
  for (int round = 0; round < 20; ++round) {
    void* handle = dlopen(ONRT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    EXPECT_EQ(dlsym(RTLD_DEFAULT, "nrt_init"), nullptr) << "RTLD_LOCAL leaked";
    auto count = reinterpret_cast<int (*)(uint32_t*)>(dlsym(handle, "nrt_get_total_vnc_count"));
    auto status_text =
        reinterpret_cast<const char* (*)(int)>(dlsym(handle, "nrt_get_status_as_str"));
    ASSERT_NE(count, nullptr);
    ASSERT_NE(status_text, nullptr);
    uint32_t cores = 0;
    count(&cores);
    EXPECT_STREQ(status_text(13), "NRT_UNINITIALIZED");
    EXPECT_EQ(dlclose(handle), 0);
  }
}

}  // namespace
}  // namespace onrt::abi
