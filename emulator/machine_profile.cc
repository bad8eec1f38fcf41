// SPDX-License-Identifier: Apache-2.0
#include "emulator/machine_profile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "emulator/machine_layout.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"

namespace onrt::emu {
namespace {

struct EmbeddedProfile {
  std::string_view name;
  std::string_view json;
};

constexpr EmbeddedProfile kEmbedded[] = {
#include "machine_profiles.inc"
};

constexpr int64_t kMaxHbmMib = 1 << 20;  // 1 TiB per stack
constexpr uint64_t kLastHbmAddress = 1ULL << 56;

Status invalid(std::string_view text) { return Status(NRT_INVALID, std::string(text)); }

Status check_keys(const JsonValue& object, std::string_view where,
                  std::initializer_list<std::string_view> known) {
  if (object.type() != JsonType::kObject) {
    return invalid(
        format("{}: expected an object, found {}", where, json_type_name(object.type())));
  }
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return invalid(format("{}: unknown key '{}'", where, key));
    }
  }
  return ok_status();
}

// Text that fits `room` bytes with its end, without control characters.
Result<std::string> get_text(const JsonValue& object, std::string_view key, size_t room) {
  ONRT_ASSIGN_OR_RETURN(const std::string_view text, object.get_string(key));
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (text.empty() || text.size() >= room || !printable) {
    return invalid(format("'{}': expected 1 to {} printable ASCII characters, found {}", key,
                          room - 1, printable ? format("{}", text.size()) : "others"));
  }
  return std::string(text);
}

Result<int> get_int(const JsonValue& object, std::string_view key, int64_t least, int64_t most) {
  ONRT_ASSIGN_OR_RETURN(const int64_t number, object.get_integer(key, least, most));
  return static_cast<int>(number);
}

// "0x4000000000", a multiple of the commit step.
Result<DeviceAddress> parse_address(std::string_view key, std::string_view text) {
  DeviceAddress address = 0;
  bool good = text.starts_with("0x");
  if (good) {
    const auto [end, error] =
        std::from_chars(text.data() + 2, text.data() + text.size(), address, 16);
    good = error == std::errc() && end == text.data() + text.size();
  }
  if (!good || address % kCommitStep != 0 || address > kLastHbmAddress) {
    return invalid(
        format("'{}': expected a hexadecimal address, \"0x...\", that is a multiple of "
               "2 MiB and at most 2^56",
               key));
  }
  return address;
}

Status read_architecture(const JsonValue& json, MachineInfo* info) {
  ONRT_ASSIGN_OR_RETURN(const std::string name, get_text(json, "architecture", 8));
  static constexpr std::pair<std::string_view, Architecture> kNames[] = {
      {"v2", Architecture::kV2}, {"v3", Architecture::kV3}, {"v4", Architecture::kV4}};
  for (const auto& [text, architecture] : kNames) {
    if (name == text) {
      info->architecture = architecture;
      return ok_status();
    }
  }
  return invalid(format("'architecture': expected v2, v3 or v4, found '{}'", name));
}

Status read_cores(const JsonValue& json, MachineInfo* info) {
  ONRT_ASSIGN_OR_RETURN(info->device_count, get_int(json, "device_count", 0, kMaxDevices));
  ONRT_ASSIGN_OR_RETURN(info->physical_cores_per_device,
                        get_int(json, "physical_cores_per_device", 1, kMaxCoresPerDevice));
  if (info->device_count * info->physical_cores_per_device > kMaxCores) {
    return invalid(format("{} devices of {} cores: expected at most {} cores", info->device_count,
                          info->physical_cores_per_device, kMaxCores));
  }
  ONRT_ASSIGN_OR_RETURN(info->max_logical_core_size,
                        get_int(json, "max_logical_core_size", 1, info->physical_cores_per_device));
  ONRT_ASSIGN_OR_RETURN(info->default_logical_core_size,
                        get_int(json, "default_logical_core_size", 1, info->max_logical_core_size));
  if (info->physical_cores_per_device % info->max_logical_core_size != 0 ||
      info->max_logical_core_size % info->default_logical_core_size != 0) {
    return invalid(
        format("'max_logical_core_size': {} must divide {} cores and be a multiple of "
               "the default, {}",
               info->max_logical_core_size, info->physical_cores_per_device,
               info->default_logical_core_size));
  }
  info->logical_core_size = info->default_logical_core_size;
  return ok_status();
}

