#!/usr/bin/env bash
# Builds golangci-lint, as pinned in go.mod here, into the cache once; prints its path.
set -euo pipefail
cd "$(dirname "$0")"
cache=${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/fairlead}/lint
version=$(sed -n 's/.*golangci-lint\/v2 \(v[0-9.]*\).*/\1/p' go.mod)-$(go env GOVERSION)
bin=$cache/golangci-lint-$version
if [ ! -x "$bin" ]; then
  echo "building golangci-lint $version (once, a few minutes)" >&2
  mkdir -p "$cache"
  GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin.$$" github.com/golangci/golangci-lint/v2/cmd/golangci-lint >&2
  mv "$bin.$$" "$bin"
fi
echo "$bin"
