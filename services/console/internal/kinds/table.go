// Package kinds is the table of all kinds of resources that the console keeps. A new kind is a folder below this one,
// and a line here.
package kinds

import (
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/rpc"
)

// Table describes all kinds.
func Table() descriptor.Table { return rpc.Kinds() }