Status read_hbm(const JsonValue& json, MachineInfo* info) {
  ONRT_ASSIGN_OR_RETURN(info->hbm_per_device,
                        get_int(json, "hbm_per_device", 1, kMaxStacksPerDevice));
  if (info->physical_cores_per_device % info->hbm_per_device != 0) {
    return invalid(format("'hbm_per_device': {} must divide {} cores", info->hbm_per_device,
                          info->physical_cores_per_device));
  }
  if (info->device_count * info->hbm_per_device > kMaxStacks) {
    return invalid(format("{} devices of {} HBM stacks: expected at most {} stacks",
                          info->device_count, info->hbm_per_device, kMaxStacks));
  }
  ONRT_ASSIGN_OR_RETURN(const int64_t mib, json.get_integer("hbm_mib", 64, kMaxHbmMib));
  info->hbm_bytes = static_cast<uint64_t>(mib) << 20;
  ONRT_ASSIGN_OR_RETURN(const JsonValue* bases, json.get_array("hbm_base"));
  if (bases->items().size() != static_cast<size_t>(info->hbm_per_device)) {
    return invalid(format("'hbm_base': expected {} addresses, found {}", info->hbm_per_device,
                          bases->items().size()));
  }
  DeviceAddress end = 0;
  for (const JsonValue& item : bases->items()) {
    if (item.type() != JsonType::kString) {
      return invalid("'hbm_base': expected text such as \"0x4000000000\"");
    }
    ONRT_ASSIGN_OR_RETURN(const DeviceAddress base, parse_address("hbm_base", item.string()));
    if (base < end) {
      return invalid(format("'hbm_base': {} overlaps the stack before it", item.string()));
    }
    end = base + info->hbm_bytes;
    info->hbm_base.push_back(base);
  }
  return ok_status();
}

// Neighbours of device `index`. Torus: up, left, down, right; this order matches every device table
// that the vendor has published (see the profiles' sources).
std::vector<int> neighbours(std::string_view kind, int rows, int columns, int count, int index) {
  if (kind == "torus") {
    const int row = index / columns;
    const int column = index % columns;
    const auto at = [&](int r, int c) {
      return (r + rows) % rows * columns + (c + columns) % columns;
    };
    return {at(row - 1, column), at(row, column - 1), at(row + 1, column), at(row, column + 1)};
  }
  std::vector<int> out;
  if (kind == "ring" && count > 1) {
    out = {(index + count - 1) % count, (index + 1) % count};
  } else if (kind == "chain") {
    if (index > 0) {
      out.push_back(index - 1);
    }
    if (index + 1 < count) {
      out.push_back(index + 1);
    }
  }
  return out;  // none; switch: no fixed link
}

Status read_links(const JsonValue& json, MachineInfo* info) {
  const JsonValue* links = json.find("links");
  if (links == nullptr) {
    return invalid("'links': missing");
  }
  ONRT_RETURN_IF_ERROR(
      check_keys(*links, "'links'", {"kind", "rows", "columns", "gib_per_second"}));
  ONRT_ASSIGN_OR_RETURN(const std::string kind, get_text(*links, "kind", 16));
  int rows = 1;
  int columns = 1;
  if (kind == "torus") {
    ONRT_ASSIGN_OR_RETURN(rows, get_int(*links, "rows", 1, kMaxDevices));
    ONRT_ASSIGN_OR_RETURN(columns, get_int(*links, "columns", 1, kMaxDevices));
    if (rows * columns != info->device_count) {
      return invalid(format("'links': a torus of {} x {} does not have {} devices", rows, columns,
                            info->device_count));
    }
  } else if (kind != "none" && kind != "chain" && kind != "ring" && kind != "switch") {
    return invalid(
        format("'links': expected kind none, chain, ring, torus or switch, found '{}'", kind));
  }
  for (DeviceInfo& device : info->devices) {
    device.connected_devices = neighbours(kind, rows, columns, info->device_count, device.index);
  }
  return ok_status();
}

// Made up for types whose addresses are not published: a PCI domain per 16 devices.
DeviceInfo invented_device(int index, int vcpus) {
  DeviceInfo device;
  device.index = index;
  device.pci_bdf = format("{:04x}:{:02x}:00.0", index / 16, 0x10 + index % 16);
  device.cpu_affinity = vcpus > 1 ? format("0-{}", vcpus - 1) : "0";
  return device;
}

Status read_devices(const JsonValue& json, int vcpus, MachineInfo* info) {
  const JsonValue* devices = json.find("devices");
  for (int i = 0; i < info->device_count; ++i) {
    info->devices.push_back(invented_device(i, vcpus));
  }
  if (devices == nullptr) {
    return ok_status();
  }
  if (devices->type() != JsonType::kArray || devices->items().size() != info->devices.size()) {
    return invalid(format("'devices': expected an array of {} objects", info->device_count));
  }
  for (DeviceInfo& device : info->devices) {
    const JsonValue& item = devices->items()[static_cast<size_t>(device.index)];
    const std::string where = format("'devices'[{}]", device.index);
    ONRT_RETURN_IF_ERROR(check_keys(item, where, {"bdf", "numa_node", "cpu_affinity"}));
    ONRT_ASSIGN_OR_RETURN(device.pci_bdf, get_text(item, "bdf", sizeof(DeviceRecord::bdf)));
    ONRT_ASSIGN_OR_RETURN(device.numa_node, get_int(item, "numa_node", -1, 1023));
    ONRT_ASSIGN_OR_RETURN(device.cpu_affinity,
                          get_text(item, "cpu_affinity", sizeof(DeviceRecord::cpu_affinity)));
  }
  return ok_status();
}

