package set

import (
	"time"

	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
)

// Hook and Flags are what an object's annotations say.
type (
	Hook  = object.Hook
	Flags = object.Flags
)

// Item is an object of a set, without its content.
type Item struct {
	object.Ref

	// Sum of the bytes that are sent. The sum changes when the manifest does.
	Sum object.Sum
	// Wave orders items: lower ones come first.
	Wave int32
	// Hook is the one moment when an item that is a hook is applied; 0: it is none.
	Hook  Hook
	Flags Flags
	// Nth of the hooks of the same name, from 0. Items fills it in.
	Nth int
	// Timeout of the gate that waits for the item, or of the hook; 0: the usual.
	Timeout time.Duration
	// Depends are objects that have to be healthy before.
	Depends []object.Key
	// Position is where the object was written down.
	Position kubeyaml.Position

	// at and size are where the set has the content.
	at   int64
	size int32
	// text is the sum of the document that the object was read from; 0: unknown.
	text object.Sum
	// bare: the manifest names no namespace.
	bare bool
}

// IsCRD tells the definition of a kind.
func (i Item) IsCRD() bool { return isCRD(i.Group, i.Kind) }

// Run names the item as a hook.
func (i Item) Run() object.Run { return object.Run{Key: i.Key, Nth: i.Nth} }

// String names the object and its place: "ConfigMap default/hello (apps/hello/config.yaml, document 2)".
func (i Item) String() string { return i.Key.String() + " (" + i.Position.String() + ")" }
