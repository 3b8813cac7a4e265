package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
)

const (
	detailSuffix = ".detail"
	// mostRuns of one service wait for the hub, the newest: the hub keeps no more.
	mostRuns = 20
)

// Details hands over long lists about services: the latest of each service and kind, and of each run of its tests,
// which is on disk until a distributor acknowledges it as durable. Details is safe for concurrent use.
type Details struct {
	dir          string
	distributors *deliveryclient.Distributors
	log          *slog.Logger
	now          func() time.Time
	wake         chan struct{}
	// failed is the file that could not be sent last: the others come before it. Only Run uses it.
	failed string

	mu sync.Mutex // guards what follows, and the files
	// pending has the generation of each file that waits: a newer one may come while one is sent.
	pending map[string]uint64
	// generation counts the lists that came.
	generation uint64
	// last is the sum of what was set last, but for its time.
	last map[string][sha256.Size]byte
}

// OpenDetails reads which lists an earlier run left to be sent.
func OpenDetails(dir string, distributors *deliveryclient.Distributors, log *slog.Logger) (*Details, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+detailSuffix))
	if err != nil {
		return nil, fmt.Errorf("read details: %w", err)
	}
	d := &Details{
		dir: dir, distributors: distributors, log: log, now: time.Now, wake: make(chan struct{}, 1),
		pending: map[string]uint64{}, last: map[string][sha256.Size]byte{},
	}
	for _, path := range files {
		d.generation++
		d.pending[filepath.Base(path)] = d.generation
	}
	return d, nil
}

func fileOf(service, kind string) string { return service + "." + kind + detailSuffix }

func kindOf(d *deliveryv1.ServiceDetail) string {
	switch {
	case d.GetDiff() != nil:
		return diffKind
	case d.GetNotes() != nil:
		return "notes"
	case d.GetTestRun() != nil:
		return testKind + d.GetTestRun().GetId()
	}
	return objectsKind
}

const (
	objectsKind = "objects"
	diffKind    = "diff"
	// testKind begins the kinds of runs of tests, each of which is a list of its own.
	testKind = "test-"
)

// isTestOf tells the files of a service's runs.
func isTestOf(service, file string) bool { return strings.HasPrefix(file, service+"."+testKind) }

// isTest tells the files of runs.
func isTest(file string) bool {
	service, _, _ := strings.Cut(file, ".") // which has no dots
	return isTestOf(service, file)
}

