#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# opennrt-machine from the outside: create, list, reset, rm; messages and exit codes.
#   tests/tools/opennrt_machine.sh PATH_OF_OPENNRT_MACHINE
set -euo pipefail
tool=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OPENNRT_MACHINE_DIR=$folder/machines
unset OPENNRT_EMULATE OPENNRT_MACHINE OPENNRT_MACHINE_FILE

fail() { echo "FAILED: $*" >&2; exit 1; }
# expect CODE TEXT COMMAND...: runs it; the exit code and a piece of the output must match.
expect() {
  local code=$1 text=$2 got=0
  shift 2
  "$@" > "$folder/out" 2>&1 || got=$?
  [ "$got" = "$code" ] || { cat "$folder/out"; fail "$*: exit $got, expected $code"; }
  grep -qF -- "$text" "$folder/out" || { cat "$folder/out"; fail "$*: no '$text'"; }
}

expect 0 "Usage:" "$tool" --help
expect 0 "no emulated machines" "$tool" list
expect 0 "[]" "$tool" list --json
expect 0 "trn2.48xlarge" "$tool" types
expect 0 "created box" "$tool" create trn2.3xlarge --name box
expect 0 "box: trn2.3xlarge, 1 device, 0 of 8 physical cores held" "$tool" list
expect 0 '"name": "box"' "$tool" list --json
expect 0 "created box" "$tool" create trn2.3xlarge --name box
expect 1 "choose another OPENNRT_MACHINE" "$tool" create trn1.2xlarge --name box
expect 0 "reset box" "$tool" reset box
expect 1 "unknown instance type 'trn9'" "$tool" create trn9
expect 1 "machine name '../x'" "$tool" create trn2.3xlarge --name ../x
expect 1 "no emulated machine is called 'nobody'" "$tool" rm nobody
expect 2 "unknown command 'destroy'" "$tool" destroy box
expect 2 "expected a command" "$tool"
expect 2 "takes one argument" "$tool" rm
expect 2 "--name is only for create" "$tool" rm box --name x

# A damaged machine is shown, refused with one sentence, and can be removed.
printf 'garbage' | dd of="$OPENNRT_MACHINE_DIR/box.v2/control" conv=notrunc status=none
expect 0 "does not start with the mark" "$tool" list
expect 1 "does not start with the mark" "$tool" create trn2.3xlarge --name box
expect 1 "does not start with the mark" "$tool" reset box
expect 0 "removed box" "$tool" rm box
[ ! -e "$OPENNRT_MACHINE_DIR/box.v2" ] || fail "rm leaves the folder"

# Another's file in the folder stops rm; another layout version can be removed.
expect 0 "created" "$tool" create inf2.xlarge
touch "$OPENNRT_MACHINE_DIR/inf2.xlarge.v2/notes.txt"
expect 1 "nothing is removed" "$tool" rm inf2.xlarge
rm "$OPENNRT_MACHINE_DIR/inf2.xlarge.v2/notes.txt"
mv "$OPENNRT_MACHINE_DIR/inf2.xlarge.v2" "$OPENNRT_MACHINE_DIR/inf2.xlarge.v999"
expect 0 "no emulated machines" "$tool" list
expect 0 "removed inf2.xlarge" "$tool" rm inf2.xlarge

# A folder that others could write to, or a link, is not used.
mkdir -p "$OPENNRT_MACHINE_DIR/open.v2"
chmod 777 "$OPENNRT_MACHINE_DIR/open.v2"
expect 1 "other users could change it" "$tool" create inf2.xlarge --name open
ln -s "$folder" "$OPENNRT_MACHINE_DIR/link.v2"
expect 1 "symbolic link" "$tool" create inf2.xlarge --name link
echo "opennrt-machine: all checks passed"
