#!/usr/bin/env bash
# Builds what the local clusters of `fairlead up --prepare` need, the agent and kubelocal, and prints the path of kubelocal. Only that path goes
# to stdout. The hub is up meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
# Those of the make that started the hub: it is over.
unset MAKEFLAGS MFLAGS MAKELEVEL

# A signal ends what is being built, too: bash would wait for it first. The builds clean up after themselves.
trap 'trap - TERM INT; kill 0' TERM INT
# SIGKILL, which the end of a killed hub brings, leaves no time for that. A watcher beside reads a pipe that this script alone holds open, and ends
# what is left of the group when the script is gone: after a good end that is the watcher alone. The hub starts this script in a group of its own;
# in another's group, as by hand from a script, there is no watcher.
if [ "$(ps -o pgid= -p $$ 2>/dev/null | tr -d ' ')" = $$ ]; then
    exec 8> >(exec >/dev/null 2>&1; read -r || :; kill 0)
fi
make --no-print-directory build-agent >&2 8>&- &
wait $!
tools/kubelocal/build.sh >/dev/null 8>&- &
wait $!
kubelocal=$(tools/kubelocal/build.sh 8>&-)
ln -sfn "${kubelocal%/*}/kubectl" bin/kubectl
echo "$kubelocal"
