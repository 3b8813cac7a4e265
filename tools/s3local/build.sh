#!/bin/sh
# Builds s3local into a cache outside the work tree, unless it is there already, and prints the path of the binary. Only that path
# goes to stdout. Safe to run several times at once.
set -eu
cd "$(dirname "$0")"

if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    [ -n "$HOME" ] && [ -w "$HOME" ] || HOME="${TMPDIR:-/tmp}/fairlead-$(id -u)"
    export HOME
fi
export GOWORK=off CGO_ENABLED=0

cache="${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead}/s3local"
version=$(awk '$1 == "github.com/versity/versitygw" { print $2; exit }' go.mod)
# Everything that can change the binary: our sources, the modules, the compiler.
hash=$({ cat ./*.go go.mod go.sum build.sh && go version; } | sha256sum | cut -c1-16)
dir="$cache/$version-$hash"

if [ ! -x "$dir/s3local" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if [ ! -x "$dir/s3local" ]; then
        echo "s3local: building versitygw $version from source (a minute the first time, then cached in $cache)" >&2
        temp=$(mktemp -d "$cache/building.XXXXXX")
        trap 'rm -rf "$temp"' EXIT
        mkdir "$temp/done"
        GOMAXPROCS=16 go list -deps . >/dev/null 2>&1 || : # downloads at once; go build takes as many as there are processors
        go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$temp/done/s3local" . >&2
        mv -T "$temp/done" "$dir"
        # Other versions that nobody asked for in two weeks.
        find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
    fi
fi
touch "$dir"
echo "$dir/s3local"
