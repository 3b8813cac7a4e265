// Command vaultlocal is a real HashiCorp Vault for tests: the upstream core and API with storage in memory, the KV engine and
// AppRole. The server is not for real work: its data are gone when it ends.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

// certLife of the certificate that each start makes.
const certLife = 24 * time.Hour

// ready is the line on stdout once it serves.
type ready struct {
	Address string `json:"address"`
	Token   string `json:"token"`
	CA      string `json:"ca"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "vaultlocal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	core, token, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = core.Shutdown() }()
	cert, ca, err := certificate()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler: vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core,
			ListenerConfig: &configutil.Listener{Address: listener.Addr().String()}}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := json.NewEncoder(os.Stdout).Encode(ready{Address: "https://" + listener.Addr().String(), Token: token, CA: ca}); err != nil {
		return fmt.Errorf("write address: %w", err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
		return server.Close()
	}
}

// start returns an unsealed Vault and its root token.
func start(ctx context.Context) (*vault.Core, string, error) {
	log := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Warn})
	storage, err := inmem.NewInmem(nil, log)
	if err != nil {
		return nil, "", fmt.Errorf("make storage: %w", err)
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical: storage, DisableMlock: true, Logger: log, BuiltinRegistry: builtins{},
		LogicalBackends:    map[string]logical.Factory{"kv": kv.Factory},
		CredentialBackends: map[string]logical.Factory{"approle": approle.Factory},
	})
	if err != nil {
		return nil, "", fmt.Errorf("make core: %w", err)
	}
	seal := &vault.SealConfig{SecretShares: 1, SecretThreshold: 1}
	made, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: seal, RecoveryConfig: &vault.SealConfig{}})
	if err != nil {
		return nil, "", fmt.Errorf("initialize: %w", err)
	}
	if open, err := core.Unseal(made.SecretShares[0]); err != nil || !open {
		return nil, "", errors.Join(errors.New("unseal"), err)
	}
	return core, made.RootToken, nil
}

// certificate returns one for loopback that is its own authority.
func certificate() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("make key: %w", err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vaultlocal"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(certLife), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

// builtins are the plugins that are linked in.
type builtins struct{}

func plugins(kind consts.PluginType) map[string]logical.Factory {
	switch kind {
	case consts.PluginTypeSecrets:
		return map[string]logical.Factory{"kv": kv.Factory}
	case consts.PluginTypeCredential:
		return map[string]logical.Factory{"approle": approle.Factory}
	}
	return nil
}

func (builtins) Contains(name string, kind consts.PluginType) bool {
	return plugins(kind)[name] != nil
}

func (builtins) Get(name string, kind consts.PluginType) (func() (any, error), bool) {
	factory := plugins(kind)[name]
	return func() (any, error) { return factory, nil }, factory != nil
}

func (builtins) Keys(kind consts.PluginType) (names []string) {
	for name := range plugins(kind) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (b builtins) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, b.Contains(name, kind)
}

func (builtins) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }
