package gitssh

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	// handshakeTime is for the exchange of keys and the login, which some hosts are slow at.
	handshakeTime = 20 * time.Second
	// partingTime is for a host's last words and its exit status.
	partingTime = 2 * time.Second
)

// sshCommand is git-upload-pack running on a host. Close ends it, its connection and all that waits.
type sshCommand struct {
	remote  upstream.Remote
	signer  ssh.Signer
	client  *ssh.Client
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	stderr  gitwire.Said
	// answered tells that anything came, read by the one who reads.
	answered bool
	ended    chan struct{} // closed when the command is gone and all it said is here
	unwatch  func() bool
}

// openCommand connects, logs in and starts git-upload-pack, to be answered in a version of the protocol; "": 0. When
// ctx ends so does the connection.
func (s *SSH) openCommand(ctx context.Context, r upstream.Remote, version string) (*sshCommand, error) {
	command, err := uploadPackCommand(r.URL)
	if err != nil {
		return nil, err
	}
	if r.Proxy != nil {
		return nil, upstream.Refusal("a proxy for ssh is not supported. Use an https:// url, or take the proxy out of the source")
	}
	login, err := s.keys.loginOf(r)
	if err != nil {
		return nil, err
	}
	address := upstream.HostPort(r.URL)
	conn, err := s.addresses.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	upstream.CountRequest(ctx)
	unwatch := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c := &sshCommand{remote: r, signer: login.signer, ended: make(chan struct{}), unwatch: unwatch}
	if c.client, err = shakeHands(conn, address, login.clientConfig(r, address)); err != nil {
		unwatch()
		_ = conn.Close()
		return nil, handshakeError(ctx, r, login, err)
	}
	if err := c.startCommand(command, version); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func shakeHands(conn net.Conn, address string, config *ssh.ClientConfig) (*ssh.Client, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

func (c *sshCommand) startCommand(command, version string) (err error) {
	if c.session, err = c.client.NewSession(); err != nil {
		close(c.ended)
		return fmt.Errorf("open session: %w", err)
	}
	c.session.Stderr = &c.stderr
	if c.in, err = c.session.StdinPipe(); err == nil {
		c.out, err = c.session.StdoutPipe()
	}
	if err == nil && version != "" {
		// Without an answer: many hosts take no variables, and to wait for them to say so is a round trip.
		_, err = c.session.SendRequest("env", false, ssh.Marshal(struct{ Name, Value string }{gitwire.ProtocolVariable, version}))
	}
	if err == nil {
		err = c.session.Start(command)
	}
	if err != nil {
		close(c.ended)
		return fmt.Errorf("start %s: %w", gitwire.UploadPack, err)
	}
	go func() {
		defer close(c.ended)
		_ = c.session.Wait() // its output tells more than its status
	}()
	return nil
}

func (c *sshCommand) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	c.answered = c.answered || n > 0
	return n, err
}

// waitForWords gives the command a moment to say its last words.
func (c *sshCommand) waitForWords() {
	timer := time.NewTimer(partingTime)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
	}
}

// Close ends the connection. When it returns, nothing of it is left.
func (c *sshCommand) Close() error {
	c.unwatch()
	err := c.client.Close()
	_ = c.client.Wait()
	<-c.ended
	return err
}
