package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/localca"
)

// listeners have the same certificate, as replicas behind one name do.
type listeners struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

func newListeners(t *testing.T) listeners {
	t.Helper()
	files, err := localca.Ensure(t.TempDir(), "hub.example")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(files.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return listeners{certificate, roots}
}

func (l listeners) replica(secret *hubsecret.File, now func() time.Time) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{l.certificate}}
	resume(config, secret, now)
	return config
}

func (l listeners) agent(newest uint16) *tls.Config {
	return &tls.Config{
		RootCAs: l.roots, ServerName: "hub.example", MinVersion: tls.VersionTLS12, MaxVersion: newest,
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
}

// resumes says whether a connection resumes the session of the one before.
func resumes(t *testing.T, server, client *tls.Config) bool {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	ended := make(chan error, 1)
	go func() {
		s := tls.Server(far, server)
		_, err := s.Write([]byte("x")) // behind the handshake and its tickets
		ended <- err
	}()
	c := tls.Client(near, client)
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return c.ConnectionState().DidResume
}

func TestAReplicaResumesTheSessionsOfAnother(t *testing.T) {
	t.Parallel()
	l, secret := newListeners(t), hubsecret.Text("a hub secret of some length")
	var clock atomic.Int64
	clock.Store(time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC).UnixNano())
	now := func() time.Time { return time.Unix(0, clock.Load()) }
	ahead := func() time.Time { return now().Add(sessionPeriod) }
	agent := l.agent(tls.VersionTLS13)
	if resumes(t, l.replica(secret, ahead), agent) {
		t.Error("the first connection resumes something")
	}
	one := l.replica(secret, now)
	if !resumes(t, one, agent) || !resumes(t, l.replica(secret, now), agent) {
		t.Error("a replica does not know the session of another one")
	}
	if resumes(t, l.replica(hubsecret.Text("the secret of another hub"), now), agent) {
		t.Error("another hub knows the session")
	}
	if resumes(t, one, agent) || !resumes(t, one, agent) {
		t.Error("a session of another hub is resumed, or one of this hub is not")
	}
	clock.Add(int64(keptPeriods * sessionPeriod))
	if !resumes(t, l.replica(secret, now), agent) {
		t.Error("a ticket of yesterday is not taken")
	}
	clock.Add(int64((keptPeriods + 1) * sessionPeriod))
	if resumes(t, one, agent) {
		t.Error("a ticket is taken for ever")
	}
	if !resumes(t, l.replica(secret, now), agent) {
		t.Error("a replica that has run for long makes tickets with an old key")
	}
}

// Without a key exchange of its own a resumed session can be read later by somebody who learns the secret.
func TestOldVersionsOfTLSGetNoTickets(t *testing.T) {
	t.Parallel()
	l := newListeners(t)
	replica, agent := l.replica(hubsecret.Text("a hub secret of some length"), time.Now), l.agent(tls.VersionTLS12)
	for range 2 {
		if resumes(t, replica, agent) {
			t.Error("a session of TLS 1.2 is resumed")
		}
	}
}

func TestSessionsAreResumedWhileTheSecretCannotBeRead(t *testing.T) {
	t.Parallel()
	l, file := newListeners(t), filepath.Join(t.TempDir(), "gone")
	replica, agent := l.replica(hubsecret.Open(file), time.Now), l.agent(tls.VersionTLS13)
	if resumes(t, replica, agent) || !resumes(t, replica, agent) {
		t.Error("a process without the secret resumes no session of its own")
	}
}
