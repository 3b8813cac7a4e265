#!/usr/bin/env bash
# Runs buf as pinned in tools/package.json. Its one foreign import, protovalidate's rules, comes
# from the Go module of that name, so that no schema registry is needed.
#   tools/buf.sh --prepare      installs and copies only
#   tools/buf.sh breaking-main  compares proto/ with the main branch
set -euo pipefail
cd "$(dirname "$0")/.."
protovalidate=github.com/bufbuild/protovalidate@v1.2.0

exec 9<tools/package.json # One at a time in this tree.
flock 9
[ tools/node_modules/.bin/buf -nt tools/package.json ] || (cd tools && npm install --silent >&2 && touch node_modules/.bin/buf)
rules=.cache/protovalidate/buf/validate
if [ ! -e "$rules/validate.proto" ]; then
  mkdir -p "$rules"
  module=$(cd tools && GOWORK=off go mod download -json "$protovalidate" | sed -n 's/.*"Dir": "\(.*\)",*$/\1/p')
  install -m 0644 "$module/proto/protovalidate/buf/validate/validate.proto" "$rules/"
fi
exec 9<&-
export PATH="$PWD/tools/node_modules/.bin:$PATH"

case "${1:-}" in
--prepare) ;;
breaking-main)
  base=$(git rev-parse --verify -q origin/main || git rev-parse --verify -q main || git rev-parse HEAD)
  before=$(mktemp -d)
  trap 'rm -rf "$before"' EXIT
  git archive "$base" proto buf.yaml | tar -x -C "$before"
  mkdir "$before/.cache" && cp -r .cache/protovalidate "$before/.cache/"
  buf breaking --against "$before"
  ;;
*) buf "$@" ;;
esac
