package server

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"fairlead.dev/platform/hubsecret"
)

const (
	// A ticket is made with the key of a period, and taken as long as that is among the last keptPeriods: an agent that
	// comes back within a day resumes its session, at any replica.
	sessionPeriod = 8 * time.Hour
	keptPeriods   = 3
	// sessionLook is how often a new period, or another secret, is looked for.
	sessionLook = time.Minute
)

// sessions has replicas resume each other's TLS sessions: keys of tickets come of the hub secret and the time. A
// handshake that resumes costs no signature, and its client verifies no certificate. The keys open no session of TLS
// 1.3, which has a key exchange of its own in each handshake; older versions get no tickets, since whoever learns the
// secret later could read what was recorded.
type sessions struct {
	secret *hubsecret.File
	now    func() time.Time
	config *tls.Config
	older  *tls.Config // for clients without TLS 1.3

	mu     sync.Mutex // guards what follows
	looked time.Time
	newest []byte // key
}

// resume has a listener's configuration resume sessions by the hub secret.
func resume(config *tls.Config, secret *hubsecret.File, now func() time.Time) {
	s := &sessions{secret: secret, now: now, config: config, older: config.Clone()}
	s.older.SessionTicketsDisabled = true
	config.GetConfigForClient = s.of
}

// of implements tls.Config.GetConfigForClient; nil is the configuration itself.
func (s *sessions) of(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
		return s.older, nil
	}
	s.refresh()
	return nil, nil //nolint:nilnil // as documented there
}

// refresh sets the keys of this time. While the secret can't be read those of before stay, or at first those that the
// process made for itself.
func (s *sessions) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.looked.IsZero() && now.Sub(s.looked) < sessionLook {
		return
	}
	s.looked = now
	period := now.Unix() / int64(sessionPeriod/time.Second)
	var keys [][32]byte
	// The next one, too: the clock of another replica may be ahead. The first is used for new tickets.
	for _, of := range append([]int64{period, period + 1}, lastPeriods(period)...) {
		key, err := s.secret.Sign(hubsecret.Sessions, binary.BigEndian.AppendUint64(nil, uint64(of)))
		if err != nil {
			return
		}
		keys = append(keys, [32]byte(key))
	}
	if !bytes.Equal(s.newest, keys[0][:]) {
		s.newest = bytes.Clone(keys[0][:])
		s.config.SetSessionTicketKeys(keys)
	}
}

// lastPeriods are those before a period whose tickets are still taken, the newest first.
func lastPeriods(period int64) (before []int64) {
	for i := range int64(keptPeriods) {
		before = append(before, period-1-i)
	}
	return before
}
