package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// checkCertEvery bounds how often the files are looked at: renewals are rare, handshakes are not.
const checkCertEvery = 10 * time.Second

// certificate serves a certificate from files and takes in a renewed one without a restart. A file that can't be read
// later is reported, and the last good certificate stays.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	now               func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]fileStamp
	checked time.Time
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// TLS is what a listener of this house has: HTTP/2 and HTTP/1.1 over TLS 1.2 or later, with a certificate that is taken
// in anew when its files change.
func TLS(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	cert, err := loadCertificate(certFile, keyFile, log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.get, NextProtos: []string{"h2", "http/1.1"}}, nil
}

func loadCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log, now: time.Now}
	stamp, err := c.stampFiles()
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate %s: %w", certFile, err)
	}
	c.current, c.stamp, c.checked = &cert, stamp, c.now()
	return c, nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Sub(c.checked) >= checkCertEvery {
		c.checked = c.now()
		c.reload()
	}
	return c.current, nil
}

func (c *certificate) reload() {
	stamp, err := c.stampFiles()
	if err == nil && stamp == c.stamp {
		return
	}
	if err == nil {
		var cert tls.Certificate
		if cert, err = tls.LoadX509KeyPair(c.certFile, c.keyFile); err == nil {
			c.current, c.stamp = &cert, stamp
			c.log.Info("TLS certificate reloaded", "file", c.certFile)
			return
		}
	}
	c.log.Error("TLS certificate can't be reloaded; the last good one is served", "file", c.certFile, "err", err)
}

func (c *certificate) stampFiles() (stamp [2]fileStamp, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return stamp, fmt.Errorf("TLS certificate: %w", err)
		}
		stamp[i] = fileStamp{info.ModTime(), info.Size()}
	}
	return stamp, nil
}
