// Package set keeps the objects of a service as they are to be sent, on disk: what is rendered is
// written once, and read object by object. The set is why an agent needs no memory for what it applies.
//
// A set belongs to one digest of a service and one environment; it never changes. The file is written beside and
// renamed at the end, so that it is there whole or not at all. Everything read is checked against a sum; a file that
// was damaged is removed, and the service rendered anew.
package set

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
)

// ID names what a set was made of.
type ID [sha256.Size]byte

// IDOf is the name of what a service's digest becomes in an environment, "" where the objects depend
// on nothing but the digest.
func IDOf(digest, environment string) ID {
	return sha256.Sum256([]byte(magic + digest + "\x00" + environment))
}

// String is the id in hex.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what String wrote.
func ParseID(text string) (ID, error) {
	var id ID
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return ID{}, fmt.Errorf("%q is no name of a set", text)
	}
	copy(id[:], raw)
	return id, nil
}

// Store is a folder of sets. A service has one user at a time; services don't touch each other.
type Store struct {
	dir string
}

// OpenStore makes the folder if it is missing, and removes what a killed writer left.
func OpenStore(dir string) (*Store, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, fmt.Errorf("open store of objects: %w", err)
	}
	return &Store{dir: dir}, nil
}

func (st *Store) pathOf(service string, id ID) string {
	return filepath.Join(st.dir, service+"."+id.String())
}

// Open opens a set. fs.ErrNotExist: it has to be rendered.
func (st *Store) Open(service string, id ID) (*Set, error) {
	file, err := os.Open(st.pathOf(service, id))
	if err != nil {
		return nil, fmt.Errorf("open objects of %s: %w", service, err)
	}
	s, err := openSet(file)
	if errors.Is(err, errDamaged) {
		err = errors.Join(fs.ErrNotExist, os.Remove(file.Name()))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open objects of %s: %w", service, err), file.Close())
	}
	return s, nil
}

// Keep removes the sets of a service but these.
func (st *Store) Keep(service string, ids ...ID) error {
	entries, err := os.ReadDir(st.dir)
	if err != nil {
		return fmt.Errorf("clean up objects of %s: %w", service, err)
	}
	for _, entry := range entries {
		text, ok := strings.CutPrefix(entry.Name(), service+".")
		if !ok {
			continue
		}
		id, err := ParseID(text)
		if err != nil || slices.Contains(ids, id) {
			continue
		}
		if err := durable.Remove(filepath.Join(st.dir, entry.Name())); err != nil {
			return fmt.Errorf("clean up objects of %s: %w", service, err)
		}
	}
	return nil
}

// Remove removes a set, which goes on being readable while it is open.
func (st *Store) Remove(service string, id ID) error {
	if err := os.Remove(st.pathOf(service, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove objects of %s: %w", service, err)
	}
	return nil
}

// Set is an open set. A Set is safe for concurrent use until it is closed.
type Set struct {
	footer

	made time.Time
	file *os.File
	path string
}

func openSet(file *os.File) (*Set, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < int64(len(magic)+footerSize) {
		return nil, errDamaged
	}
	head, end := make([]byte, len(magic)), make([]byte, min(info.Size(), maxTexts+footerSize))
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if _, err := file.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return nil, err
	}
	foot, ok := parseFooter(end, info.Size())
	if !ok || string(head) != magic {
		return nil, errDamaged
	}
	return &Set{file: file, path: file.Name(), footer: foot, made: info.ModTime()}, nil
}

// Close ends the use of a set. A set that was removed meanwhile is gone then.
func (s *Set) Close() error { return s.file.Close() }

// Name names the set among those of all services.
func (s *Set) Name() string { return filepath.Base(s.path) }

// Made is when the set was written.
func (s *Set) Made() time.Time { return s.made }

// Environment is what the cluster could do when the set was made, "" if the objects don't depend on that.
func (s *Set) Environment() string { return s.environment }

// ReleaseService is what templates of a chart saw as .Release.Service, "" if the set was made before that was noted.
func (s *Set) ReleaseService() string { return s.releaseService }

// Warnings are sentences on what was read in another way than it looks, each on its line.
func (s *Set) Warnings() string { return s.warnings }

// Len is how many objects there are.
func (s *Set) Len() int { return int(s.count) }

