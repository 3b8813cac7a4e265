// Package hubservice is what the hub's services other than the console have in common: an identity and a
// copy of the catalog, both had from the console and kept on disk; a client for the others;
// coordination; and the order in which all that starts and ends around the listener.
package hubservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/artifact/ticket"
	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/datadir"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/loopback"
	"fairlead.dev/platform/members"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
)

// Deps is what a service works with.
type Deps struct {
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
	// Coordinator is shared with the other services of the process; nil: the one of Config.RedisURL.
	Coordinator coordination.Coordinator
}

// Replica is one process of a service, or its part of one. New, then Serve, then Listen, then Run.
type Replica struct {
	Credential  *identity.ServiceCredential
	Catalog     *catalog.Catalog
	Coordinator coordination.Coordinator
	Audit       *audit.Recorder
	// Leave, if there is one, is called when Run is to end, while everything is still served: to hand
	// over what others can take. Leave returns soon after its context ends, which lasts LeaveLimit at most.
	Leave func(ctx context.Context)
	// LeaveLimit bounds Leave; 0: LeaveTime.
	LeaveLimit time.Duration

	service string
	secret  *hubsecret.File
	cfg     Config
	deps    Deps
	http    *http.Client
	relay   *client.Relay
	server  *server.Server
	close   func() error // of what is ours
}

// New takes the data folder for this process until Run has ended, opens what is in it, and dials nothing. The service
// is one of the hub's, by its name in package identity; kinds are what it follows of the catalog.
func New(service string, cfg Config, deps Deps, kinds ...consolev1.Kind) (r *Replica, err error) {
	lock, err := datadir.Take(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Release())
		}
	}()
	r = &Replica{
		service: service, cfg: cfg, deps: deps, secret: hubsecret.Open(cfg.HubSecretFile),
		Coordinator: deps.Coordinator, close: lock.Release,
	}
	r.secret.Log = deps.Log
	if r.http, err = client.New(client.Config{CAFile: cfg.HubCAFile}); err != nil {
		return nil, err
	}
	if r.relay, err = client.NewRelay(client.Config{CAFile: cfg.HubCAFile}); err != nil {
		return nil, err
	}
	identities := consolev1connect.NewIdentityServiceClient(r.http, cfg.ConsoleURL, client.Options()...)
	r.Credential, err = identity.NewServiceCredential(identity.ServiceCredentialConfig{
		Dir: r.Dir("identity"), Service: service, Secret: r.secret, Unbound: cfg.Unsigned.Accepted(),
	}, identities, deps.Log)
	if err != nil {
		return nil, err
	}
	catalogs := consolev1connect.NewCatalogServiceClient(r.http, cfg.ConsoleURL, r.Options()...)
	if r.Catalog, err = catalog.Open(r.Dir("catalog"), catalogs, deps.Log, kinds...); err != nil {
		return nil, err
	}
	audits := consolev1connect.NewAuditServiceClient(r.http, cfg.ConsoleURL, r.Options()...)
	if r.Audit, err = audit.New(r.Dir("audit"), audits, deps.Telemetry.Registry, deps.Log); err != nil {
		return nil, err
	}
	if r.Coordinator == nil {
		if r.Coordinator, err = cfg.openCoordinator(); err != nil {
			return nil, err
		}
		closeOurs := r.Coordinator.Close
		r.close = func() error { return errors.Join(closeOurs(), lock.Release()) }
	}
	if cfg.Unsigned.Accepted() {
		deps.Log.Warn("older versions are accepted", "detail", identity.AcceptsUnsigned)
	}
	r.Coordinator = members.Authenticate(r.Coordinator, members.Config{Secret: r.secret, Unsigned: cfg.Unsigned.Accepted(), Plain: r.plain, Log: deps.Log})
	return r, nil
}

// Dir is a folder of the service.
func (r *Replica) Dir(name string) string { return filepath.Join(r.cfg.DataDir, name) }

// HTTP is the client for Connect services of the hub, with Options.
func (r *Replica) HTTP() *http.Client { return r.http }

// Options are those of Connect clients that call the console as this service.
func (r *Replica) Options() []connect.ClientOption { return r.OptionsTo(identity.ServiceConsole) }

// OptionsTo are those of Connect clients that call another service as this one: the token is for that service only.
func (r *Replica) OptionsTo(service string) []connect.ClientOption {
	return append(client.Options(), client.WithToken(r.Credential.SendTo(service)))
}

// Secret is the hub secret.
func (r *Replica) Secret() *hubsecret.File { return r.secret }

// Tickets are made and checked with the hub secret.
func (r *Replica) Tickets() ticket.Signer { return ticket.Signer{Secret: r.secret} }

