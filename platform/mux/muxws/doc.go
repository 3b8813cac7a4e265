// Package muxws carries a mux session's batches over a WebSocket, where a proxy on the way speaks no HTTP/2.
//
// The package is as much of RFC 6455 as that needs: binary messages, in pieces or whole, pings, and a close with a
// reason. There are no extensions and no texts. A breach of the rules ends the connection.
package muxws
