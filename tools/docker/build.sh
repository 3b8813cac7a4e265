#!/usr/bin/env bash
# Builds the compose plugin, as pinned in go.mod here, into the cache once; prints its path. It is built without the driver that builds
# images in a Kubernetes cluster, which is half of the time to compile it: here it builds none.
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off CGO_ENABLED=0
module=github.com/docker/compose/v2
cache=${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/fairlead}/docker
version=$(sed -n 's/.*docker\/compose\/v2 \(v[0-9.]*\).*/\1/p' go.mod)-$(go env GOVERSION)
# Everything that can change the binary: the modules, this script, the compiler.
dir=$cache/compose-$version-$(cat go.mod go.sum build.sh | sha256sum | cut -c1-16)
if [ ! -x "$dir/docker-compose" ]; then
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9 # another build may be running
fi
if [ ! -x "$dir/docker-compose" ]; then
  echo "building docker compose $version (once, a few minutes)" >&2
  mkdir -p "$dir"
  temp=$(mktemp -d "$dir/building.XXXXXX")
  trap 'rm -rf "$temp"' EXIT
  go mod download "$module"
  cp -r "$(go list -m -f '{{.Dir}}' "$module")" "$temp/compose"
  chmod -R u+w "$temp/compose"
  sed -i '/_ "github.com\/docker\/buildx\/driver\/kubernetes"/d' "$temp/compose/pkg/compose/build_buildkit.go"
  cp go.mod go.sum "$temp/"
  echo "replace $module => $temp/compose" >>"$temp/go.mod"
  GOMAXPROCS=16 go list -deps -mod=mod -modfile="$temp/go.mod" "$module/cmd" >/dev/null 2>&1 || : # downloads at once; go build takes as many as there are processors
  go build -mod=mod -modfile="$temp/go.mod" -trimpath -buildvcs=false -ldflags "-s -w -X $module/internal.Version=${version%%-*}" -o "$temp/docker-compose" "$module/cmd" >&2 9>&-
  mv "$temp/docker-compose" "$dir/docker-compose"
fi
echo "$dir/docker-compose"
