#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, end to end: train three PyTorch models on an emulated Trainium and on the CPU with one
# script; then the same machine from C: compile two JAX programs for it, train on it.
#   examples/demo.sh [--stage build/stage] [--python .venv/bin/python] [--out build/demo]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
stage=$root/build/stage
python=$root/.venv/bin/python
out=$root/build/demo
while [ $# -gt 0 ]; do
  case "$1" in
    --stage) stage=$2; shift ;;
    --python) python=$2; shift ;;
    --out) out=$2; shift ;;
    *) echo "demo.sh: unknown argument '$1'" >&2; exit 2 ;;
  esac
  shift
done
[ -x "$stage/bin/neuronx-cc" ] || { echo "demo.sh: no OpenNRT in '$stage'; run make stage" >&2; exit 2; }
mkdir -p "$out"
digits=$root/examples/digits

# A machine of the demo's own, gone afterwards.
machines=$(mktemp -d "${TMPDIR:-/tmp}/opennrt-demo.XXXXXX")
trap 'rm -rf "$machines"' EXIT
export OPENNRT_EMULATE=${OPENNRT_EMULATE:-trn2.3xlarge} OPENNRT_MACHINE_DIR=$machines
export PATH=$stage/bin:$PATH LD_LIBRARY_PATH=$stage/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset OPENNRT_MACHINE NEURON_RT_VISIBLE_CORES
export NEURON_RT_NUM_CORES=1

title() { printf '\n== %s\n' "$*"; }

title "1. The emulated machine ($OPENNRT_EMULATE)"
opennrt-machine create "$OPENNRT_EMULATE" > "$out/machine.log" 2>&1 || { cat "$out/machine.log" >&2; exit 1; }
neuron-ls

title "2. PyTorch: the same script on the CPU and on device neuron"
PYTHONPATH=$stage/python "$python" -W ignore "$root/examples/train_same_script.py" --device neuron \
  --compare --out "$out" 2> "$out/train_same_script.log" || {
  cat "$out/train_same_script.log" >&2
  echo "demo.sh: the PyTorch models did not train as on the CPU" >&2
  exit 1
}

title "3. Compile two programs lowered from JAX"
for program in train_step predict; do
  neuronx-cc compile "$digits/$program.pb" --framework XLA --target trn2 \
    --output "$out/$program.neff" --logfile "$out/neuronx-cc.log" > /dev/null
  printf '  %-14s %6s bytes of HLO -> %6s bytes of NEFF\n' "$program" \
    "$(stat -c %s "$digits/$program.pb")" "$(stat -c %s "$out/$program.neff")"
done
cc -O2 -I"$stage/include" "$root/examples/train_digits.c" -o "$out/train_digits" -L"$stage/lib" -lnrt -lz -lm -ldl

title "4. Train on one emulated core"
status=0
"$out/train_digits" "$out/train_step.neff" "$out/predict.neff" "$digits/digits.csv.gz" \
  "$digits/curve.csv" "$out/curve.csv" > "$out/train.log" || status=$?
cat "$out/train.log"
[ "$status" = 0 ] || { echo "demo.sh: training failed (exit $status)" >&2; exit 1; }

"$python" "$root/examples/plot_curve.py" "$out/curve.csv" "$out/learning_curve.png"

title "Summary"
grep -E '^(largest|test digits|device time|wall time)' "$out/train.log" | sed 's/^/  /'
echo "  learning curves: $out/training.png (PyTorch), $out/learning_curve.png (C)"
