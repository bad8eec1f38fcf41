#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# opennrt-plan from the outside: text, JSON, files that go round, what is refused and how.
#   opennrt_plan.sh OPENNRT_PLAN
set -euo pipefail
plan=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "FAILED: $*" >&2; exit 1; }
# refused EXIT_CODE TEXT COMMAND...: the reason is on stderr or stdout.
refused() {
  local code=$1 text=$2 found=0
  shift 2
  "$@" > out.txt 2>&1 || found=$?
  [ "$found" = "$code" ] || fail "$*: exit code $found, expected $code"
  grep -qF -- "$text" out.txt || fail "$*: expected '$text' in: $(cat out.txt)"
}

"$plan" --help | grep -q "opennrt-plan draw all_reduce rdh -n 8" || fail "no examples in --help"
"$plan" list --json | python3 -c '
import json, sys
rows = {row["name"]: row for row in json.load(sys.stdin)["algorithms"]}
assert "all_reduce" in rows["ring"]["operations"], rows
assert all(row["source"] and row["cost"] for row in rows.values())'
"$plan" list all_gather -n 6 | grep -q "no: .*power of two" || fail "list gives no reason"

# The bytes of a ring, by hand: 2 * 3 blocks of 1 KiB to the next of 4 ranks.
"$plan" show all_reduce ring -n 4 --json | python3 -c '
import json, sys
shown = json.load(sys.stdin)
assert shown["why"] == "ring: asked for" and shown["bytes_moved"][0] == [0, 6144, 0, 0], shown'
"$plan" show all_reduce ring -n 4 --rank 2 > shown.txt
grep -q "^rank 2, channel 0$" shown.txt || fail "no lane of rank 2"
grep -q "^rank 1" shown.txt && fail "--rank shows others too"

for words in "all_reduce rdh -n 5" "all_gatherv ring -n 3 --staged" "alltoallv pairwise -n 4 -i" \
  "permute permute -n 3" "broadcast tree -n 6 -r 2 --slices 3" "reduce_scatter mesh -n 4 --channels 2" \
  "barrier dissemination -n 7"; do
  # shellcheck disable=SC2086
  "$plan" export $words -o plan.json
  "$plan" import plan.json | grep -q "^verified: [0-9]* steps$" || fail "$words"
  "$plan" verify plan.json --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["verified"]'
  "$plan" draw plan.json | python3 -c '
import sys, xml.etree.ElementTree as tree
assert tree.fromstring(sys.stdin.read()).tag.endswith("svg")'
done
"$plan" draw all_reduce ring -n 3 --format dot -o ring.dot
grep -q "^digraph" ring.dot || fail "no digraph"

# What is wrong is named with its place.
"$plan" export broadcast tree -n 3 -o plan.json
python3 - <<'PY'
import json
plan = json.load(open("plan.json"))
del plan["programs"][0]["channels"][0][-2]
json.dump(plan, open("broken.json", "w"))
PY
refused 1 "rank 0" "$plan" import broken.json
refused 1 "refused: " "$plan" import broken.json
refused 1 "expected" "$plan" import /dev/null
refused 1 "no-such.json" "$plan" verify no-such.json
refused 1 "can be done by: direct, mesh, ring, bruck" "$plan" show all_gather rdh -n 6
refused 1 "operation 'bogus': expected one of" "$plan" show bogus -n 4
refused 2 "flag \`n, ranks' is needed" "$plan" show all_reduce
refused 2 "unknown command 'frob'" "$plan" frob
refused 2 "expected svg or dot, found 'png'" "$plan" draw all_reduce -n 2 --format png
refused 1 "flag \`ranks': expected a whole number from 1 to 4096" "$plan" show all_reduce -n 0
echo ok
