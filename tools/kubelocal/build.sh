#!/bin/sh
# Builds kubelocal into a cache outside the work tree, unless it is there already, and prints the
# path of the binary. Only that path goes to stdout. Safe to run several times at once.
set -eu
cd "$(dirname "$0")"

say() { echo "kubelocal: $*" >&2; }

# Some CI systems set no HOME; Go needs one for its own caches as well.
if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    [ -n "$HOME" ] && [ -w "$HOME" ] || HOME="${TMPDIR:-/tmp}/fairlead-$(id -u)"
    export HOME
fi
export GOWORK=off CGO_ENABLED=0

cache="${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead}/kubelocal"
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' go.mod)
# Everything that can change the binary: our sources with what they embed, the modules, the compiler.
hash=$({
    find . -type f \( -name '*.go' -o -name '*.yaml' -o -name go.mod -o -name go.sum -o -name build.sh \) \
        ! -name '*_test.go' | LC_ALL=C sort | xargs sha256sum
    go version
} | sha256sum | cut -c1-16)
dir="$cache/$version-$hash"

if [ -x "$dir/kubelocal" ]; then
    touch "$dir" # in use: see the clean-up below
    echo "$dir/kubelocal"
    exit
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
if ! flock -n 9; then
    say "another build is running; waiting for it"
    flock 9
fi

if [ ! -x "$dir/kubelocal" ]; then
    temp=$(mktemp -d "$cache/building.XXXXXX")
    build= # the process id of go build, while it runs
    trap '[ -z "$build" ] || kill "$build" 2>/dev/null; rm -rf "$temp"' EXIT
    # PIPE: what reads our words is gone, and nobody waits for the build.
    trap 'exit 1' INT TERM HUP PIPE

    say "building etcd, Kubernetes $version and kwok from source (about 5 minutes on 2 cores the first time, then cached in $cache)"
    major=$(echo "$version" | cut -d. -f1 | tr -d v)
    minor=$(echo "$version" | cut -d. -f2)
    flags="-s -w"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
    done
    flags="$flags -X sigs.k8s.io/kwok/pkg/consts.Version=$(awk '$1 == "sigs.k8s.io/kwok" { print $2; exit }' go.mod)"

    began=$(date +%s)
    (
        GOMAXPROCS=16 go list -deps . >/dev/null || : # downloads at once; go build takes as many as there are processors
        exec go build -v -trimpath -buildvcs=false -ldflags "$flags" -o "$temp/kubelocal" .
    ) 2>"$temp/log" 9>&- &
    build=$!
    reported=$began
    while kill -0 "$build" 2>/dev/null; do
        sleep 1
        now=$(date +%s)
        if [ $((now - reported)) -ge 15 ]; then
            reported=$now
            say "still building: $((now - began)) s, $(grep -c '^go: downloading' "$temp/log" || :) modules downloaded, $(grep -vc '^go: ' "$temp/log" || :) packages compiled"
        fi
    done
    if ! wait "$build"; then
        build=
        say "the build failed:"
        grep -v '^go: downloading' "$temp/log" | tail -n 30 >&2
        exit 1
    fi
    build=
    rm "$temp/log"
    ln -s kubelocal "$temp/kubectl"
    mv -T "$temp" "$dir"
    trap - EXIT
    say "built in $(($(date +%s) - began)) s"
    # Other versions that nobody asked for in two weeks: 140 MB each.
    find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
fi
echo "$dir/kubelocal"
