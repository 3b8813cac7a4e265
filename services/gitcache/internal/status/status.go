// Package status is what the gitcaches know of sources right now. Each knows all of what it owns; a view
// puts that of all replicas together, so that any of them can answer for all.
package status

import (
	"slices"
	"time"

	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
)

// Source is a source as it is right now. A Source is never changed once others can see it.
type Source struct {
	UID, Name, URL string // URL without userinfo
	// Owner is the replica that fetches; empty: nobody, or it can't be told.
	Owner     string
	OwnedHere bool
	Epoch     int64

	LastPoll, NextPoll, StaleSince time.Time

	Heads   []mirror.Head
	Problem source.Problem

	// UpstreamRequests of the last hour, or since the owner has it if that is less.
	UpstreamRequests int
	MirrorBytes      int64
	MirrorPacks      int
	// Standbys are the replicas that have a copy of all that was published, in order.
	Standbys []string
}

func (s *Source) equal(o *Source) bool {
	return s.UID == o.UID && s.Name == o.Name && s.URL == o.URL && s.Owner == o.Owner && s.OwnedHere == o.OwnedHere && s.Epoch == o.Epoch &&
		s.LastPoll.Equal(o.LastPoll) && s.NextPoll.Equal(o.NextPoll) && s.StaleSince.Equal(o.StaleSince) &&
		slices.EqualFunc(s.Heads, o.Heads, mirror.Head.Equal) && s.Problem.Equal(o.Problem) &&
		s.UpstreamRequests == o.UpstreamRequests && s.MirrorBytes == o.MirrorBytes && s.MirrorPacks == o.MirrorPacks &&
		slices.Equal(s.Standbys, o.Standbys)
}

// Published is what the catalog says of a source.
type Published struct {
	UID, Name, URL string
	Heads          []mirror.Head
	Problem        source.Problem
}

// List is an answer to a question about many sources.
type List struct {
	Sources []*Source // of one page
	Next    string    // token of the next page; empty: there is none
	Total   int       // that the filter lets through
	Silent  []string  // replicas that did not answer
}

// Query asks for a part of the sources.
type Query struct {
	Size                   int
	Token, Filter, OrderBy string
}