// A number per device that stays the same from run to run: FNV-1a of type and index.
uint64_t serial_number(std::string_view type, int index) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : format("{}/{}", type, index)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

Result<InstanceProfile> parse_profile(const JsonValue& json) {
  ONRT_RETURN_IF_ERROR(
      check_keys(json, "instance type",
                 {"instance_type", "sources", "architecture", "neuroncore_version", "device_count",
                  "physical_cores_per_device", "default_logical_core_size", "max_logical_core_size",
                  "hbm_per_device", "hbm_mib", "hbm_base", "dma_engines", "queues_per_engine",
                  "links", "host", "devices"}));
  InstanceProfile profile;
  MachineInfo& info = profile.info;
  info.emulated = true;
  ONRT_ASSIGN_OR_RETURN(info.instance_type,
                        get_text(json, "instance_type", sizeof(ProfileRecord::instance_type)));
  if (info.instance_type.find('/') != std::string::npos || info.instance_type.starts_with(".")) {
    return invalid(
        format("'instance_type': '{}' can't be part of a file name", info.instance_type));
  }
  ONRT_ASSIGN_OR_RETURN(
      info.neuroncore_version,
      get_text(json, "neuroncore_version", sizeof(ProfileRecord::neuroncore_version)));
  ONRT_RETURN_IF_ERROR(read_architecture(json, &info));
  ONRT_RETURN_IF_ERROR(read_cores(json, &info));
  ONRT_RETURN_IF_ERROR(read_hbm(json, &info));
  ONRT_ASSIGN_OR_RETURN(profile.dma_engines, get_int(json, "dma_engines", 1, 1024));
  ONRT_ASSIGN_OR_RETURN(profile.queues_per_engine, get_int(json, "queues_per_engine", 1, 256));
  int vcpus = 1;
  if (const JsonValue* host = json.find("host")) {
    ONRT_RETURN_IF_ERROR(check_keys(*host, "'host'", {"vcpus", "memory_gib", "efa"}));
    ONRT_ASSIGN_OR_RETURN(vcpus, get_int(*host, "vcpus", 1, 65536));
  }
  ONRT_RETURN_IF_ERROR(read_devices(json, vcpus, &info));
  ONRT_RETURN_IF_ERROR(read_links(json, &info));
  for (DeviceInfo& device : info.devices) {
    device.serial_number = serial_number(info.instance_type, device.index);
  }
  return profile;
}

// A file that a setting names; 1 MiB is far beyond any list of types.
Result<std::string> read_profile_file(const std::string& path) {
  const auto file = read_file(path, 1 << 20);
  if (!file.ok()) {
    return invalid(format("OPENNRT_MACHINE_FILE={}: {}", path, file.status().message()));
  }
  return std::string(reinterpret_cast<const char*>(file->data()), file->size());
}

std::string known_types(const std::vector<InstanceProfile>& more) {
  std::string names;
  for (const InstanceProfile& profile : more) {
    names += format("{}{}", names.empty() ? "" : ", ", profile.info.instance_type);
  }
  for (const EmbeddedProfile& row : kEmbedded) {
    names += format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return names;
}

}  // namespace

Result<std::vector<InstanceProfile>> parse_profiles(std::string_view json) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue value, parse_json(json));
  std::vector<InstanceProfile> profiles;
  if (value.type() != JsonType::kArray) {
    ONRT_ASSIGN_OR_RETURN(InstanceProfile profile, parse_profile(value));
    profiles.push_back(std::move(profile));
    return profiles;
  }
  for (size_t i = 0; i < value.items().size(); ++i) {
    auto profile = parse_profile(value.items()[i]);
    if (!profile.ok()) {
      return std::move(profile).status().annotate(format("entry {}", i));
    }
    profiles.push_back(std::move(profile).value());
  }
  return profiles;
}

std::vector<std::string> embedded_instance_types() {
  std::vector<std::string> names;
  for (const EmbeddedProfile& row : kEmbedded) {
    names.emplace_back(row.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<InstanceProfile> find_profile(const Context& context, std::string_view name) {
  std::vector<InstanceProfile> more;
  const std::string file(context.settings.text(Setting::kMachineFile));
  if (!file.empty()) {
    ONRT_ASSIGN_OR_RETURN(const std::string text, read_profile_file(file));
    auto parsed = parse_profiles(text);
    if (!parsed.ok()) {
      return std::move(parsed).status().annotate(format("OPENNRT_MACHINE_FILE={}", file));
    }
    more = std::move(parsed).value();
  }
  for (InstanceProfile& profile : more) {
    if (profile.info.instance_type == name) {
      return std::move(profile);
    }
  }
  for (const EmbeddedProfile& row : kEmbedded) {
    if (row.name == name) {
      ONRT_ASSIGN_OR_RETURN(auto profiles, parse_profiles(row.json));
      return std::move(profiles.front());
    }
  }
  return invalid(
      format("unknown instance type '{}': expected one of: {}", name, known_types(more)));
}

}  // namespace onrt::emu
