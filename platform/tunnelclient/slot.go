package tunnelclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/retry"
)

const (
	// firstLook, mostLook are between two looks for a replica to which there is no session yet.
	firstLook, mostLook = time.Second, time.Minute
	// lookTime bounds one.
	lookTime = 10 * time.Second
	// mostRetryAfter bounds what the hub may ask for.
	mostRetryAfter = 5 * time.Minute
)

// slot is a place for one session.
type slot struct {
	place

	reach *Client
	http  *http.Client // dials the session that is there
}

// place is where a slot is.
type place struct {
	endpoint string
	second   bool // is for another replica than those of the other slots, and empty if there is none
}

var (
	// errHeld: the replica has a session already.
	errHeld = errors.New("there is a session to this replica already")
	// errGoing: the session goes as planned, and is to be replaced at once.
	errGoing = errors.New("the tunnel replica is going away")
)

// keep has one session to an endpoint at any time, as far as that is possible.
func (r *Client) keep(ctx context.Context, k *slot) {
	defer r.forget(k)
	log := r.cfg.Log.With("endpoint", redacted(k.endpoint))
	var over way
	for failures := 0; ; {
		if !k.awaitNeed(ctx) {
			return
		}
		began := time.Now()
		connected, err := k.connect(ctx, &over, log)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errHeld) {
			r.forget(k) // the other slot tells how the endpoint does
		} else {
			r.setState(k, State{Endpoint: k.endpoint, Since: time.Now(), Err: err})
		}
		switch lived := time.Since(began) >= longLived; {
		case connected && (lived || errors.Is(err, errGoing)):
			failures = 0
		case connected && errors.Is(err, mux.ErrDead):
			over.remember(over.other()) // something on the way keeps frames to itself
		}
		wait := retryAfter(err) // the hub knows how long its line is
		if wait == 0 {
			wait = retry.Pause(failures, firstPause, mostPause)
			failures++
		}
		level := slog.LevelWarn
		if errors.Is(err, errHeld) {
			level = slog.LevelDebug
		}
		log.Log(ctx, level, "tunnel session ended; dialling again", "err", err, "connected", connected, "retry_in", wait.Round(time.Millisecond))
		if !retry.Sleep(ctx, wait) {
			return
		}
	}
}

// retryAfter is what the hub asks for when too many agents come at once, and a part more, so that they don't come
// together again.
func retryAfter(err error) time.Duration {
	asked := retry.Asked(err, mostRetryAfter)
	return retry.Between(asked, 2*asked)
}

// awaitNeed waits until the slot should have a session: the first one at once if there is none at all, others when
// there is a replica to which there is none. False: ctx has ended.
func (k *slot) awaitNeed(ctx context.Context) bool {
	for looks := 0; ; looks++ {
		k.reach.mu.Lock()
		held, changed := len(k.reach.held), k.reach.changed
		k.reach.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return false
		case held == 0 && !k.second, held > 0 && k.missesReplica(ctx):
			return true
		}
		pause := time.Hour // another slot has to be first
		if held > 0 {
			pause = min(mostLook, firstLook<<min(looks, 10))
			pause = retry.Between(pause/2, pause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
			looks = 0
		}
		timer.Stop()
	}
}

// missesReplica tells whether the hub has a replica to which there is no session, as long as there are not enough
// sessions.
func (k *slot) missesReplica(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	tunnels := tunnelv1connect.NewTunnelServiceClient(k.reach.cfg.HTTPClient, k.endpoint, append(client.Options(), client.WithToken(k.reach.cfg.Token))...)
	resp, err := tunnels.ListReplicas(ctx, &tunnelv1.ListReplicasRequest{})
	if err != nil {
		k.reach.cfg.HTTPClient.CloseIdleConnections() // the next look may find somebody else
		return !k.second                              // dialling tells why an endpoint can't be reached
	}
	k.reach.mu.Lock()
	defer k.reach.mu.Unlock()
	return slices.ContainsFunc(resp.GetReplicaIds(), func(id string) bool { return k.reach.held[id] == 0 })
}

// hold counts a session in. False: its replica has one.
func (k *slot) hold(session *mux.Session) (release func(), ok bool) {
	id := session.Peer().Properties["replica_id"]
	k.reach.mu.Lock()
	defer k.reach.mu.Unlock()
	if id != "" && k.reach.held[id] > 0 {
		return nil, false
	}
	k.reach.held[id]++
	k.reach.tellLocked()
	return func() {
		k.reach.mu.Lock()
		defer k.reach.mu.Unlock()
		if k.reach.held[id]--; k.reach.held[id] == 0 {
			delete(k.reach.held, id)
		}
		k.reach.tellLocked()
	}, true
}

// tellLocked wakes the slots that wait for a change.
func (r *Client) tellLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// connect opens a session and stays until it ends or goes away; then its last streams end in the
// background. connected says that the handshake was done.
func (k *slot) connect(ctx context.Context, over *way, log *slog.Logger) (connected bool, err error) {
	k.http = k.reach.cfg.HTTPClient
	if k.reach.cfg.Another != nil {
		if k.http, err = k.reach.cfg.Another(); err != nil {
			return false, err
		}
		defer k.http.CloseIdleConnections()
	}
	session, ended, carrier, err := k.openEither(ctx, over, log)
	if err != nil {
		return false, err
	}
	release, ok := k.hold(session)
	if !ok {
		session.Close(mux.CodeNone, errHeld.Error())
		<-ended //nolint:errcheck // it was told to
		return false, errHeld
	}
	defer release()
	k.reach.setState(k, State{Endpoint: k.endpoint, Connected: true, Since: time.Now(), Carrier: carrier})
	log.InfoContext(ctx, "tunnel session open", "carrier", carrier, "replica", session.Peer().Properties["replica"])
	select {
	case <-session.Gone():
		k.reach.running.Go(func() { linger(ctx, session, ended) })
		return true, errGoing
	case err := <-ended:
		return true, k.explain(err)
	case <-ctx.Done():
		drain(ctx, session)
		<-ended //nolint:errcheck // it was told to
		return true, nil
	}
}

// openEither opens a session over the carrier that worked last, or else over the other one, which is then the one to
// begin with.
func (k *slot) openEither(ctx context.Context, over *way, log *slog.Logger) (*mux.Session, <-chan error, string, error) {
	carrier := over.carrier()
	session, ended, err := k.open(ctx, carrier, log)
	if err == nil || ctx.Err() != nil || !blamesCarrier(err) {
		return session, ended, carrier, err
	}
	first := carrier
	carrier = over.other()
	session, ended, second := k.open(ctx, carrier, log)
	if second != nil {
		return nil, nil, "", fmt.Errorf("over %s: %w; over %s: %w", first, err, carrier, second)
	}
	if !passes(err) {
		over.remember(carrier)
	}
	log.InfoContext(ctx, "the hub is reached over another carrier", "carrier", carrier, "reason", err)
	return session, ended, carrier, nil
}

// open dials a session and waits until its handshake is done.
func (k *slot) open(ctx context.Context, carrier string, log *slog.Logger) (*mux.Session, <-chan error, error) {
	session, ended, err := k.dial(ctx, carrier, log)
	if err != nil {
		return nil, nil, k.explain(err)
	}
	select {
	case <-session.Ready():
		return session, ended, nil
	case err := <-ended:
		return nil, nil, k.explain(err)
	case <-ctx.Done():
		drain(ctx, session)
		<-ended //nolint:errcheck // it was told to
		return nil, nil, context.Cause(ctx)
	}
}

func (r *Client) setState(k *slot, s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[k] = s
}

func (r *Client) forget(k *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, k)
}
