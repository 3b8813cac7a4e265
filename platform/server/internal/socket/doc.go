// Package socket is what a server asks of the operating system about its connections: how many there may be, whether a
// peer has left, and when the kernel gives up a peer that takes nothing. A system that does not offer one of these gets
// a function that does without.
package socket
