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

# Two thirds of the time that Vault takes to compile go into the software kits of clouds. Nothing here asks a cloud for addresses of other
# nodes, for the key of a seal, or Okta for a second factor: Vault is built without these, and says so when it is asked for one.
patch_vault() {
    mkdir "$1/vault"
    (cd "$(source_of github.com/hashicorp/vault)" && tar -c --exclude=./ui --exclude=./website --exclude=./changelog .) | tar -x -C "$1/vault"
    cp -r "$(source_of github.com/hashicorp/go-discover)" "$1/discover"
    chmod -R u+w "$1/vault" "$1/discover"
    sed -i '/go-discover\/provider\/mdns"/!{/go-discover\/provider\//d}; /mdns\.Provider{}/!{/[a-z]*\.Provider{},$/d}' "$1/discover/discover.go"
    sed -i '/discoverk8s/d' "$1/vault/vault/raft.go"
    sed -i '/wrappers\/awskms/d; /awskms\.WithLogger/d' "$1/vault/vault/core.go"
    sed -i '/okta-sdk-golang/d; /^\t"regexp"$/d; /^func (c \*Core) validateOkta/,/^}/{/^func/!{/^}/!d}; s/^}/\treturn fmt.Errorf("built without Okta")\n}/}' "$1/vault/vault/login_mfa.go"
    clouds='AliCloudKMS\|AWSKMS\|AzureKeyVaultKMS\|GCPCKMSKMS\|OCIKMSKMS'
    sed -i "/wrappers\/\(alicloudkms\|awskms\|azurekeyvault\|gcpckms\|ocikms\)\//d
        /^\(func\|var\) Get\($clouds\)Func/,/^}/d
        s/= Get\($clouds\)Func(.*/= nil, nil, fmt.Errorf(\"built without the seal of %s\", configKMS.Type)/" "$1/vault/internalshared/configutil/kms.go"
    sed -i '/wrappers\/transit/!{/wrappers\//d}; /\(alicloudkms\|awskms\|azurekeyvault\|gcpckms\|ocikms\)\.Env/d' "$1/vault/internalshared/configutil/env_var_util.go"
    printf 'replace github.com/hashicorp/vault => %s/vault\nreplace github.com/hashicorp/go-discover => %s/discover\n' "$1" "$1" >>"$1/go.mod"
}

# source_of prints the folder of a module, as pinned.
source_of() { go mod download "$1" >&2 && go list -m -f '{{.Dir}}' "$1"; }

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
        patch_vault "$temp"
        GOMAXPROCS=16 go list -deps -mod=mod -modfile="$temp/go.mod" . >/dev/null 2>&1 || : # downloads at once; go build takes as many as there are processors
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
