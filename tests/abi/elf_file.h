// SPDX-License-Identifier: Apache-2.0
// What a 64-bit ELF shared library says about itself, for tests of libnrt.so.1.
#pragma once

#include <string>
#include <vector>

namespace onrt::abi {

struct ElfSymbol {
  std::string name;
  std::string version;     // version node; "" when unversioned
  bool is_default = true;  // name@@version rather than name@version
  bool is_function = false;
  std::string section;  // where it is defined

  // "nrt_init@@NRT_2.0.0"
  std::string text() const;
};

struct ElfFile {
  std::string soname;
  std::vector<std::string> needed;
  std::vector<std::string> nodes;   // version nodes that it defines, without the library's own
  std::vector<ElfSymbol> exported;  // defined global and weak symbols of .dynsym, nodes left out
  std::vector<std::string> symtab;  // names of the functions in .symtab

  // Throws std::runtime_error, naming the file, when it cannot be read.
  static ElfFile read(const std::string& path);
};

}  // namespace onrt::abi
