package wire_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
	"fairlead.dev/services/gitcache/internal/tree"
)

// Git takes any bytes for a name, and protobuf only text: one such file must not hide its folder.
func TestAFolderWithANameThatIsNoTextIsShown(t *testing.T) {
	t.Parallel()
	listing := browse.Listing{Entries: []browse.Entry{
		{Entry: tree.Entry{Kind: tree.File, Name: "caf\xe9.yaml"}},
		{Entry: tree.Entry{Kind: tree.File, Name: "café.yaml"}},
	}}
	m := wire.TreeMessage(listing)
	if _, err := proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if a, b := m.GetEntries()[0].GetName(), m.GetEntries()[1].GetName(); a != "caf\ufffd.yaml" || b != "café.yaml" {
		t.Errorf("shown as %q and %q", a, b)
	}
}
