#!/bin/sh
# Builds nodelocal and the programs of its nodes into a cache outside of the work tree, unless they are there already, and prints the
# path of nodelocal. Only that path goes to stdout. Safe to run several times at once.
# With --path it builds nothing, and prints where nodelocal is once it is built.
set -eu
cd "$(dirname "$0")"

say() { echo "nodelocal: $*" >&2; }

if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    [ -n "$HOME" ] && [ -w "$HOME" ] || HOME="${TMPDIR:-/tmp}/fairlead-$(id -u)"
    export HOME
fi
export GOWORK=off CGO_ENABLED=0

cache="${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead}/nodelocal"
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' go.mod)
# Everything that can change the binaries: our sources, the modules, the compiler.
hash=$({
    find . -type f \( -name '*.go' -o -name go.mod -o -name go.sum -o -name build.sh \) ! -name '*_test.go' | LC_ALL=C sort | xargs sha256sum
    go version
} | sha256sum | cut -c1-16)
dir="$cache/$version-$hash"
# kubelet, kube-proxy and the CNI plugins are the same whatever our sources say.
upstream="$cache/upstream-$version-$({ cat go.mod go.sum build.sh && go version; } | sha256sum | cut -c1-16)"

if [ "${1:-}" = --path ]; then
    [ ! -x "$dir/nodelocal" ] || touch "$dir" # in use: see the clean-up below
    echo "$dir/nodelocal"
    exit
fi

if [ ! -x "$dir/nodelocal" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    if ! flock -n 9; then
        say "another build is running; waiting for it"
        flock 9
    fi
fi
if [ ! -x "$dir/nodelocal" ]; then
    temp=$(mktemp -d "$cache/building.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    trap 'exit 1' INT TERM HUP
    say "building kubelet and kube-proxy $version and the CNI plugins from source (about 2 minutes on 2 cores the first time, then cached in $cache)"
    began=$(date +%s)
    flags="-s -w"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=$(echo "$version" | cut -d. -f1 | tr -d v) -X $package.gitMinor=$(echo "$version" | cut -d. -f2) -X $package.gitTreeState=clean"
    done
    if [ ! -d "$upstream" ]; then
        mkdir "$temp/upstream"
        # shellcheck disable=SC2046 # a package a word
        GOMAXPROCS=16 go list -deps $(go list tool) . >/dev/null 2>&1 || : # downloads at once; go build takes as many as there are processors
        # shellcheck disable=SC2046 # a package a word
        go build -trimpath -buildvcs=false -ldflags "$flags" -o "$temp/upstream/" $(go list tool) >&2 9>&-
        mv -T "$temp/upstream" "$upstream"
    fi
    touch "$upstream"
    ln "$upstream"/* "$temp/"
    go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$temp/" . ./pause ./hello ./internal/testpod >&2 9>&-
    for program in pause hello testpod; do
        "$temp/nodelocal" image --tag "node.local/$program:1" --entrypoint "$temp/$program" --out "$temp/$program.tar"
    done
    mv -T "$temp" "$dir"
    trap - EXIT
    say "built in $(($(date +%s) - began)) s"
    # Other versions that nobody asked for in two weeks: 250 MB each.
    find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
fi
touch "$dir" # in use: see the clean-up above
echo "$dir/nodelocal"
