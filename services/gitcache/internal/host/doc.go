// Package host is what mirrors ask of the machine: descriptors, processor time, and space on the disk. Where the system
// tells nothing, the answers limit nothing.
package host
