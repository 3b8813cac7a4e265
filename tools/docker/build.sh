#!/usr/bin/env bash
# Builds the compose plugin, as pinned in go.mod here, into the cache once; prints its path.
set -euo pipefail
cd "$(dirname "$0")"
cache=${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/fairlead}/docker
version=$(sed -n 's/.*docker\/compose\/v2 \(v[0-9.]*\).*/\1/p' go.mod)-$(go env GOVERSION)
dir=$cache/compose-$version
if [ ! -x "$dir/docker-compose" ]; then
  echo "building docker compose $version (once, a few minutes)" >&2
  mkdir -p "$dir"
  GOWORK=off CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X github.com/docker/compose/v2/internal.Version=${version%%-*}" -o "$dir/building.$$" github.com/docker/compose/v2/cmd >&2
  mv "$dir/building.$$" "$dir/docker-compose"
fi
echo "$dir/docker-compose"
