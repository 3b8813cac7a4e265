#!/bin/sh
# Builds a program of another project as a dependency, and an image of it for the nodes, into a cache outside of the work tree, unless they
# are there already, and prints the folder. The build.sh of a tool folder calls it, in that folder; it has the go.mod.
#   ../nodelocal/image.sh MODULE PACKAGE [MODULE FROM TO]...
# PACKAGE is relative to the module, and the last part of its path names the image, whose tag is the version of the module. FROM is a
# file or a folder of a module, which the folder has as TO beside the image. Only the path goes to stdout. Safe to run several times at once.
set -eu
module=$1 package=$2
shift 2
tool=$(basename "$PWD") program=$(basename "$package")

if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    [ -n "$HOME" ] && [ -w "$HOME" ] || HOME="${TMPDIR:-/tmp}/fairlead-$(id -u)"
    export HOME
fi
nodelocal=$(../nodelocal/build.sh)
export GOWORK=off CGO_ENABLED=0

cache="${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead}/$tool"
version=$(awk -v module="$module" '$1 == module { print $2; exit }' go.mod)
hash=$({ cat go.mod go.sum build.sh ../nodelocal/image.sh && go version; } | sha256sum | cut -c1-16)
dir="$cache/$version-$hash"

touch -c "$dir" # in use: see the clean-up below
if [ ! -e "$dir/$program.tar" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if [ ! -e "$dir/$program.tar" ]; then
        echo "$tool: building $program $version from source (some ten minutes the first time, then cached in $cache)" >&2
        temp=$(mktemp -d "$cache/building.XXXXXX")
        trap 'rm -rf "$temp"' EXIT
        trap 'exit 1' INT TERM HUP
        mkdir "$temp/done"
        GOMAXPROCS=16 go list -deps "$module/$package" >/dev/null 2>&1 || : # downloads at once; go build takes as many as there are processors
        go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$temp/done/$program" "$module/$package" >&2 9>&-
        "$nodelocal" image --tag "$program:$version" --entrypoint "$temp/done/$program" --out "$temp/done/$program.tar"
        rm "$temp/done/$program"
        while [ $# -gt 0 ]; do
            cp -r "$(go list -m -f '{{.Dir}}' "$1")/$2" "$temp/done/$3"
            chmod -R u+w "$temp/done/$3" # modules are read-only
            shift 3
        done
        mv -T "$temp/done" "$dir"
        find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
    fi
fi
touch -c "$dir"
echo "$dir"