// Relay hands users' requests on to other replicas of this service, as this service.
func (r *Replica) Relay() http.RoundTripper {
	return client.Authorize(r.relay, r.Credential.SendTo(r.service))
}

// BytesTo is the client for plain requests to another service of the hub, made as this one.
func (r *Replica) BytesTo(service string) *http.Client {
	return &http.Client{Transport: client.Authorize(r.http.Transport, r.Credential.SendTo(service)), CheckRedirect: r.http.CheckRedirect}
}

// plain tells whether the others reach this service without TLS, at loopback: then the whole hub is on this machine.
func (r *Replica) plain() bool {
	u, err := url.Parse(r.Advertised())
	return err == nil && u.Scheme == "http" && loopback.Host(u.Hostname())
}

// Serve says what the listener serves, to whom, and from when on. After an error nothing is left to end.
func (r *Replica) Serve(policy identity.Policy, ready func() error, mounts ...server.Mount) (err error) {
	refusals := &audit.Refusals{Recorder: r.Audit, Log: r.deps.Log}
	r.server, err = server.New(r.cfg.Server, server.Deps{
		Name: r.service, Log: r.deps.Log, Telemetry: r.deps.Telemetry, Verifier: r.Credential, Policy: policy,
		Rejected: refusals.Token, Ready: ready, Note: r.note, Unsigned: r.cfg.Unsigned.Accepted(), DataDir: r.cfg.DataDir,
		Debugged: audit.Debugged(r.Audit), Secret: r.secret,
	}, mounts...)
	if err != nil {
		return errors.Join(err, r.close())
	}
	return nil
}

// Listen binds the address, so that URL answers.
func (r *Replica) Listen() error { return r.server.Listen() }

// URL is where the service is reached on this machine.
func (r *Replica) URL() string { return r.server.URL() }

// Ready says why others should ask another replica: without an identity or a catalog nothing can be
// answered. The identity and the catalog may be those on the disk.
func (r *Replica) Ready() error { return errors.Join(r.Credential.Ready(), r.Catalog.Ready()) }

// noteTime bounds the question to Redis for what /readyz says besides.
const noteTime = 2 * time.Second

// note says what observers should know of the replica though it is ready.
func (r *Replica) note() string {
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	notes := make([]string, 0, 2)
	if err := r.Coordinator.Ping(ctx); err != nil {
		notes = append(notes, "it can't agree with the other replicas: "+err.Error())
	}
	if text := r.stale(); text != "" {
		notes = append(notes, text)
	}
	return strings.Join(notes, "; ")
}

// stale says how old the copy of the catalog may be, if the console does not tell.
func (r *Replica) stale() string {
	since, silent := r.Catalog.Stale()
	age := max(0, time.Since(since)).Round(time.Second)
	switch {
	case r.Catalog.Ready() != nil, r.Catalog.Current() && !silent:
		return ""
	case r.Catalog.Current():
		return fmt.Sprintf("nothing was heard from the console for %s: what it said before is served", age)
	}
	return fmt.Sprintf("the console was not heard since the start: the catalog from the disk is served, which was written %s ago", age)
}

// Advertised is where the others reach this replica.
func (r *Replica) Advertised() string {
	if r.cfg.AdvertiseURL != "" {
		return r.cfg.AdvertiseURL
	}
	return r.URL()
}

// LeaveTime is what Leave takes at most, unless LeaveLimit says else: with the end of the listener after it, all is
// over within the 30 s that Kubernetes gives.
const LeaveTime = 15 * time.Second

// Run serves until ctx ends; then it leaves, and only then the listener drains. The functions of behind end when the
// listener has drained. If one of them fails everything ends: none ends by itself.
func (r *Replica) Run(ctx context.Context, behind ...func(context.Context) error) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	front, cut := context.WithCancel(inner)
	defer cut()
	var group errgroup.Group
	for _, run := range append([]func(context.Context) error{r.Credential.Run, r.Catalog.Run, r.Audit.Run}, behind...) {
		group.Go(func() error {
			err := run(inner)
			if err != nil {
				cut()
			}
			return err
		})
	}
	leaving := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(leaving)
		r.leave(front)
		cut()
	})
	err := r.server.Run(front)
	if !unwatch() {
		<-leaving
	}
	stop()
	err = errors.Join(err, group.Wait(), r.close())
	r.http.CloseIdleConnections()
	r.relay.CloseIdleConnections()
	return err
}

func (r *Replica) leave(ctx context.Context) {
	if r.Leave == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.LeaveLimit, LeaveTime))
	defer cancel()
	r.Leave(ctx)
}
