#!/usr/bin/env bash
# Runs the steps of `make test`, and tells how long each took.
#   tools/step.sh --begin          forgets the steps of the last run
#   tools/step.sh NAME COMMAND...  runs one, and ends as the command does
#   tools/step.sh --end            tells which steps took longest, and which packages of their tests
set -euo pipefail
dir=$(cd "$(dirname "$0")/.." && pwd)/.cache/steps
most=15 # packages that --end tells of

minutes() { awk -v s="$1" 'BEGIN { printf "%.1f min", s / 60 }'; }

# longest prints the lines "SECONDS NAME" of its input, the longest first.
longest() { sort -rn | while read -r seconds name; do printf '%10s  %s\n' "$(minutes "$seconds")" "$name"; done; }

mkdir -p "$dir"
case "$1" in
--begin)
  rm -f "$dir"/*
  date +%s >"$dir/began"
  touch "$dir/steps" "$dir/packages"
  ;;
--end)
  echo "== all passed in $(minutes $(($(date +%s) - $(cat "$dir/began")))):"
  longest <"$dir/steps"
  echo "== the packages whose tests took longest:"
  longest <"$dir/packages" | sed -n "1,${most}p" # sed reads to the end: a closed pipe would be an error
  ;;
*)
  name=$1
  shift
  echo "== $name"
  began=$(date +%s) status=0
  output=$dir/output.$$ # steps may run side by side
  "$@" 2>&1 | tee "$output" || status=$?
  seconds=$(($(date +%s) - began))
  times >"$output.cpu" # in a pipe it would be another shell's
  cpu=$(awk 'NR == 2 { split($1, u, "[ms]"); split($2, s, "[ms]"); print 60 * (u[1] + s[1]) + u[2] + s[2] }' "$output.cpu")
  if [ "$status" != 0 ]; then
    echo "== $name failed after $(minutes "$seconds"):"
    grep -E '^ *--- FAIL|^FAIL|^panic: ' "$output" || true # what go test said, above other packages' lines
    exit "$status"
  fi
  echo "$seconds $name" >>"$dir/steps"
  awk '$1 == "ok" && $3 ~ /^[0-9.]+s$/ { print $3 + 0, $2 }' "$output" >>"$dir/packages"
  rm -f "$output" "$output.cpu"
  echo "== $name: $(minutes "$seconds"), of CPU time $(minutes "$cpu")"
  ;;
esac
