#!/usr/bin/env bash
# What keeps the modules apart: every deployable builds by itself, and none drags in what it must not. And what is for other platforms compiles.
set -euo pipefail
cd "$(dirname "$0")/.."

fail=0
# What one deployable is built from: the modules that are not ours, with their versions.
foreign() { go list -deps -f '{{with .Module}}{{.Path}} {{.Version}}{{with .Replace}} by {{.Path}} {{.Version}}{{end}}{{end}}' ./cmd/... | grep -vE '^(fairlead\.dev/|$)' | sort -u; }

# Without the workspace each compiles as with it, if every package is found and all modules are the same.
for dir in services/{console,gitcache,distributor,tunnel,agent} cli; do
  echo "compare the modules of $dir with those of the workspace" >&2
  if ! alone=$(cd "$dir" && GOWORK=off foreign); then
    echo "$dir does not build without the workspace: run \`make tidy\`" >&2
    fail=1
  elif ! diff <(echo "$alone") <(cd "$dir" && foreign) >&2; then
    echo "$dir has other modules (<) than the workspace (>): run \`make tidy\`" >&2
    fail=1
  fi
done

# forbid DIR PATTERN WHY: no package that the binary in DIR links may match PATTERN.
forbid() {
  local found
  found=$(cd "$1" && GOWORK=off go list -deps "./cmd/$(basename "$1")" | grep -E "$2" | head -3 || true)
  if [ -n "$found" ]; then
    printf '%s must not link this (%s):\n%s\n' "$1" "$3" "$found" >&2
    fail=1
  fi
}
forbid services/agent '^(github.com/go-git/|database/sql$|modernc.org/sqlite|github.com/jackc/pgx|github.com/redis/|cel.dev/|sigs.k8s.io/controller-runtime)' 'the agent stays small'
forbid services/distributor '^(github.com/go-git/|database/sql$|k8s.io/)' 'the edge knows neither Git nor SQL nor Kubernetes'
forbid services/tunnel '^(github.com/go-git/|database/sql$|k8s.io/)' 'the tunnel knows neither Git nor SQL nor Kubernetes'
forbid services/gitcache '^(database/sql$|k8s.io/)' 'gitcache knows neither SQL nor Kubernetes'
forbid services/console '^(github.com/go-git/|k8s.io/)' 'the console knows neither Git nor Kubernetes'

# Go doesn't know that this test reads all our packages, and would say that it passed before.
echo "look whether the programs fit other platforms" >&2
GOWORK=off go -C tools/images test -count=1 -run Fit . || fail=1

exit $fail
