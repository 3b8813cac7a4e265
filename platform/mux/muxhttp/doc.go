// Package muxhttp carries HTTP requests over mux streams: one request, one stream.
//
// The hub's side is [Transport], an http.RoundTripper; the agent's side is [Serve], which hands each
// stream to an http.Handler. [Copier] moves a response from a RoundTripper to a
// ResponseWriter on either side. Bodies flow both ways at once, every chunk when it is written;
// trailers, HEAD, 204 and 304 work as in HTTP; a request whose context ends is reset, and the
// handler's context ends with it. A response that broke off reads as an error, never as io.EOF.
//
// A request that asks for another protocol (exec, port-forward) and gets a 101 becomes a pipe of bytes with
// two directions that end by themselves; [Splice] carries them on either side.
//
// The caller is in the OPEN frame ([Caller]), where no header of the request can put it.
package muxhttp