// Items reads the index, in the order in which the objects were written down.
func (s *Set) Items() ([]Item, error) {
	all := make([]byte, s.table-s.index+int64(s.count)*rowBytes)
	if _, err := s.file.ReadAt(all, s.index); err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	if object.SumOf(all) != s.sum {
		return nil, s.removeDamaged()
	}
	rest := all[:s.table-s.index]
	items := make([]Item, s.count)
	known := map[string]string{} // One string for all equal ones: most items share all but the name.
	hooks := map[object.Key]int{}
	for i := range items {
		var err error
		if items[i], rest, err = parseItem(rest); err != nil {
			return nil, s.removeDamaged()
		}
		items[i].shareTexts(known)
		if items[i].Hook != 0 {
			items[i].Nth = hooks[items[i].Key]
			hooks[items[i].Key]++
		}
	}
	return items, nil
}

func (i *Item) shareTexts(known map[string]string) {
	for _, text := range []*string{&i.Group, &i.Version, &i.Kind, &i.Namespace, &i.Position.File} {
		if one, ok := known[*text]; ok {
			*text = one
			continue
		}
		known[*text] = *text
	}
}

// Find reads the entry of one object. A hook is found only where no ordinary object has the name.
func (s *Set) Find(key object.Key) (Item, bool, error) {
	hash := hashOf(key)
	var failed error
	row := make([]byte, rowBytes)
	read := func(i int) object.Sum {
		if _, err := s.file.ReadAt(row, s.table+int64(i)*rowBytes); err != nil && failed == nil {
			failed = err
		}
		return object.Sum(binary.LittleEndian.Uint64(row))
	}
	var hook Item
	for i := sort.Search(int(s.count), func(i int) bool { return read(i) >= hash }); i < int(s.count) && read(i) == hash && failed == nil; i++ {
		item, err := s.readEntry(int64(binary.LittleEndian.Uint32(row[8:])))
		if err != nil || item.Key == key && item.Hook == 0 {
			return item, err == nil, err
		}
		if item.Key == key {
			hook = item
		}
	}
	if failed != nil {
		return Item{}, false, fmt.Errorf("read objects: %w", failed)
	}
	if hook.Hook != 0 {
		return hook, true, nil
	}
	// The item is not there, or the table is wrong.
	_, err := s.Items()
	return Item{}, false, err
}

func (s *Set) readEntry(offset int64) (Item, error) {
	const usual = 1 << 10
	for size := int64(usual); ; size *= 8 {
		size = min(size, s.table-s.index-offset)
		if size <= 0 {
			return Item{}, s.removeDamaged()
		}
		data := make([]byte, size)
		if _, err := s.file.ReadAt(data, s.index+offset); err != nil {
			return Item{}, fmt.Errorf("read objects: %w", err)
		}
		item, _, err := parseItem(data)
		if err == nil {
			return item, nil
		}
		if size == s.table-s.index-offset {
			return Item{}, s.removeDamaged()
		}
	}
}

// JSON reads an object as it was rendered.
func (s *Set) JSON(item Item) ([]byte, error) {
	if item.at+int64(item.size) > s.index {
		return nil, s.removeDamaged()
	}
	data := make([]byte, item.size)
	if _, err := s.file.ReadAt(data, item.at); err != nil {
		return nil, fmt.Errorf("read %s: %w", item.Key, err)
	}
	if object.SumOf(data) != item.Sum {
		return nil, s.removeDamaged()
	}
	return data, nil
}

// Object reads an object as it is to be sent, and where it was written down. Fields of controllers are left out here,
// so that sets of earlier agents are read in the same way.
func (s *Set) Object(item Item) (*unstructured.Unstructured, kubeyaml.Position, error) {
	data, err := s.JSON(item)
	if err != nil {
		return nil, item.Position, err
	}
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, item.Position, fmt.Errorf("read %s: %w", item.Key, err)
	}
	obj := &unstructured.Unstructured{Object: content}
	object.LeaveToControllers(obj)
	object.LastEnv(obj)
	return obj, item.Position, nil
}

// removeDamaged removes the file, so that the next Open asks for a render.
func (s *Set) removeDamaged() error {
	err := fmt.Errorf("the rendered manifests on disk (%s) %w; they are rendered anew", filepath.Base(s.path), errDamaged)
	if removeErr := os.Remove(s.path); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
		return errors.Join(err, removeErr)
	}
	return err
}
