#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the library's types and functions with the committed description.
#   tests/abi/check_abi.sh LIBRARY            0 equal or grown, 1 changed, 77 no abidiff here
#   tests/abi/check_abi.sh --write LIBRARY    writes the description anew
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
abi=$root/packaging/abi/libnrt.so.1.abi
write=no
if [ "$1" = --write ]; then
  write=yes
  shift
fi
library=$(readlink -f "$1")
for tool in abidw abidiff; do
  if ! command -v "$tool" > /dev/null; then
    echo "skipped: $tool (package abigail-tools) is not installed"
    exit 77
  fi
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
abidw --headers-dir "$root/include" --exported-interfaces-only --drop-private-types --no-corpus-path --no-comp-dir-path \
  --no-show-locs --no-architecture --out-file "$scratch/now.abi" "$library"
if [ "$write" = yes ]; then
  mkdir -p "$(dirname "$abi")"
  cp "$scratch/now.abi" "$abi"
  exit 0
fi
# Functions may be added; whatever else changes breaks a client.
abidiff --no-added-syms "$abi" "$scratch/now.abi"
