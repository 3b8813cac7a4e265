package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/retry"
)

const (
	// PollInterval is the mean time between two polls of the trust bundle; each wait is jittered by a fifth.
	PollInterval = 10 * time.Second
	// firstTokenWait is how long a call waits for the first token of a service that has just started.
	firstTokenWait = 5 * time.Second
	// maxBundleBytes bounds the bundle on disk: 64 keys and 10^5 revocations fit.
	maxBundleBytes = 16 << 20
)

// ServiceCredentialConfig says whose identity a ServiceCredential keeps.
type ServiceCredentialConfig struct {
	// Dir on disk for the service's token and the trust bundle, both 0600.
	Dir string
	// Service is one of ServiceGitcache, ServiceDistributor, ServiceTunnel.
	Service string
	// Secret is the hub secret. Its file is read whenever it is needed, so that it may change.
	Secret *hubsecret.File
	// Unbound accepts, for one upgrade, tokens of services that say not whom they are for, and tokens of agents that
	// are bound to no key.
	Unbound bool
}

// ServiceCredential gives a hub service its identity: it exchanges the hub secret for a token, renews it,
// polls the trust bundle, and keeps both on disk, so that a restart with the console down can
// verify and call. A ServiceCredential is the service's Verifier and TokenSource.
type ServiceCredential struct {
	cfg      ServiceCredentialConfig
	client   consolev1connect.IdentityServiceClient
	log      *slog.Logger
	tokens   *TokenFile
	renewer  *Renewer
	verifier BundleVerifier
	unknown  chan struct{} // a token with an unknown key was seen: poll now
	unsaved  bool          // the disk refused the last bundle; poll's own
	audience Audience
	proofs   Proofs

	mu      sync.Mutex // guards what follows
	pollErr error
	heard   time.Time // when the console answered a poll last; or the start
}

// NewServiceCredential reads what Dir holds. The client needs no credential of its own. Run starts the rest.
func NewServiceCredential(cfg ServiceCredentialConfig, client consolev1connect.IdentityServiceClient, log *slog.Logger) (*ServiceCredential, error) {
	if cfg.Dir == "" || cfg.Secret == nil {
		return nil, errors.New("credential: a folder and the hub secret are needed")
	}
	if id := (Identity{Kind: KindService, Name: cfg.Service}); !id.Has(RoleHub) {
		return nil, fmt.Errorf("credential: %q is not a service of the hub", cfg.Service)
	}
	k := &ServiceCredential{
		cfg: cfg, client: client, log: log,
		tokens:   NewTokenFile(filepath.Join(cfg.Dir, "token")),
		unknown:  make(chan struct{}, 1),
		audience: Audience{Service: cfg.Service, Secret: cfg.Secret, Unbound: cfg.Unbound},
		proofs:   Proofs{Audience: cfg.Service, AcceptUnbound: cfg.Unbound},
		heard:    time.Now(),
	}
	k.renewer = NewRenewer(RenewerConfig{Tokens: k.tokens, Client: client, Header: k.SendTo(ServiceConsole), Obtain: k.exchange, Log: log})
	if err := k.loadBundle(); err != nil {
		// Worth as much as none: the console has a good one.
		log.Warn("trust bundle on disk can't be used", "err", err)
	}
	return k, nil
}

func (k *ServiceCredential) bundlePath() string { return filepath.Join(k.cfg.Dir, "trust-bundle.json") }

func (k *ServiceCredential) loadBundle() error {
	if err := durable.Sweep(k.cfg.Dir); err != nil {
		return err
	}
	info, err := os.Stat(k.bundlePath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Size() > maxBundleBytes {
		return fmt.Errorf("%s has %d bytes: at most %d are possible", k.bundlePath(), info.Size(), maxBundleBytes)
	}
	data, err := os.ReadFile(k.bundlePath())
	if err != nil {
		return err
	}
	b, err := ParseBundle(data)
	if err != nil {
		return err
	}
	return k.verifier.Update(b)
}

// Run works until ctx ends. Run returns nil then.
func (k *ServiceCredential) Run(ctx context.Context) error {
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renewing.Go(func() { _ = k.renewer.Run(ctx) }) // ends with ctx, without an error
	k.poll(ctx)
	return nil
}

// Ready says why the service can't verify or call yet, or nil. Once it is ready it stays so,
// whatever becomes of the console.
func (k *ServiceCredential) Ready() error {
	if _, err := k.tokens.Token(context.Background()); err != nil {
		return fmt.Errorf("identity: %w", errors.Join(err, k.renewer.Err()))
	}
	if k.verifier.trust.Load() == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		return fmt.Errorf("identity: %w", errors.Join(ErrNotReady, k.pollErr))
	}
	return nil
}

// Verify implements Verifier.
func (k *ServiceCredential) Verify(token string) (Identity, error) {
	id, err := k.verifier.Verify(token)
	if errors.Is(err, errUnknownKey) {
		select {
		case k.unknown <- struct{}{}:
		default:
		}
	}
	return id, err
}

