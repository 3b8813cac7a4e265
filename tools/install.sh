#!/usr/bin/env bash
# Installs what the tests need from the distribution's packages, if it is missing:
# redis-server, PostgreSQL, nginx, haproxy, strace, Prometheus, Docker Engine, containerd, a keyring and Chromium (real parts for real tests), git, and what signs its commits. Does nothing where all is there.
set -euo pipefail

packages=()
command -v git >/dev/null || packages+=(git)
command -v strace >/dev/null || packages+=(strace) # kills a program at a system call
command -v gpg >/dev/null || packages+=(gnupg)
command -v ssh-keygen >/dev/null || packages+=(openssh-client)
command -v redis-server >/dev/null || packages+=(redis-server)
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || packages+=(nginx-light) # a proxy that speaks HTTP/1.1 only
command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || packages+=(haproxy) # the balancer of docker-compose.yml
[ -x /usr/sbin/dockerd ] || command -v dockerd >/dev/null || packages+=(docker.io)
command -v iptables >/dev/null || [ -x /usr/sbin/iptables ] || packages+=(iptables) # Docker's networks
command -v ip >/dev/null || packages+=(iproute2)
{ command -v containerd && command -v ctr; } >/dev/null || packages+=(containerd) # what real nodes run containers with
command -v runc >/dev/null || [ -x /usr/sbin/runc ] || packages+=(runc)
{ command -v prometheus && command -v promtool; } >/dev/null || packages+=(prometheus) # asks for metrics, and tests rules
command -v zstd >/dev/null || packages+=(zstd) # the peer of a bench
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || packages+=(postgresql)
command -v mkfs.ext4 >/dev/null || [ -x /usr/sbin/mkfs.ext4 ] || packages+=(e2fsprogs) # a disk whose power fails
{ command -v dbus-daemon && command -v gnome-keyring-daemon; } >/dev/null || packages+=(dbus gnome-keyring) # where desktops keep tokens
command -v chromium-headless-shell >/dev/null || packages+=(chromium-headless-shell) # a real browser, without windows: for tests it takes a quarter less CPU
command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] || packages+=(openssh-server)

[ ${#packages[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing for the tests: ${packages[*]}. Install them with your package manager, or run this as root on Debian." >&2
  exit 1
fi

echo "installing ${packages[*]}" >&2
# The tests start servers of their own: the packages must start none.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2
