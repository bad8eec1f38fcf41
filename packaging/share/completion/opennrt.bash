# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of OpenNRT's tools for bash: source this, or link it by each tool's name into
# /usr/share/bash-completion/completions.

# Long flags of `tool`, from its own --help.
_opennrt_flags() {
  "$1" --help 2>/dev/null | grep -oE -- '--[a-z][a-z0-9_-]*' | sort -u
}

# The words that may follow `tool` in the lines of its usage.
_opennrt_commands() {
  "$1" --help 2>/dev/null | awk -v t="${1##*/}" '$1 == t && $2 ~ /^[a-z]+$/ {print $2}' | sort -u
}

_opennrt_instance_types() {
  opennrt-machine types 2>/dev/null | awk '{print $1}'
}

_opennrt_machines() {
  opennrt-machine list 2>/dev/null | sed -n 's/^\([^ :]*\):.*/\1/p'
}

_opennrt_complete() {
  local tool=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=""
  [ "$COMP_CWORD" -gt 0 ] && before=${COMP_WORDS[COMP_CWORD - 1]}
  local words="" i
  case "$before" in
    --instance | -i) [ "${tool##*/}" = opennrt-run ] && words=$(_opennrt_instance_types) ;;
    --machine | -m) words=$(_opennrt_machines) ;;
  esac
  case "${tool##*/}:$before" in
    opennrt-machine:create) words=$(_opennrt_instance_types) ;;
    opennrt-machine:reset | opennrt-machine:rm) words=$(_opennrt_machines) ;;
    opennrt-machine:opennrt-machine) words="create list reset rm types" ;;
    opennrt-plan:opennrt-plan) words=$(_opennrt_commands "$tool") ;;
  esac
  # After -- a command of any kind.
  if [ "${tool##*/}" = opennrt-run ]; then
    for ((i = 1; i < COMP_CWORD; ++i)); do
      if [ "${COMP_WORDS[i]}" = -- ]; then
        mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
        return
      fi
    done
  fi
  case "$word" in
    -*) words=$(_opennrt_flags "$tool") ;;
  esac
  if [ -n "$words" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}

complete -F _opennrt_complete neuron-ls neuron-top neuron-monitor neuron-monitor-prometheus \
  neuron-monitor-prometheus.py neuron-monitor-cloudwatch.py neuron-packager neuron-bench neuronx-cc \
  opennrt-doctor opennrt-machine opennrt-sysfs opennrt-run nccom-test opennrt-flight opennrt-plan