// VerifyAudience implements AudienceVerifier.
func (k *ServiceCredential) VerifyAudience(token string, header http.Header) error {
	return k.audience.VerifyAudience(token, header)
}

// BeReplica names this replica, for calls that are meant for it alone. Call it before anything is served.
func (k *ServiceCredential) BeReplica(id string) { k.audience.Replica = id }

// SendTo is the source of this service's tokens for calls of another one.
func (k *ServiceCredential) SendTo(service string) HeaderSource {
	return SendTo(service, k, k.cfg.Secret)
}

// VerifyProof implements ProofVerifier.
func (k *ServiceCredential) VerifyProof(id Identity, token, proof string) error {
	return k.proofs.VerifyProof(id, token, proof)
}

// Token implements TokenSource. Before the first token it waits a few seconds.
func (k *ServiceCredential) Token(ctx context.Context) (string, error) {
	token, err := k.tokens.Token(ctx)
	if !errors.Is(err, ErrNoToken) {
		return token, err
	}
	patience := time.NewTimer(firstTokenWait)
	defer patience.Stop()
	select {
	case <-k.tokens.first:
		return k.tokens.Token(ctx)
	case <-ctx.Done():
		return "", ctx.Err()
	case <-patience.C:
		return "", errors.Join(err, k.renewer.Err())
	}
}

// exchange turns the hub secret into a token.
func (k *ServiceCredential) exchange(ctx context.Context) (string, error) {
	secret, err := k.cfg.Secret.First()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := k.client.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
		HubSecret: secret,
		Subject:   &consolev1.ExchangeHubSecretRequest_Service{Service: k.cfg.Service},
	})
	switch code := connect.CodeOf(err); {
	case err == nil:
	case code == connect.CodeUnauthenticated:
		return "", fmt.Errorf("exchange hub secret: %w. Compare this service's hub secret with the console's", err)
	case code == connect.CodeUnimplemented: // 404
		return "", fmt.Errorf("exchange hub secret: %w. --console-url leads to something else than a console: correct it",
			err)
	default:
		return "", fmt.Errorf("exchange hub secret: %w", err)
	}
	return answer.GetToken().GetToken(), nil
}

// poll keeps the trust bundle current.
func (k *ServiceCredential) poll(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		err := k.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		k.report(ctx, err)
		wait := retry.Between(PollInterval*4/5, PollInterval*6/5)
		if err == nil {
			failures = 0
		} else {
			failures++
			// A service that has just started can't serve before its first bundle: ask sooner.
			wait = min(wait, retryPause(failures, err))
		}
		k.await(ctx, wait)
	}
}

// await pauses between polls. A token signed by a key that is not known yet ends the pause, but
// not its first second: anybody can make up such tokens.
func (k *ServiceCredential) await(ctx context.Context, d time.Duration) {
	const least = time.Second
	began := time.Now()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-k.unknown:
		retry.Sleep(ctx, min(d, least)-time.Since(began))
	}
}

func (k *ServiceCredential) fetch(ctx context.Context) error {
	token, err := k.Token(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ctx, err = authorized(ctx, k.SendTo(ServiceConsole), token)
	if err != nil {
		return err
	}
	answer, err := k.client.GetTrustBundle(ctx, &consolev1.GetTrustBundleRequest{})
	if err != nil {
		if connect.CodeOf(err) == connect.CodeUnauthenticated {
			k.renewer.Kick()
		}
		return fmt.Errorf("fetch trust bundle: %w", err)
	}
	k.mu.Lock()
	k.heard = time.Now()
	k.mu.Unlock()
	return k.take(ctx, BundleFromProto(answer))
}

// Heard is when the console last answered a poll; before the first answer: when the service was started. While all is
// well that is no more than PollInterval and a fifth ago.
func (k *ServiceCredential) Heard() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.heard
}

func (k *ServiceCredential) take(ctx context.Context, b Bundle) error {
	before := k.verifier.trust.Load()
	if err := k.verifier.Update(b); err != nil {
		return err
	}
	if before != nil && before.bundle.same(b) && !k.unsaved {
		return nil
	}
	data, err := b.Marshal()
	if err == nil {
		err = durable.WriteFile(k.bundlePath(), data, 0o600)
	}
	k.unsaved = err != nil
	if err != nil {
		// In force all the same; but a restart with the console down would go back to an older one.
		k.log.WarnContext(ctx, "trust bundle is kept in memory only: free or repair the disk", "err", err)
	}
	return nil
}

func (k *ServiceCredential) report(ctx context.Context, err error) {
	k.mu.Lock()
	before := k.pollErr
	k.pollErr = err
	k.mu.Unlock()
	switch {
	case err != nil && before == nil:
		k.log.WarnContext(ctx, "poll trust bundle: trying on", "err", err)
	case err == nil && before != nil:
		k.log.InfoContext(ctx, "poll trust bundle: works again")
	}
}
