#!/usr/bin/env bash
# Builds the pages of web/ into web/dist, which the console carries. Does nothing where they are built from these very files.
#   tools/web.sh          builds; without Node it says so, and the console says how to build its pages
#   tools/web.sh --test   lints, checks the types, and runs the unit tests; Node has to be there
set -euo pipefail
cd "$(dirname "$0")/../web"

if ! command -v npm >/dev/null; then
  echo "web: the pages are not built, because npm is missing: install Node 20.19 or later" >&2
  [ "${1:-}" != --test ] || exit 1
  exit 0
fi
exec 9<package.json # One at a time in this tree.
flock 9

# npm 11 has "npm ci" refuse a lock without the optional packages of other platforms. "npm install" takes any lock, and what it has put
# there is compared with ours: each package has the version and the hash of package-lock.json, or nothing is built.
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
  npm install --no-save --silent --no-audit --no-fund >&2
  node locked.mjs || { rm -rf node_modules; exit 1; }
fi
if [ "${1:-}" = --test ]; then
  npx --no-install biome check .
  npx --no-install tsc --noEmit
  exec npx --no-install vitest run
fi

files=(index.html package.json package-lock.json vite.config.ts src public)
built=$(find "${files[@]}" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
[ "$(cat dist/.built 2>/dev/null)" != "$built" ] || exit 0
npx --no-install vite build --logLevel warn >&2
echo "$built" >dist/.built
