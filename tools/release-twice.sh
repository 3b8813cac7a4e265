#!/usr/bin/env bash
# Makes a release of HEAD in this tree and in a clone with another path, and compares them: every file but signatures and provenance has to be
# the same. The second one compiles for this machine's platform with an empty cache; for other platforms it links what the first has compiled, which
# the same compiler made. Arguments are those of `make release`: -try, -platforms.
set -euo pipefail
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKELEVEL

if [ -n "$(git status --porcelain)" ]; then
    echo "release-twice: the clone has the last commit only: commit these changes first" >&2
    git status --short >&2
    exit 1
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
git clone --quiet --shared . "$temp/another-path"
make --no-print-directory release ARGS="$*" | tee "$temp/first" >&2
make --no-print-directory -C "$temp/another-path" release ARGS="$* -fresh" | tee "$temp/second" >&2
first=$(tail -n 1 "$temp/first") second=$(tail -n 1 "$temp/second")
(cd "$second" && sha256sum --check --quiet SHA256SUMS)
# The list has every file but itself, the provenance and the signatures.
diff "$first/SHA256SUMS" "$second/SHA256SUMS" || { echo "release-twice: these files differ" >&2; exit 1; }
echo "release-twice: $(wc -l <"$first/SHA256SUMS") files are the same in $first and in a clone elsewhere"
