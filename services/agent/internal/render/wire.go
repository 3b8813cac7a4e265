package render

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sjson "k8s.io/apimachinery/pkg/util/json"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/mistakes"
)

// Parent and child talk in frames: a byte of kind, four of length (big-endian), and as many of JSON. The
// child gets a FrameJob and then the folder's tar on stdin; it writes frames to stdout, and reads the
// answers to what it asks, one for each, from descriptor 3.
const (
	FrameJob    = 'j' // Job
	FrameObject = 'o' // position, newline, object
	FrameLookup = 'l' // LookupRequest
	FrameRecall = 'r' // empty: asks for the answers of random functions that are kept
	FrameAnswer = 'a' // LookupAnswer or RecallAnswer
	FrameFailed = 'f' // Failure, the last frame
	FrameDone   = 'd' // Done: all objects were told; the last frame
)

// maxFrame bounds a frame: an object may have 4 MiB.
const maxFrame = 8 << 20

// ErrTooLarge: what was to be written has more bytes than a frame.
var ErrTooLarge = fmt.Errorf("it has more than %d MiB", maxFrame>>20)

// WriteFrame writes a frame.
func WriteFrame(w io.Writer, kind byte, payload []byte) error {
	if len(payload) > maxFrame {
		return ErrTooLarge
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// ReadFrame reads a frame.
func ReadFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return 0, nil, errors.New("a frame is too long")
	}
	// Grown as it comes: a length is no proof that so much follows.
	var body bytes.Buffer
	if n, err := io.CopyN(&body, r, int64(size)); err != nil {
		return 0, nil, fmt.Errorf("frame of %d bytes ends after %d: %w", size, n, io.ErrUnexpectedEOF)
	}
	return head[0], body.Bytes(), nil
}

// Job is what a child is to render.
type Job struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Path      string          `json:"path"`
	Renderer  int32           `json:"renderer"`
	Render    json.RawMessage `json:"render"`
	Tests     string          `json:"tests,omitempty"`
	Scope     Scope           `json:"scope"`
	// Seconds of a processor that it may take.
	Seconds uint64 `json:"seconds"`
}

// Spec is how to render.
func (j Job) Spec() (*deliveryv1.RenderSpec, error) {
	spec := &deliveryv1.RenderSpec{}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(j.Render, spec)
	return spec, err
}

// LookupRequest asks for an object, or without a name for a list of them.
type LookupRequest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// LookupAnswer has an object, an error, or neither: there is none.
type LookupAnswer struct {
	Object json.RawMessage `json:"object,omitempty"`
	Error  string          `json:"error,omitempty"`
	// Refused: the error is a mistake of the folder.
	Refused bool `json:"refused,omitempty"`
}

// RecallAnswer has the answers that are kept, or an error.
type RecallAnswer struct {
	Answers []Answer `json:"answers,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// Failure is why there is no result.
type Failure struct {
	// Mistakes are those of the manifests.
	Mistakes []*kubeyaml.Error `json:"mistakes,omitempty"`
	// More counts the mistakes that are not among them.
	More int `json:"more,omitempty"`
	// Text is any other error.
	Text string `json:"text,omitempty"`
}

// Done is what a child says at its end.
type Done struct {
	// Depends: the objects depend on the cluster's version, or on what its API has.
	Depends bool `json:"depends,omitempty"`
	// Warnings are the first sentences of what is read, though its author may have meant something else.
	Warnings []string `json:"warnings,omitempty"`
	// Notes is the chart's NOTES.txt.
	Notes string `json:"notes,omitempty"`
	// Answers of random functions that templates got.
	Answers []Answer `json:"answers,omitempty"`
}

// FailureOf takes an error apart. Beside mistakes, other errors are left out.
func FailureOf(err error) Failure {
	var all Failure
	for _, one := range mistakes.Split(err) {
		if mistake, ok := errors.AsType[*kubeyaml.Error](one); ok {
			all.Mistakes = append(all.Mistakes, mistake)
		} else if more, ok := errors.AsType[mistakes.MoreError](one); ok {
			all.More += int(more)
		}
	}
	if len(all.Mistakes) == 0 {
		return Failure{Text: err.Error()}
	}
	return all
}

// Err puts it together again.
func (f Failure) Err() error {
	if len(f.Mistakes) == 0 {
		return errors.New(f.Text)
	}
	var all []error
	for _, mistake := range f.Mistakes {
		all = append(all, mistake)
	}
	if f.More > 0 {
		all = append(all, mistakes.MoreError(f.More))
	}
	return errors.Join(all...)
}

// EncodeObject writes an object and where it was written down.
func EncodeObject(obj *unstructured.Unstructured, at kubeyaml.Position) ([]byte, error) {
	place, err := json.Marshal(at)
	if err != nil {
		return nil, fmt.Errorf("encode position: %w", err)
	}
	content, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	return append(append(place, '\n'), content...), nil
}

// DecodeObject reads what EncodeObject wrote, and believes none of it.
func DecodeObject(payload []byte) (*unstructured.Unstructured, kubeyaml.Position, error) {
	var at kubeyaml.Position
	place, content, _ := bytes.Cut(payload, []byte("\n"))
	if err := json.Unmarshal(place, &at); err != nil {
		return nil, at, fmt.Errorf("read position: %w", err)
	}
	at.Text = 0
	var fields map[string]any
	if err := k8sjson.Unmarshal(content, &fields); err != nil {
		return nil, at, fmt.Errorf("read object: %w", err)
	}
	if err := kubeyaml.Check(fields, at); err != nil {
		return nil, at, err
	}
	return &unstructured.Unstructured{Object: fields}, at, nil
}