// Set is told a list. When it returns without an error the list is on disk. A list that says nothing new is dropped.
func (d *Details) Set(detail *deliveryv1.ServiceDetail) error {
	plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(detail)
	if err != nil {
		return fmt.Errorf("encode detail: %w", err)
	}
	sum, file := sha256.Sum256(plain), fileOf(detail.GetService(), kindOf(detail))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last[file] == sum {
		return nil
	}
	detail = proto.CloneOf(detail)
	detail.ObservedTime = timestamppb.New(d.now())
	data, err := proto.Marshal(detail)
	if err != nil {
		return fmt.Errorf("encode detail: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(d.dir, file), data, 0o600); err != nil {
		return fmt.Errorf("keep detail: %w", err)
	}
	d.last[file] = sum
	d.generation++
	d.pending[file] = d.generation
	select {
	case d.wake <- struct{}{}:
	default:
	}
	if detail.GetTestRun() != nil {
		return d.dropEarly(detail.GetService())
	}
	return nil
}

// dropEarly drops the runs of a service that have waited longest, if there are too many. The caller holds mu.
func (d *Details) dropEarly(service string) error {
	var files []string
	written := map[string]time.Time{}
	for file := range d.pending {
		if !isTestOf(service, file) {
			continue
		}
		info, err := os.Stat(filepath.Join(d.dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep detail: %w", err)
		}
		if err == nil {
			written[file] = info.ModTime()
		}
		files = append(files, file)
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(written[a].Compare(written[b]), cmp.Compare(a, b)) })
	for _, file := range files[:max(0, len(files)-mostRuns)] {
		if err := d.drop(file); err != nil {
			return err
		}
		d.log.Warn("the hub was not reached for so long that a run of tests is dropped", "service", service, "file", file)
	}
	return nil
}

// drop forgets a list. The caller holds mu.
func (d *Details) drop(file string) error {
	delete(d.last, file)
	delete(d.pending, file)
	if err := durable.Remove(filepath.Join(d.dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop details: %w", err)
	}
	return nil
}

// Waits tells whether a run of a service's tests is on the disk, and not acknowledged.
func (d *Details) Waits(service, run string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, waits := d.pending[fileOf(service, testKind+run)]
	return waits
}

// Told says whether a list of this kind was handed over, or is to be, since the agent started.
func (d *Details) Told(service, kind string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, told := d.last[fileOf(service, kind)]
	return told
}

// Forget drops what is known of a service that left.
func (d *Details) Forget(service string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var failed error
	files := []string{fileOf(service, objectsKind), fileOf(service, diffKind), fileOf(service, "notes")}
	for file := range d.pending {
		if isTestOf(service, file) {
			files = append(files, file)
		}
	}
	for _, file := range files {
		delete(d.last, file)
		if _, waits := d.pending[file]; waits {
			failed = errors.Join(failed, durable.Remove(filepath.Join(d.dir, file)))
			delete(d.pending, file)
		}
	}
	return failed
}

// Drop forgets all lists, because another agent has told newer ones since. The ends of runs of tests stay: nothing is
// newer, and no other agent has their logs.
func (d *Details) Drop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for file := range d.pending {
		if isTest(file) && d.hasEnded(file) {
			continue
		}
		if err := d.drop(file); err != nil {
			return err
		}
	}
	clear(d.last)
	return nil
}

// hasEnded tells whether the run in a file is over. The caller holds mu.
func (d *Details) hasEnded(file string) bool {
	data, err := os.ReadFile(filepath.Join(d.dir, file))
	var detail deliveryv1.ServiceDetail
	return err == nil && proto.Unmarshal(data, &detail) == nil && detail.GetTestRun().GetEndTime() != nil
}

// Run sends lists until ctx ends.
func (d *Details) Run(ctx context.Context) error {
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	for {
		err := d.flush(ctx)
		var retry <-chan time.Time
		if err != nil && ctx.Err() == nil {
			wait := backoff.After(err)
			d.log.Warn("details are not delivered yet", "err", err, "retry_in", wait)
			retry = time.After(wait)
		} else {
			backoff.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-retry:
		case <-d.wakes(retry):
		}
	}
}

// wakes is nil while a retry is waited for: what is new waits with what failed.
func (d *Details) wakes(retry <-chan time.Time) <-chan struct{} {
	if retry != nil {
		return nil
	}
	return d.wake
}

func (d *Details) flush(ctx context.Context) error {
	for {
		d.mu.Lock()
		files := slices.Sorted(maps.Keys(d.pending))
		d.mu.Unlock()
		if len(files) == 0 {
			return nil
		}
		next, found := slices.BinarySearch(files, d.failed)
		if found {
			next++
		}
		for _, file := range slices.Concat(files[next:], files[:next]) {
			if err := d.send(ctx, file); err != nil {
				d.failed = file
				return err
			}
		}
	}
}

func (d *Details) send(ctx context.Context, file string) error {
	d.mu.Lock()
	generation, waits := d.pending[file]
	if service, isDiff := strings.CutSuffix(file, "."+diffKind+detailSuffix); isDiff && d.pending[fileOf(service, objectsKind)] > 0 {
		// An object that was applied is in the list and no longer in the difference: it is always in one of those that
		// the hub has.
		waits = false
	}
	data, err := os.ReadFile(filepath.Join(d.dir, file))
	d.mu.Unlock()
	var detail deliveryv1.ServiceDetail
	switch {
	case !waits:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read detail: %w", err)
	case err != nil, proto.Unmarshal(data, &detail) != nil, !strings.HasPrefix(file, detail.GetService()+"."):
		d.log.Warn("a kept detail is damaged and dropped", "file", file)
		return d.settled(file, generation)
	}
	err = d.distributors.Try(ctx, func(ctx context.Context, one deliveryclient.Distributor) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err := one.Details.ReportDetails(ctx, &deliveryv1.ReportDetailsRequest{Detail: &detail})
		return err
	})
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted, connect.CodeUnimplemented:
		d.log.Warn("the hub does not take a detail; it is dropped", "service", detail.GetService(), "err", err)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("send details: %w", err)
	}
	return d.settled(file, generation)
}

// settled drops a list that is durable elsewhere, unless a newer one has come.
func (d *Details) settled(file string, generation uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[file] != generation {
		return nil
	}
	delete(d.pending, file)
	if service, _, _ := strings.Cut(file, "."); isTestOf(service, file) {
		delete(d.last, file) // there are ever more of them
	}
	return durable.Remove(filepath.Join(d.dir, file))
}
