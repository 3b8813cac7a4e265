#!/bin/sh
# Builds Traefik for the nodes of nodelocal, and prints the folder: traefik.tar (traefik:v...), and crds.yaml of the same version.
set -eu
cd "$(dirname "$0")"
exec ../nodelocal/image.sh github.com/traefik/traefik/v3 cmd/traefik \
    docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml crds.yaml
