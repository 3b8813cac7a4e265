#!/bin/sh
# Builds Traefik for the nodes of nodelocal, and prints the folder: traefik.tar (traefik:v...), crds.yaml of the same version, and the
# folder gateway-crds of the Gateway API.
set -eu
cd "$(dirname "$0")"
exec ../nodelocal/image.sh github.com/traefik/traefik/v3 cmd/traefik \
    github.com/traefik/traefik/v3 docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml crds.yaml \
    sigs.k8s.io/gateway-api config/crd/standard gateway-crds
