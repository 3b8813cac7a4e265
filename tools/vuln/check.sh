#!/usr/bin/env bash
# Looks for known vulnerabilities in what each module calls (govulncheck, as pinned in go.mod here).
# The database is https://vuln.go.dev, or a mirror of it in GOVULNDB. Where it can't be reached nothing is known: in CI (CI is set) that
# fails, elsewhere it says so and goes on.
#   tools/vuln/check.sh MODULE...
set -euo pipefail
cd "$(dirname "$0")"
database=${GOVULNDB:-https://vuln.go.dev}
if [[ $database == http* ]] && ! curl --fail --silent --show-error --max-time 15 --output /dev/null "$database/index/db.json"; then
  echo "NOT CHECKED for known vulnerabilities: $database can't be reached. Set GOVULNDB to a mirror, or run make vuln where it can" >&2
  [ -z "${CI:-}" ] || exit 1
  exit 0
fi
cache=${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/fairlead}/vuln
version=$(sed -n 's/.*golang.org\/x\/vuln \(v[0-9.]*\).*/\1/p' go.mod)-$(go env GOVERSION)
bin=$cache/govulncheck-$version
if [ ! -x "$bin" ]; then
  mkdir -p "$cache"
  GOWORK=off CGO_ENABLED=0 go build -trimpath -o "$bin.$$" golang.org/x/vuln/cmd/govulncheck >&2
  mv "$bin.$$" "$bin"
fi
cd ../..
bad=0
for module in "$@"; do
  echo "vuln $module" >&2
  (cd "$module" && "$bin" -db "$database" ./...) || bad=1
done
exit $bad
