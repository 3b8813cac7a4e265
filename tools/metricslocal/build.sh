#!/bin/sh
# Builds metrics-server for the nodes of nodelocal, and prints the folder: metrics-server.tar (metrics-server:v...), and manifests of the
# same version, for kustomize.
set -eu
cd "$(dirname "$0")"
exec ../nodelocal/image.sh sigs.k8s.io/metrics-server cmd/metrics-server \
    sigs.k8s.io/metrics-server manifests/base manifests
