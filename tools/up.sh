#!/usr/bin/env bash
# Builds what the local clusters of `fairlead up --prepare` need, the agent and kubelocal, and prints the path of kubelocal. Only that path goes
# to stdout. The hub is up meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
# Those of the make that started the hub: it is over.
unset MAKEFLAGS MFLAGS MAKELEVEL

# A signal ends what is being built, too: bash would wait for it first. The builds clean up after themselves.
trap 'trap - TERM INT; kill 0' TERM INT
make --no-print-directory build-agent >&2 &
wait $!
tools/kubelocal/build.sh >/dev/null &
wait $!
kubelocal=$(tools/kubelocal/build.sh)
ln -sfn "${kubelocal%/*}/kubectl" bin/kubectl
echo "$kubelocal"
