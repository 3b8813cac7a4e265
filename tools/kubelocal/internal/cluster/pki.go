package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
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
	"time"
)

// certificateLife is long: nothing renews these, and they only open a cluster on loopback.
const certificateLife = 10 * 365 * 24 * time.Hour

const (
	ca           = "ca"
	frontProxyCA = "front-proxy-ca"
	adminCert    = "admin"

	kubeletClient = "kube-apiserver-kubelet-client" // the API server towards the kubelet
)

// leaf describes one certificate of a cluster. Clients are known by their common name, with groups
// as organizations; servers by their hosts.
type leaf struct {
	name   string
	signer string
	user   string
	groups []string
	hosts  []string
}

// leaves lists all of them. Group system:masters passes every authorization check: the controller
// manager is in it so that all its controllers can work under one user, without a service account
// each; kwok, because it plays all nodes.
func leaves(bind string) []leaf {
	return []leaf{
		{name: "apiserver", signer: ca, user: "kube-apiserver", hosts: []string{
			"localhost", "127.0.0.1", "::1", "10.96.0.1", bind,
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{name: "kubelet", signer: ca, user: "kwok", hosts: []string{"localhost", "127.0.0.1"}},
		{name: adminCert, signer: ca, user: "kubernetes-admin", groups: []string{"system:masters"}},
		{name: "kube-controller-manager", signer: ca, user: "system:kube-controller-manager", groups: []string{"system:masters"}},
		{name: "kube-scheduler", signer: ca, user: "system:kube-scheduler"},
		{name: "kwok", signer: ca, user: "kwok", groups: []string{"system:masters"}},
		{name: "apiserver-kubelet-client", signer: ca, user: kubeletClient, groups: []string{"system:masters"}}, // real kubelets ask whether it may
		{name: "front-proxy-client", signer: frontProxyCA, user: "front-proxy-client"},
	}
}

// pki reads certificates and keys (PEM) by name.
type pki struct{ dir string }

func (p pki) cert(name string) ([]byte, error) { return os.ReadFile(filepath.Join(p.dir, name+".crt")) }
func (p pki) key(name string) ([]byte, error)  { return os.ReadFile(filepath.Join(p.dir, name+".key")) }

// ensurePKI returns the credentials in dir, and makes them all on the first start. The credentials appear in one step,
// so that a start that was cut short leaves none. The API server's certificate holds for the address bind.
func ensurePKI(dir, bind string) (pki, error) {
	_, err := os.Stat(dir)
	if err == nil {
		return pki{dir}, pki{dir}.holdsFor(bind)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return pki{}, fmt.Errorf("find the certificates: %w", err)
	}
	temp := dir + ".new"
	if err := errors.Join(os.RemoveAll(temp), os.Mkdir(temp, 0o700)); err != nil {
		return pki{}, fmt.Errorf("make the certificates' folder: %w", err)
	}
	if err := issueAll(temp, bind); err != nil {
		return pki{}, fmt.Errorf("issue certificates: %w", err)
	}
	return pki{dir}, os.Rename(temp, dir)
}

// holdsFor checks that the API server's certificate, which an earlier start made, holds for an address.
func (p pki) holdsFor(bind string) error {
	text, err := p.cert("apiserver")
	if err != nil {
		return fmt.Errorf("read the API server's certificate: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("%s: no certificate in it; remove the cluster's folder to start anew", filepath.Join(p.dir, "apiserver.crt"))
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("parse the API server's certificate: %w", err)
	}
	if err := cert.VerifyHostname(bind); err != nil {
		return fmt.Errorf("--bind %s: the certificates in %s are for another address (%w); use that one, or remove the cluster's folder to start anew", bind, p.dir, err)
	}
	return nil
}

func issueAll(dir, bind string) error {
	authorities := map[string]*authority{}
	for _, name := range []string{ca, frontProxyCA} {
		a, err := newAuthority(dir, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		authorities[name] = a
	}
	for _, l := range leaves(bind) {
		if err := authorities[l.signer].issue(dir, l); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	_, err := newKey(dir, "service-accounts") // signs tokens; needs no certificate
	return err
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(dir, name string) (*authority, error) {
	key, err := newKey(dir, name)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "kubelocal " + name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	cert, err := sign(dir, name, template, template, key, key)
	return &authority{cert: cert, key: key}, err
}

func (a *authority) issue(dir string, l leaf) error {
	key, err := newKey(dir, l.name)
	if err != nil {
		return err
	}
	template, err := newTemplate(pkix.Name{CommonName: l.user, Organization: l.groups})
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(l.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range l.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	_, err = sign(dir, l.name, template, a.cert, key, a.key)
	return err
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // a clock that is set back a little does no harm
		NotAfter:     now.Add(certificateLife),
	}, nil
}

func sign(dir, name string, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if err := writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func newKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("draw a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, writePEM(filepath.Join(dir, name+".key"), "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// tlsConfig is that of the administrator's client.
func (p pki) tlsConfig() (*tls.Config, error) {
	caPEM, err1 := p.cert(ca)
	certPEM, err2 := p.cert(adminCert)
	keyPEM, err3 := p.key(adminCert)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("read the certificate authority: no certificate in it")
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, nil
}
