package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/shares"
)

const (
	// connectionsPerAgent bounds the connections of one cluster's agents to one replica. An agent needs one for its
	// calls and one for each session with a tunnel; a cluster has two agents, and connections whose network went away
	// stay for 30 s.
	connectionsPerAgent = 64
	// connectionsPerPerson bounds those of one person or service account. Each command of kubectl has one of its own,
	// and a person may have 512 requests under way at one cluster.
	connectionsPerPerson = 1024
	// connectionsLater is when a caller with too many may come back, in seconds.
	connectionsLater = 10
)

// callerShares bounds the connections of each caller whose identity is known. Hub services are few and have no bound.
type callerShares struct{ agents, people *shares.Shares }

func newCallerShares(limit int64) callerShares {
	if limit < noShares {
		return callerShares{shares.New(limit), shares.New(limit)}
	}
	return callerShares{shares.New(min(connectionsPerAgent, limit/4)), shares.New(min(connectionsPerPerson, limit/2))}
}

func (c callerShares) of(id identity.Identity) *shares.Shares {
	switch id.Kind {
	case identity.KindAgent:
		return c.agents
	case identity.KindUser:
		return c.people
	default:
		return nil
	}
}

// seat is what a connection takes of the share of its caller, which is the one of its newest request: a proxy that is
// not trusted sends those of many callers over one connection.
type seat struct {
	mu     sync.Mutex // guards what follows
	kind   identity.Kind
	name   string
	share  *shares.Shares // nil: of nobody's
	closed bool
}

// take moves the seat to the share of a caller; false: that share is full.
func (s *seat) take(from callerShares, id identity.Identity) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.kind == id.Kind && s.name == id.Name {
		return true
	}
	share := from.of(id)
	if share != nil && !share.Take(id.Name, 1) {
		return false
	}
	s.leave()
	s.kind, s.name, s.share = id.Kind, id.Name, share
	return true
}

// close gives the seat back for good.
func (s *seat) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
	s.closed = true
}

// leave needs the mutex.
func (s *seat) leave() {
	if s.share != nil {
		s.share.Give(s.name, 1)
		s.share = nil
	}
}

// meetCaller takes note that a caller has shown an identity on the request's connection; false: it is one connection
// more than the caller's share. Such a connection stays a stranger's, or in the share that it is in already: it ends
// only after the rest of its request, and must count until then.
func meetCaller(ctx context.Context, id identity.Identity) bool {
	g, ok := ctx.Value(guestKey{}).(*guest)
	if !ok {
		return true
	}
	if g.network != "" && !g.seat.take(g.door.callers, id) {
		return false
	}
	g.known()
	return true
}

const tooManyConnections = "too many of your connections to this replica are open: send requests over fewer connections, and come back after the time in Retry-After"

// endConnection has the connection end with the answer to come, which tells when to come back.
func endConnection(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", strconv.Itoa(connectionsLater))
}
