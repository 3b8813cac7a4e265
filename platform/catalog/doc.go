// Package catalog is a hub service's own copy of the console's catalog.
//
// The copy follows the console's Watch stream and keeps everything in memory, with a snapshot on disk, so that a
// service starts and works with the console away; Current and Stale say how far it can be trusted. A catalog is either
// complete or not Ready: half a snapshot, from the wire or from the disk, is never shown, because what is missing from
// a catalog looks like something to remove.
package catalog
