// Package localca keeps a private certificate authority and one server certificate on disk, for
// an installation that has no certificates of its own: `fairlead up`, tests, a first try-out.
//
// A reader of the folder can impersonate the hub to those who trust this authority. Keys are readable by their owner
// only.
package localca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fairlead.dev/platform/durable"
)

const (
	caLife     = 10 * 365 * 24 * time.Hour
	serverLife = 90 * 24 * time.Hour
	// Renewed when less than this is left: weeks in which a restart (which calls Ensure) is
	// likely, and no client ever meets an expired certificate after one.
	caMargin     = 365 * 24 * time.Hour
	serverMargin = 30 * 24 * time.Hour
	// Clocks of two machines differ.
	backdate = time.Hour
)

// Files names the files that a server and its clients need.
type Files struct {
	CAFile   string // Certificate of the authority, PEM: what clients trust.
	CertFile string // Certificate of the server, PEM.
	KeyFile  string // Key of the server, PEM, mode 0600.
}

// Ensure makes dir hold an authority and a server certificate that is good for all of hosts (names or IP
// addresses) and returns their files. Existing files are kept while they are valid for long enough and cover the hosts.
// Safe to repeat, also while a server is using the files: each is replaced atomically. Ensure is not meant for two
// processes at once.
func Ensure(dir string, hosts ...string) (Files, error) {
	return ensure(dir, "server", time.Now(), hosts)
}

// EnsureNamed is Ensure with another certificate of the same authority, in NAME.crt and NAME.key.
func EnsureNamed(dir, name string, hosts ...string) (Files, error) {
	return ensure(dir, name, time.Now(), hosts)
}

func ensure(dir, name string, now time.Time, hosts []string) (Files, error) {
	if len(hosts) == 0 {
		return Files{}, errors.New("local certificate: no host given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Files{}, fmt.Errorf("local certificate: %w", err)
	}
	files := Files{
		CAFile:   filepath.Join(dir, "ca.crt"),
		CertFile: filepath.Join(dir, name+".crt"),
		KeyFile:  filepath.Join(dir, name+".key"),
	}
	ca, err := ensureCA(files.CAFile, filepath.Join(dir, "ca.key"), now)
	if err != nil {
		return Files{}, fmt.Errorf("local certificate authority in %s: %w", dir, err)
	}
	if err := ensureServer(ca, files, now, hosts); err != nil {
		return Files{}, fmt.Errorf("local certificate in %s: %w", dir, err)
	}
	return files, nil
}

type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func ensureCA(certFile, keyFile string, now time.Time) (pair, error) {
	ca, err := load(certFile, keyFile)
	if err == nil && ca.cert.IsCA && valid(ca.cert, now, caMargin) {
		return ca, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errUnusable) {
		return pair{}, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Fairlead local authority"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	return issue(template, nil, certFile, keyFile)
}

func ensureServer(ca pair, files Files, now time.Time, hosts []string) error {
	have, err := load(files.CertFile, files.KeyFile)
	if err == nil && valid(have.cert, now, serverMargin) && covers(have.cert, hosts) && have.cert.CheckSignatureFrom(ca.cert) == nil {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errUnusable) {
		return err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "Fairlead"},
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(serverLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	_, err = issue(template, &ca, files.CertFile, files.KeyFile)
	return err
}

func valid(cert *x509.Certificate, now time.Time, margin time.Duration) bool {
	return now.After(cert.NotBefore) && now.Add(margin).Before(cert.NotAfter)
}

func covers(cert *x509.Certificate, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return cert.VerifyHostname(host) != nil })
}

// issue makes a key and a certificate, signed by parent or (nil) by itself, and writes both.
func issue(template *x509.Certificate, parent *pair, certFile, keyFile string) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make key: %w", err)
	}
	// 128 random bits: serial numbers of one authority must not repeat.
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return pair{}, fmt.Errorf("make serial number: %w", err)
	}
	signer, issuer := crypto.Signer(key), template
	if parent != nil {
		signer, issuer = parent.key, parent.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("read back certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("encode key: %w", err)
	}
	// The key first: a crash in between leaves a certificate that does not fit its key, which
	// load recognises and the next Ensure replaces.
	if err := durable.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600); err != nil {
		return pair{}, err
	}
	if err := durable.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return pair{}, err
	}
	return pair{cert, key}, nil
}

// errUnusable marks files that are there and don't hold a key and its certificate.
var errUnusable = errors.New("not a key with its certificate")

func load(certFile, keyFile string) (pair, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return pair{}, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return pair{}, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return pair{}, errUnusable
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return pair{}, errUnusable
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return pair{}, errUnusable
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(cert.PublicKey) {
		return pair{}, errUnusable
	}
	return pair{cert, signer}, nil
}
