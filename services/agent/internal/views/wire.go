package views

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unique"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"

	"fairlead.dev/services/agent/internal/object"
)

// The decoders walk Kubernetes' Protobuf and keep the fields that a figure needs. Everything else, such as environment
// variables, annotations and volumes, is skipped by its length and never copied. Field numbers are those of
// generated.proto in k8s.io/api; Kubernetes never changes one.

var errWire = errors.New("the API server sent Protobuf that can't be read")

// walk calls visit for each field: n of a varint, b of a field with a length. b is a part of the buffer that is read
// again.
func walk(b []byte, visit func(number protowire.Number, n uint64, b []byte) error) error {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errWire
		}
		b = b[size:]
		var n uint64
		var field []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			field, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(number, kind, b)
		}
		if size < 0 {
			return errWire
		}
		b = b[size:]
		if err := visit(number, n, field); err != nil {
			return err
		}
	}
	return nil
}

// maxWord bounds a word, in bytes: Kubernetes bounds names, and few other texts.
const maxWord = 256

// word is a text that many records share, cut to maxWord.
func word(b []byte) string { return unique.Make(string(cut(b, maxWord))).Value() }

// seconds reads a Time or MicroTime.
func seconds(b []byte) (at int64, err error) {
	err = walk(b, func(number protowire.Number, n uint64, _ []byte) error {
		if number == 1 {
			at = int64(n) // int64 on the wire
		}
		return nil
	})
	return at, err
}

// magic begins an object in Protobuf.
var magic = []byte("k8s\x00") //nolint:gochecknoglobals // It never changes.

// unwrap returns the object within the envelope that says its kind, which has to be well-formed and is not looked at.
func unwrap(b []byte) (raw []byte, err error) {
	b, ok := bytes.CutPrefix(b, magic)
	if !ok {
		return nil, errWire
	}
	err = walk(b, func(number protowire.Number, _ uint64, field []byte) error {
		switch number {
		case 1:
			return walk(field, func(protowire.Number, uint64, []byte) error { return nil })
		case 2:
			raw = field
		}
		return nil
	})
	return raw, err
}

// event is a frame of a watch.
type event struct {
	kind   string         // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	object []byte         // without its envelope
	fields map[string]any // of the object, in place of object
}

// meta reads the metadata of the object.
func (e event) meta() (meta, error) {
	if e.fields != nil {
		return metaOfFields(e.fields), nil
	}
	return metaOf(e.object)
}

// failure is what an event says that is an error.
func (e event) failure() error {
	if e.fields != nil {
		return failureOf(e.fields)
	}
	return parseStatus(e.object)
}

// brokenError is about an event that can't be read.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }

// events reads the events of a watch.
func (k *kind) events(body io.Reader) func() (event, error) {
	if k.takeFields != nil {
		return jsonEvents(body)
	}
	var buffer []byte
	return func() (event, error) {
		frame, err := readFrame(body, buffer)
		if err != nil {
			return event{}, err
		}
		if buffer = frame; cap(frame) > keptBuffer {
			buffer = nil
		}
		e, err := parseEvent(frame)
		if err != nil {
			return e, &brokenError{err}
		}
		return e, nil
	}
}

// takeOver takes over an object, with mu of View held.
func (k *kind) takeOver(e event, m meta) (changed bool, err error) {
	if k.takeFields != nil {
		return k.takeFields(e.fields, m, e.kind == "DELETED"), nil
	}
	return k.take(e.object, e.kind == "DELETED")
}

func (k *kind) parsePage(body []byte) (page, error) {
	if k.takeFields != nil {
		return parseJSONPage(body)
	}
	return parsePage(body)
}

func parseEvent(frame []byte) (e event, err error) {
	err = walk(frame, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 1:
			e.kind = word(b)
		case 2:
			return walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
				if number == 1 {
					e.object, err = unwrap(b)
				}
				return err
			})
		}
		return nil
	})
	return e, err
}

// page is a part of a list.
type page struct {
	version, next string
	items         []event
}

func parsePage(body []byte) (p page, err error) {
	list, err := unwrap(body)
	if err != nil {
		return p, err
	}
	err = walk(list, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 1:
			return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
				switch number {
				case 2:
					p.version = string(b)
				case 3:
					p.next = string(b)
				}
				return nil
			})
		case 2:
			p.items = append(p.items, event{object: b})
		}
		return nil
	})
	return p, err
}

