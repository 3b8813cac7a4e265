package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/desired"
)

// Downloader gives the content of services from the store on disk, and fetches what is not there.
type Downloader struct {
	store   *artifact.Store
	content *deliveryclient.Content
	desired *desired.Store
	tracer  trace.Tracer
	slots   chan struct{}
}

// downloads bounds what is fetched at the same time: a new agent must not ask for everything at once.
const downloads = 8

// NewDownloader returns a downloader over the store.
func NewDownloader(store *artifact.Store, content *deliveryclient.Content, wanted *desired.Store, tracer trace.Tracer) *Downloader {
	return &Downloader{store: store, content: content, desired: wanted, tracer: tracer, slots: make(chan struct{}, downloads)}
}

// Has tells whether the content of a service is on the disk.
func (d *Downloader) Has(service desired.Service) bool { return d.store.Has(service.Artifact) }

// Prepare brings the content of a service to the disk, so that Open need not wait for the hub. A full
// disk is no error: then Open asks the hub.
func (d *Downloader) Prepare(ctx context.Context, service desired.Service) error {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, span := telemetry.Of(ctx, service.Traceparent, d.tracer, "agent.download", trace.WithAttributes(
		attribute.String("service", service.Name), attribute.String("digest", string(service.Artifact))))
	defer span.End()
	d.store.Pin(d.desired.Artifacts())
	blob, err := d.store.Fill(ctx, service.Artifact, d.fetch(service))
	if errors.Is(err, artifact.ErrNoSpace) {
		return nil
	}
	if err != nil {
		span.SetStatus(codes.Error, "no content")
		return fmt.Errorf("get the manifests from the hub: %w", err)
	}
	return blob.Close()
}

// Open returns the verified content of a service. Content that is not on the disk comes straight from the hub.
func (d *Downloader) Open(ctx context.Context, service desired.Service) (io.ReadCloser, error) {
	blob, err := d.store.Open(service.Artifact)
	if err == nil {
		return blob, nil
	}
	if !errors.Is(err, artifact.ErrNotFound) {
		return nil, fmt.Errorf("open the manifests: %w", err)
	}
	// A reader holds one of few turns at the cluster: a hub that stops in the middle must not keep it.
	ctx, cancel := context.WithTimeout(ctx, artifact.FillTimeout)
	content, err := d.fetch(service)(ctx, service.Artifact)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("get the manifests from the hub: %w", err)
	}
	return &timed{content, cancel}, nil
}

// timed ends a download's time with its reader.
type timed struct {
	io.ReadCloser

	cancel context.CancelFunc
}

func (t *timed) Close() error {
	defer t.cancel()
	return t.ReadCloser.Close()
}

// fetch asks the hub as the agent of this service.
func (d *Downloader) fetch(service desired.Service) artifact.FetchFunc {
	return func(ctx context.Context, digest artifact.Digest) (io.ReadCloser, error) {
		return d.content.Fetch(ctx, digest, service.Ticket)
	}
}
