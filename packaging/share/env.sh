# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Source this: puts the OpenNRT tree that this file lies in on PATH and the library path.
# In a shell that doesn't tell a sourced file its name (dash), set OPENNRT_PREFIX first.
if [ -n "${BASH_SOURCE:-}" ]; then
  # shellcheck disable=SC3028,SC3054
  OPENNRT_PREFIX=$(cd "$(dirname "${BASH_SOURCE}")/../.." && pwd)
elif [ -n "${ZSH_VERSION:-}" ]; then
  OPENNRT_PREFIX=$(cd "$(dirname "$0")/../.." && pwd)
fi
if [ -z "${OPENNRT_PREFIX:-}" ]; then
  echo "env.sh: set OPENNRT_PREFIX to the folder that holds bin/ and lib/ first" >&2
else
  export OPENNRT_PREFIX
  export PATH="$OPENNRT_PREFIX/bin:$PATH"
  export LD_LIBRARY_PATH="$OPENNRT_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export PYTHONPATH="$OPENNRT_PREFIX/python${PYTHONPATH:+:$PYTHONPATH}"
fi
