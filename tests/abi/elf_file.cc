// SPDX-License-Identifier: Apache-2.0
#include "tests/abi/elf_file.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

namespace onrt::abi {
namespace {

// Offsets come from our own library; a file that contradicts itself ends the test with a message.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0 ||
        bytes_[EI_CLASS] != ELFCLASS64) {
      throw std::runtime_error(path + ": not a 64-bit ELF file");
    }
    const auto header = at<Elf64_Ehdr>(0);
    for (size_t i = 0; i < header.e_shnum; ++i) {
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * header.e_shentsize));
    }
    names_ = header.e_shstrndx;
  }

  template <class T>
  T at(size_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      throw std::runtime_error(path_ + ": a table reaches past the end");
    }
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::string string(const Elf64_Shdr& table, size_t offset) const {
    return {bytes_.data() + table.sh_offset + offset};
  }
  std::string section_name(size_t index) const {
    return index < sections_.size() ? string(sections_[names_], sections_[index].sh_name) : "";
  }
  const Elf64_Shdr* section(uint32_t type) const {
    for (const Elf64_Shdr& candidate : sections_) {
      if (candidate.sh_type == type) {
        return &candidate;
      }
    }
    return nullptr;
  }
  const Elf64_Shdr& strings_of(const Elf64_Shdr& section) const {
    return sections_.at(section.sh_link);
  }

 private:
  std::string path_;
  std::vector<char> bytes_;
  std::vector<Elf64_Shdr> sections_;
  size_t names_ = 0;
};

void read_dynamic(const Reader& reader, ElfFile& file) {
  const Elf64_Shdr* dynamic = reader.section(SHT_DYNAMIC);
  for (size_t i = 0; dynamic != nullptr && i < dynamic->sh_size / sizeof(Elf64_Dyn); ++i) {
    const auto entry = reader.at<Elf64_Dyn>(dynamic->sh_offset + i * sizeof(Elf64_Dyn));
    if (entry.d_tag == DT_SONAME) {
      file.soname = reader.string(reader.strings_of(*dynamic), entry.d_un.d_val);
    } else if (entry.d_tag == DT_NEEDED) {
      file.needed.push_back(reader.string(reader.strings_of(*dynamic), entry.d_un.d_val));
    }
  }
}

std::map<int, std::string> read_nodes(const Reader& reader, ElfFile& file) {
  std::map<int, std::string> nodes;
  const Elf64_Shdr* definitions = reader.section(SHT_GNU_verdef);
  size_t offset = definitions != nullptr ? definitions->sh_offset : 0;
  for (size_t i = 0; definitions != nullptr && i < definitions->sh_info; ++i) {
    const auto node = reader.at<Elf64_Verdef>(offset);
    const auto aux = reader.at<Elf64_Verdaux>(offset + node.vd_aux);
    nodes[node.vd_ndx] = reader.string(reader.strings_of(*definitions), aux.vda_name);
    if ((node.vd_flags & VER_FLG_BASE) == 0) {
      file.nodes.push_back(nodes[node.vd_ndx]);
    }
    offset += node.vd_next;
  }
  return nodes;
}

void read_exported(const Reader& reader, ElfFile& file) {
  const std::map<int, std::string> nodes = read_nodes(reader, file);
  const Elf64_Shdr* symbols = reader.section(SHT_DYNSYM);
  const Elf64_Shdr* versions = reader.section(SHT_GNU_versym);
  for (size_t i = 0; symbols != nullptr && i < symbols->sh_size / sizeof(Elf64_Sym); ++i) {
    const auto symbol = reader.at<Elf64_Sym>(symbols->sh_offset + i * sizeof(Elf64_Sym));
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS ||
        ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) {
      continue;
    }
    ElfSymbol found;
    found.name = reader.string(reader.strings_of(*symbols), symbol.st_name);
    found.is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
    found.section = reader.section_name(symbol.st_shndx);
    if (versions != nullptr) {
      const auto version = reader.at<Elf64_Half>(versions->sh_offset + i * sizeof(Elf64_Half));
      found.is_default = (version & 0x8000) == 0;
      const auto node = nodes.find(version & 0x7fff);
      found.version = node != nodes.end() && (version & 0x7fff) > 1 ? node->second : "";
    }
    file.exported.push_back(std::move(found));
  }
}

void read_symtab(const Reader& reader, ElfFile& file) {
  const Elf64_Shdr* symbols = reader.section(SHT_SYMTAB);
  for (size_t i = 0; symbols != nullptr && i < symbols->sh_size / sizeof(Elf64_Sym); ++i) {
    const auto symbol = reader.at<Elf64_Sym>(symbols->sh_offset + i * sizeof(Elf64_Sym));
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) {
      file.symtab.push_back(reader.string(reader.strings_of(*symbols), symbol.st_name));
    }
  }
}

}  // namespace

std::string ElfSymbol::text() const {
  return version.empty() ? name : name + (is_default ? "@@" : "@") + version;
}

ElfFile ElfFile::read(const std::string& path) {
  const Reader reader(path);
  ElfFile file;
  read_dynamic(reader, file);
  read_exported(reader, file);
  read_symtab(reader, file);
  return file;
}

}  // namespace onrt::abi
