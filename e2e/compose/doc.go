// Package compose tests docker-compose.yml: with a Docker Engine of its own, in namespaces of its own, so that it
// leaves nothing on this machine, and with images that are made here, so that no registry is asked.
package compose
