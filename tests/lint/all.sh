#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every static check, for the pre-commit hook and for CI alike:
#   tests/lint/all.sh [--python PYTHON] [--fix]
# --fix formats in place. clang-tidy looks at the files that changed since ONRT_TIDY_BASE
# (default: the merge base with origin/main, else the previous commit).
# Functions below are called through check():
# shellcheck disable=SC2317
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
python=$PWD/.venv/bin/python
fix=0
while [ $# -gt 0 ]; do
  case "$1" in
    --python) python=$2; shift ;;
    --fix) fix=1 ;;
    *) echo "all.sh: unknown argument '$1'" >&2; exit 2 ;;
  esac
  shift
done
[ -x "$python" ] || python=python3
status=0
check() {
  local name=$1
  shift
  if "$@"; then echo "ok    $name"; else echo "FAIL  $name"; status=1; fi
}

mapfile -t sources < <(git ls-files '*.h' '*.cc' '*.c')
mapfile -t shell_files < <(git ls-files | while read -r f; do [ -f "$f" ] && head -c 64 "$f" | head -1 | grep -qE '^#!.*\b(ba)?sh\b' && echo "$f"; done)
mapfile -t text_files < <(git ls-files '*.h' '*.cc' '*.c' '*.py' '*.md' '*.txt' '*.cmake' '*.def' '*.json' '*.sh' 'Makefile')

format_check() {
  if [ "$fix" = 1 ]; then clang-format-19 -i "${sources[@]}"; else clang-format-19 --dry-run -Werror "${sources[@]}" 2>&1 | head -40; [ "${PIPESTATUS[0]}" = 0 ]; fi
}
spelling() { codespell -q 3 -I tests/lint/spelling.txt -S '*.gz,*.pb,*.npy' "${text_files[@]}"; }
ruff_check() { "$python" -m ruff check -q . && "$python" -m ruff format -q --check .; }
tidy() {
  local base=${ONRT_TIDY_BASE:-}
  [ -n "$base" ] || base=$(git merge-base HEAD origin/main 2>/dev/null) || true
  [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse -q --verify HEAD~1) || return 0
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- '*.cc' | grep -v -E '^(bench|examples)/')
  [ ${#changed[@]} -gt 0 ] || return 0
  mkdir -p build
  cmake --preset tidy > build/configure.log 2>&1 || { cat build/configure.log; return 1; }
  # Generated sources must exist before files that include them are read.
  cmake --build build/tidy -j "$(nproc)" --target onrt_generated > build/tidy.log 2>&1 || { cat build/tidy.log; return 1; }
  printf '%s\n' "${changed[@]}" | "$python" tests/lint/in_database.py build/tidy | xargs -r -n 4 -P "$(nproc)" clang-tidy-19 -p build/tidy --quiet 2>/dev/null
}

check "clang-format" format_check
check "SPDX, whitespace, private paths" "$python" tests/lint/check_text.py
check "layers" "$python" tests/lint/check_layers.py
check "generated files" "$python" tests/lint/check_generated.py
check "spelling" spelling
check "shellcheck" shellcheck -x "${shell_files[@]}"
check "ruff" ruff_check
check "clang-tidy (changed files)" tidy
exit $status
