// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/libraries.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <vector>

namespace tnx {
namespace {

std::string& package_folder() {
  static std::string folder;
  return folder;
}

bool exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

void* open_first(const char* name, const std::vector<std::string>& paths, std::string* opened) {
  std::string tried;
  for (const std::string& path : paths) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      *opened = path;
      return library;
    }
    tried += "\n  " + std::string(dlerror());
  }
  throw Error(std::string("device \"neuron\" needs ") + name + ", which can't be opened:" + tried);
}

void* symbol(void* library, const char* name, const std::string& path) {
  void* address = dlsym(library, name);
  if (address == nullptr) {
    throw Error(path + " has no function " + name);
  }
  return address;
}

// Already loaded > OPENNRT_LIBNRT > the vendor's on a machine with devices > the bundled one.
Runtime open_runtime() {
  Runtime r;
  const char* const name = "libnrt.so.1";
  void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  r.path = name;
  if (library == nullptr) {
    std::vector<std::string> paths;
    if (const char* chosen = std::getenv("OPENNRT_LIBNRT")) {
      paths = {chosen};
    } else {
      if (exists("/dev/neuron0")) {
        paths.push_back("/opt/aws/neuron/lib/libnrt.so.1");
      }
      paths.push_back(package_folder() + "/lib/libnrt.so.1");
      paths.push_back(name);
    }
    library = open_first("libnrt.so.1", paths, &r.path);
  }
#define TNX_RESOLVE(f) r.f = reinterpret_cast<decltype(r.f)>(symbol(library, #f, r.path));
  TNX_NRT_FUNCTIONS(TNX_RESOLVE)
#undef TNX_RESOLVE
  r.onrt_last_error = reinterpret_cast<const char* (*)()>(dlsym(library, "onrt_last_error"));
  return r;
}

Compiler open_compiler() {
  Compiler c;
  void* library = open_first("libnrtcc.so.1",
                             {package_folder() + "/lib/libnrtcc.so.1", "libnrtcc.so.1"}, &c.path);
#define TNX_RESOLVE(f) c.f = reinterpret_cast<decltype(c.f)>(symbol(library, #f, c.path));
  TNX_NRTCC_FUNCTIONS(TNX_RESOLVE)
#undef TNX_RESOLVE
  return c;
}

}  // namespace

void set_package_folder(std::string folder) { package_folder() = std::move(folder); }

const Runtime& runtime() {
  static const Runtime r = open_runtime();
  return r;
}

const Compiler& compiler() {
  static const Compiler c = open_compiler();
  return c;
}

void check(NRT_STATUS status, const char* what) {
  if (status == NRT_SUCCESS) {
    return;
  }
  const Runtime& r = runtime();
  std::string text = std::string(what) + ": ";
  const char* detail = r.onrt_last_error != nullptr ? r.onrt_last_error() : "";
  text += detail != nullptr && *detail != '\0' ? detail : r.nrt_get_status_as_str(status);
  if (status == NRT_RESOURCE) {
    throw OutOfMemory(text);
  }
  throw Error(text);
}

}  // namespace tnx
