// Package tunnel has the tests of the tunnel with real parts: the real kube-apiserver, the real kubectl,
// the built console, tunnel and agent, and nginx as an ingress that speaks HTTP/1.1 only.
package tunnel
