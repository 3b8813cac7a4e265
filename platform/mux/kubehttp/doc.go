// Package kubehttp is what both ends of the tunnel know about a Kubernetes API server's HTTP: which
// request headers must never pass, which paths are tricks, how errors look, and what a request is about.
package kubehttp
