#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# neuron-packager on our files, on one as the vendor's tools write them (GNU tar makes the archive)
# and on damaged ones:
#   neuron_packager.sh NEURON_PACKAGER
set -euo pipefail
packager=$1
corpus=$(cd "$(dirname "$0")/../fuzz/corpus/neff" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "FAILED: $*" >&2; exit 1; }

# Ours: JSON, and what GNU tar finds in the payload.
"$packager" info --json "$corpus/gzip.neff" > info.json
python3 - info.json <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["loads"] is True and report["hash_matches"] is True, report
assert [t["name"] for t in report["tensors"]] == ["input0", "input1", "output0"]
assert report["tensors"][0]["shape"] == [2, 3] and report["tensors"][0]["bytes"] == 24
assert [m["path"] for m in report["members"]] == ["opennrt.json", "opennrt/sg00.ncx"]
PY
tail -c +1025 "$corpus/gzip.neff" | tar tz > listing.txt
printf 'opennrt.json\nopennrt/sg00.ncx\n' | cmp - listing.txt || fail "tar reads other members"
tail -c +1025 "$corpus/deflated.neff" | gzip -dc | tar xO opennrt/sg00.ncx > by_tar.ncx
"$packager" unpack -o out "$corpus/deflated.neff" > /dev/null
cmp by_tar.ncx out/opennrt/sg00.ncx || fail "unpack and tar disagree"
"$packager" unpack -o out "$corpus/deflated.neff" 2> error.txt && fail "unpack overwrote a folder"
grep -q "exists already" error.txt || fail "no reason given"

# A failure in the middle leaves nothing, and the name is free for the next attempt.
reason=$( (ulimit -f 0; "$packager" unpack -o part "$corpus/deflated.neff") 2>&1) && fail "no limit?"
[[ $reason == *"ulimit -f"* ]] || fail "no reason for the failed unpack: $reason"
[ ! -e part ] || fail "half a folder is left"
"$packager" unpack -o part "$corpus/deflated.neff" > /dev/null || fail "unpack after a failure"

# As another compiler writes them: version 1.0, SHA-256, features, folders, a long name.
mkdir -p vendor/sg00 && echo '{}' > vendor/sg00/def.json
long=$(printf 'n%.0s' $(seq 150)) && echo hi > "vendor/sg00/$long"
tar -C vendor -czf payload.tgz .
python3 - payload.tgz vendor.neff <<'PY'
import hashlib, struct, sys
payload = open(sys.argv[1], "rb").read()
header = bytearray(1024)
struct.pack_into("<5Q", header, 0, 1, 1024, len(payload), 1, 0)
header[0x28:0x30] = b"2.21.1.0"
header[0xAC:0xCC] = hashlib.sha256(payload).digest()
struct.pack_into("<Q", header, 0x220, 0x100)
open(sys.argv[2], "wb").write(bytes(header) + payload)
PY
"$packager" info vendor.neff > info.txt
grep -q "(matches)" info.txt || fail "SHA-256 not recognised"
grep -q "features *0x100 (bit 8)" info.txt || fail "features not shown"
grep -q "loads here *no, status 10: .*not public" info.txt || fail "no plain words"
"$packager" unpack --json -o unpacked vendor.neff > unpack.json
cmp "vendor/sg00/$long" "unpacked/sg00/$long" || fail "long name"
python3 -c 'import json; assert json.load(open("unpack.json"))["folder"] == "unpacked"'

# Damaged, missing, wrong command lines.
head -c 3000 "$corpus/gzip.neff" > short.neff
"$packager" info short.neff > stdout.txt 2> error.txt && fail "a truncated file was accepted"
grep -q "truncated or damaged" error.txt || fail "message for a truncated file"
[ ! -s stdout.txt ] || fail "a truncated file gave output"
code=0; "$packager" info missing.neff 2> /dev/null || code=$?; [ "$code" = 1 ] || fail "exit $code"
code=0; "$packager" info 2> /dev/null || code=$?; [ "$code" = 2 ] || fail "usage exit $code"
code=0; "$packager" --nope 2> error.txt || code=$?; [ "$code" = 2 ] || fail "usage exit $code"
"$packager" --help | grep -q "neuron-packager unpack" || fail "help"
echo "neuron-packager: all checks passed"
