#!/bin/sh
# Builds vaultlocal into a cache outside the work tree, unless it is there already, and prints the path of the binary. Only that path
# goes to stdout. Safe to run several times at once.
set -eu
cd "$(dirname "$0")"

if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    [ -n "$HOME" ] && [ -w "$HOME" ] || HOME="${TMPDIR:-/tmp}/fairlead-$(id -u)"
    export HOME
fi
export GOWORK=off CGO_ENABLED=0

# Vault 1.20.4 is made of an SDK of its own, between two that are published: of the older one, what it has besides is put in. None of
# that is used here: it is about plugins that are downloaded.
patch_sdk() {
    cp go.mod go.sum "$1/"
    go mod download github.com/hashicorp/vault/sdk github.com/hashicorp/vault/sdk@v0.19.0 >&2
    cp -r "$(go list -mod=mod -modfile="$1/go.mod" -m -f '{{.Dir}}' github.com/hashicorp/vault/sdk)" "$1/sdk"
    chmod -R u+w "$1/sdk"
    cp -f "$(go env GOMODCACHE)"/github.com/hashicorp/vault/sdk@v0.19.0/helper/jsonutil/*.go "$1/sdk/helper/jsonutil/"
    method='DownloadExtractVerifyPlugin(_ context.Context, _ *pluginutil.PluginRunner) error'
    sed -i 's/^type \(PluginRunner\|SetPluginInput\) struct {/&\n\tDownload bool/' "$1"/sdk/helper/pluginutil/*.go
    sed -i "s/^type SystemView interface {/&\n\t$method/" "$1/sdk/logical/system_view.go"
    echo "func (StaticSystemView) $method { return errors.ErrUnsupported }" >>"$1/sdk/logical/system_view.go"
    echo "func (*gRPCSystemViewClient) $method { return errors.ErrUnsupported }" >>"$1/sdk/plugin/grpc_system.go"
    echo "replace github.com/hashicorp/vault/sdk => $1/sdk" >>"$1/go.mod"
}

cache="${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead}/vaultlocal"
version=$(awk '$1 == "github.com/hashicorp/vault" { print $2; exit } $2 == "github.com/hashicorp/vault" { print $3; exit }' go.mod)
# Everything that can change the binary: our sources, the modules, the compiler.
hash=$({ cat main.go go.mod go.sum build.sh && go version; } | sha256sum | cut -c1-16)
dir="$cache/$version-$hash"

if [ ! -x "$dir/vaultlocal" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if [ ! -x "$dir/vaultlocal" ]; then
        echo "vaultlocal: building Vault $version from source (some minutes the first time, then cached in $cache)" >&2
        temp=$(mktemp -d "$cache/building.XXXXXX")
        trap 'rm -rf "$temp"' EXIT
        patch_sdk "$temp"
        go build -mod=mod -modfile="$temp/go.mod" -trimpath -buildvcs=false -ldflags "-s -w" -o "$temp/vaultlocal" . >&2
        mkdir "$temp/done"
        mv "$temp/vaultlocal" "$temp/done/"
        mv -T "$temp/done" "$dir"
        # Other versions that nobody asked for in two weeks.
        find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
    fi
fi
touch "$dir"
echo "$dir/vaultlocal"
