#!/bin/sh
# Builds Traefik, and an image of it for the nodes of nodelocal, into a cache outside the work tree, unless they are there already, and prints
# the folder: traefik.tar (traefik:v...), and crds.yaml of the same version. Only that path goes to stdout. Safe to run several times at once.
set -eu
cd "$(dirname "$0")"

if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    [ -n "$HOME" ] && [ -w "$HOME" ] || HOME="${TMPDIR:-/tmp}/fairlead-$(id -u)"
    export HOME
fi
nodelocal=$(../nodelocal/build.sh)
export GOWORK=off CGO_ENABLED=0

cache="${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead}/ingresslocal"
module=github.com/traefik/traefik/v3
version=$(awk -v module="$module" '$1 == module { print $2; exit }' go.mod)
hash=$({ cat go.mod go.sum build.sh && go version; } | sha256sum | cut -c1-16)
dir="$cache/$version-$hash"

if [ ! -e "$dir/traefik.tar" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if [ ! -e "$dir/traefik.tar" ]; then
        echo "ingresslocal: building Traefik $version from source (some ten minutes the first time, then cached in $cache)" >&2
        temp=$(mktemp -d "$cache/building.XXXXXX")
        trap 'rm -rf "$temp"' EXIT
        mkdir "$temp/done"
        GOMAXPROCS=16 go list -deps "$module/cmd/traefik" >/dev/null 2>&1 || : # downloads at once; go build takes as many as there are processors
        go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$temp/done/traefik" "$module/cmd/traefik" >&2 9>&-
        "$nodelocal" image --tag "traefik:$version" --entrypoint "$temp/done/traefik" --out "$temp/done/traefik.tar"
        rm "$temp/done/traefik"
        cp "$(go list -m -f '{{.Dir}}' "$module")/docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml" "$temp/done/crds.yaml"
        mv -T "$temp/done" "$dir"
        find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
    fi
fi
touch "$dir"
echo "$dir"
