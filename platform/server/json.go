package server

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/platform/typo"
)

// strictJSON is the codec of JSON requests. The codec refuses fields that do not exist, as manifests do: JSON is what
// people and scripts write by hand. Programs of Fairlead speak binary, where unknown fields of newer versions are
// skipped.
type strictJSON struct{ name string }

// jsonCodecs are under both names by which connect looks for JSON.
func jsonCodecs() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}))
}

// Name implements connect.Codec.
func (c strictJSON) Name() string { return c.name }

// Marshal implements connect.Codec.
func (strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return protojson.Marshal(m)
}

// Unmarshal implements connect.Codec.
func (strictJSON) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	switch {
	case !ok:
		return fmt.Errorf("%T is no protobuf message", message)
	case len(text) == 0:
		return errors.New("the body is empty: write {} for a request without fields")
	}
	err := protojson.Unmarshal(text, m)
	if err == nil {
		return nil
	}
	said := unnamed.ReplaceAllString(err.Error(), "")
	if found := unknownField.FindStringSubmatch(said); found != nil {
		said += typo.Suggest(found[1], jsonFields(m.ProtoReflect().Descriptor()))
	}
	return errors.New(said)
}

var (
	// unnamed is how protobuf begins its errors, with one of two spaces behind it.
	unnamed      = regexp.MustCompile(`^proto:[\s\x{a0}]*`)
	unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)
)

// maxSuggested bounds the messages whose fields are looked at for a suggestion.
const maxSuggested = 200

// jsonFields are the names of the fields of a message and of the messages in it, its own first.
func jsonFields(of protoreflect.MessageDescriptor) []string {
	var names []string
	known, listed := map[protoreflect.FullName]bool{of.FullName(): true}, map[string]bool{}
	for next := []protoreflect.MessageDescriptor{of}; len(next) > 0 && len(known) < maxSuggested; next = next[1:] {
		for i := range next[0].Fields().Len() {
			f := next[0].Fields().Get(i)
			if name := f.JSONName(); !listed[name] {
				listed[name] = true
				names = append(names, name)
			}
			if inner := f.Message(); inner != nil && !known[inner.FullName()] && !strings.HasPrefix(string(inner.FullName()), "google.protobuf.") {
				known[inner.FullName()] = true
				next = append(next, inner)
			}
		}
	}
	return names
}
