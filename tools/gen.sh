#!/usr/bin/env bash
# Generates Go code from proto/ into gen/ and the pages' client into web/src/gen, with buf and plugins that are pinned in tools/.
# Of the same contract come docs/reference and the comments of `fairlead schema`.
set -euo pipefail
cd "$(dirname "$0")/.."

"$(dirname "$0")/buf.sh" --prepare
gomod=$(mktemp -d)
trap 'rm -rf "$gomod"' EXIT
cp gen/go.mod gen/go.sum "$gomod/" # buf cleans the folder that it generates into
PATH="$PWD/tools/node_modules/.bin:$PATH" buf generate
cp "$gomod/go.mod" "$gomod/go.sum" gen/
PATH="$PWD/tools/node_modules/.bin:$PATH" buf generate --template web/buf.gen.yaml
go run ./cli/cmd/reference
