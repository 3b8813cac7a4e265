package views

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/viewset"
)

// Kept has the view keep what the hub sent last, also after a start without the hub. Kept is safe for concurrent use.
type Kept struct {
	path string
	view *View
	log  *slog.Logger

	mu   sync.Mutex // guards what follows
	sets *deliveryv1.ViewSetDelivery
}

// OpenKept reads what the disk has, and has the view keep it.
func OpenKept(dir string, view *View, log *slog.Logger) (*Kept, error) {
	k := &Kept{path: filepath.Join(dir, "viewsets"), view: view, log: log}
	sets, err := read(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read ViewSets: %w", err)
	case sets == nil:
		log.Warn("the record of ViewSets is damaged; the view has none until the hub sends them again", "file", k.path)
	default:
		k.keep(sets)
	}
	return k, nil
}

// read returns nil without an error for a file that no agent has written so. The digest tells: it is over what the hub
// sent, with what this agent does not know.
func read(path string) (*deliveryv1.ViewSetDelivery, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeKept(data), nil
}

// decodeKept returns nil for what no agent has written so.
func decodeKept(data []byte) *deliveryv1.ViewSetDelivery {
	sets := &deliveryv1.ViewSetDelivery{}
	if proto.Unmarshal(data, sets) != nil || sets.GetDigest() != viewset.Digest(sets.GetSets()) {
		return nil
	}
	return sets
}

// Digest is that of what is kept.
func (k *Kept) Digest() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sets.GetDigest()
}

// Take takes over what the hub sent; nil: nothing new. What can't be written is kept until the agent ends.
func (k *Kept) Take(sent *deliveryv1.ViewSetDelivery) {
	if sent == nil {
		return
	}
	data, err := proto.Marshal(sent)
	if err == nil {
		err = durable.WriteFile(k.path, data, 0o600)
	}
	if err != nil {
		k.log.Warn("ViewSets are not on the disk: if the agent starts without the hub, its view has earlier ones", "err", err)
	}
	k.keep(sent)
	k.log.Info("the view has other ViewSets", "sets", len(sent.GetSets()))
}

func (k *Kept) keep(sets *deliveryv1.ViewSetDelivery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sets = sets
	k.view.Want(sets.GetSets())
}
