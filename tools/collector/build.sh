#!/usr/bin/env bash
# Builds the OpenTelemetry Collector, as pinned in go.mod here, into the cache once; prints its path.
set -euo pipefail
cd "$(dirname "$0")"
cache=${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/fairlead}/collector
# Everything that can change the binary.
version=$(sed -n 's/.*collector\/otelcol \(v[0-9.]*\).*/\1/p' go.mod)-$({ cat main.go go.mod go.sum; go env GOVERSION; } | sha256sum | cut -c1-16)
bin=$cache/collector-$version
if [ ! -x "$bin" ]; then
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9 # another build may be running
fi
if [ ! -x "$bin" ]; then
  echo "building the OpenTelemetry Collector $version (once, a few minutes)" >&2
  export GOWORK=off CGO_ENABLED=0
  GOMAXPROCS=16 go list -deps . >/dev/null 2>&1 || : # downloads at once; go build takes as many as there are processors
  go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$bin.$$" . >&2 9>&-
  mv "$bin.$$" "$bin"
fi
echo "$bin"
