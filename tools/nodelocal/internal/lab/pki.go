package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/tools/nodelocal/internal/layout"
)

// certificateLife is long: nothing renews these, and they only open a cluster of this machine.
const certificateLife = 10 * 365 * 24 * time.Hour

// issue writes a node's credentials to dir, signed by the cluster's authority: kubelet's and kube-proxy's kubeconfigs, and the
// certificate that kubelet shows to the API server.
func issue(pki, dir, server string, number int) error {
	caPEM, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(filepath.Join(pki, "ca.key"))
	if err != nil {
		return err
	}
	a, err := parseAuthority(caPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("read the cluster's authority: %w", err)
	}
	name := layout.NodeName(number)
	files := map[string][]byte{"ca.crt": caPEM}
	for file, subject := range map[string]pkix.Name{
		"kubelet.kubeconfig": {CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		"proxy.kubeconfig":   {CommonName: "system:kube-proxy"},
	} {
		cert, key, err := a.sign(&x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			return err
		}
		files[file] = kubeconfig("https://"+server, caPEM, cert, key)
	}
	files["server.crt"], files["server.key"], err = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{layout.NodeAddress(number)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func parseAuthority(certPEM, keyPEM []byte) (*authority, error) {
	cert, _ := pem.Decode(certPEM)
	key, _ := pem.Decode(keyPEM)
	if cert == nil || key == nil {
		return nil, errors.New("no PEM")
	}
	parsed, err := x509.ParseCertificate(cert.Bytes)
	if err != nil {
		return nil, err
	}
	if ec, err := x509.ParseECPrivateKey(key.Bytes); err == nil {
		return &authority{parsed, ec}, nil
	}
	other, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := other.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T", other)
	}
	return &authority{parsed, signer}, nil
}

// sign completes a template, and makes a key for it.
func (a *authority) sign(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(certificateLife)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

func kubeconfig(server string, ca, cert, key []byte) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: me}}]
clusters: [{name: lab, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: me, user: {client-certificate-data: %s, client-key-data: %s}}]
`, server, encode(ca), encode(cert), encode(key))
}