// failure is what a Status says.
type failure struct {
	reason, message string
	code            int
}

func (f *failure) Error() string { return fmt.Sprintf("%s (%d): %s", f.reason, f.code, f.message) }

func parseStatus(b []byte) error {
	f := &failure{}
	if err := walk(b, func(number protowire.Number, n uint64, b []byte) error {
		switch number {
		case 3:
			f.message = clean(string(b))
		case 4:
			f.reason = string(b)
		case 6:
			f.code = int(n) // an HTTP code
		}
		return nil
	}); err != nil {
		return err
	}
	return f
}

// meta is what is kept of an object's metadata. uid and version are texts of their own.
type meta struct {
	uid, name, namespace, version string
	service                       string // object.ServiceLabel
	owner, ownerKind, ownerName   string // of its controller; owner is the uid
	generation, created           int64
	deleted                       bool
	// end says that a bookmark ends the objects that a watch began with.
	end bool
}

func parseMeta(b []byte) (m meta, err error) {
	err = walk(b, func(number protowire.Number, n uint64, b []byte) (err error) {
		switch number {
		case 1:
			m.name = string(b)
		case 3:
			m.namespace = word(b)
		case 5:
			m.uid = string(b)
		case 6:
			m.version = string(b)
		case 7:
			m.generation = int64(n) // int64 on the wire
		case 8:
			m.created, err = seconds(b)
		case 9:
			m.deleted = true
		case 11:
			if key, value := entry(b); string(key) == object.ServiceLabel {
				m.service = word(value)
			}
		case 12:
			if key, value := entry(b); string(key) == "k8s.io/initial-events-end" {
				m.end = string(value) == "true"
			}
		case 13:
			err = m.parseOwner(b)
		}
		return err
	})
	return m, err
}

func (m *meta) parseOwner(b []byte) error {
	var uid, kind, name string
	var controls bool
	err := walk(b, func(number protowire.Number, n uint64, b []byte) error {
		switch number {
		case 1:
			kind = word(b)
		case 3:
			name = word(b)
		case 4:
			uid = word(b)
		case 6:
			controls = n != 0
		}
		return nil
	})
	if controls {
		m.owner, m.ownerKind, m.ownerName = uid, kind, name
	}
	return err
}

// entry reads an entry of a map.
func entry(b []byte) (key, value []byte) {
	_ = walk(b, func(number protowire.Number, _ uint64, b []byte) error { // bytes that can't be read are no entry
		switch number {
		case 1:
			key = b
		case 2:
			value = b
		}
		return nil
	})
	return key, value
}

// amounts are the quantities that figures need: CPU in thousandths of a core, memory and storage in bytes.
type amounts struct {
	cpu, memory, pods, storage int64
	hasCPU, hasMemory          bool
}

func (a *amounts) parse(b []byte) {
	key, value := entry(b)
	switch string(key) {
	case "cpu", "memory", "pods", "storage":
	default:
		return
	}
	var text string
	if walk(value, func(number protowire.Number, _ uint64, b []byte) error {
		if number == 1 {
			text = string(b)
		}
		return nil
	}) != nil {
		return
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return // the API server lets none of these in
	}
	switch string(key) {
	case "cpu":
		a.cpu, a.hasCPU = q.MilliValue(), true
	case "memory":
		a.memory, a.hasMemory = q.Value(), true
	case "pods":
		a.pods = q.Value()
	case "storage":
		a.storage = q.Value()
	}
}

func (a amounts) add(b amounts) amounts {
	a.cpu, a.memory = a.cpu+b.cpu, a.memory+b.memory
	return a
}

func (a amounts) max(b amounts) amounts {
	a.cpu, a.memory = max(a.cpu, b.cpu), max(a.memory, b.memory)
	return a
}

// condition is one of a status.
type condition struct {
	name, status, reason string
	since                int64
}

// parseCondition reads a condition: those of pods, nodes and Jobs have the same numbers, but for the time of a Job's,
// which nobody needs.
func parseCondition(b []byte) (c condition, err error) {
	err = walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
		switch number {
		case 1:
			c.name = word(b)
		case 2:
			c.status = word(b)
		case 4:
			c.since, err = seconds(b)
		case 5:
			c.reason = word(b)
		}
		return err
	})
	return c, err
}
