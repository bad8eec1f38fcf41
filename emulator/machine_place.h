// SPDX-License-Identifier: Apache-2.0
// Where emulated machines live, and who may use them.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::emu {

// The folder of all machines and the one of a machine in it.
struct MachinePlace {
  std::string root;
  std::string name;
  std::string directory;         // root/name.v<layout version>
  bool root_was_chosen = false;  // by OPENNRT_MACHINE_DIR
  std::string note;              // why the root is not the usual one; empty otherwise
};

// Where the machine of OPENNRT_MACHINE (default: `instance_type`) is or would be made:
// OPENNRT_MACHINE_DIR, else $XDG_RUNTIME_DIR/opennrt, else /dev/shm/opennrt-<uid>, else
// $TMPDIR/opennrt-<uid> where those file systems are smaller than 1 GiB.
Result<MachinePlace> machine_place(const Context& context, std::string_view instance_type);

// Folders in which a reader looks: OPENNRT_MACHINE_DIR alone when set, else all default places that
// exist; every user's when the caller is root.
std::vector<std::string> reader_roots(const Context& context);

// Paths in folder `parent` whose names start with `prefix`, sorted.
std::vector<std::string> paths_in(const std::string& parent, std::string_view prefix);

// "trn2.48xlarge.v2" -> "trn2.48xlarge"; nothing for other folders and other layout versions.
std::optional<std::string> machine_name_of(std::string_view folder);
// Layout version in the name of a machine's folder; 0 when it isn't one.
int machine_version_of(std::string_view folder);

// Who may use a machine: its owner, and the members of OPENNRT_MACHINE_GROUP.
struct Sharing {
  std::optional<gid_t> group;
  mode_t directory_mode() const { return group ? 02770 : 0700; }
  mode_t file_mode() const { return group ? 0660 : 0600; }
};
// NRT_INVALID for a group that doesn't exist.
Result<Sharing> sharing_of(const Context& context);

// Refuses what another user could have planted: wrong owner, permissions for others. `what` names
// the object in the message.
Status check_trusted(const struct stat& status, const Sharing& sharing, std::string_view what);

// Makes `path` and missing parents, with the permissions of `sharing` whatever umask says.
Status make_folders(const std::string& path, const Sharing& sharing);
// Opens a folder without following a link at its end, and checks that it can be trusted.
Result<UniqueFd> open_folder(const std::string& path, const Sharing& sharing);
// Memory that may back the machine's HBM: OPENNRT_EMU_HBM_BACKING, else half of what is free now.
struct BackingLimit {
  uint64_t bytes = 0;
  bool chosen = false;  // by the setting
};
Result<BackingLimit> backing_limit(const Context& context, int folder);

// Makes the folders of `place` and opens the machine's. Nothing is made below a default root that
// another user could have planted.
Result<UniqueFd> make_machine_folder(const MachinePlace& place, const Sharing& sharing);
// Would make_machine_folder() and opening the machine's files work? Makes and opens nothing.
Status check_machine_folder(const MachinePlace& place, const Sharing& sharing);

// Opens a file of a machine: regular, not a link, one name, trusted. `flags` as for open(2).
Result<UniqueFd> open_machine_file(int folder, const std::string& name, int flags,
                                   const Sharing& sharing);

}  // namespace onrt::emu
