package rpc

import (
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
)

// writeMounts are the services that write many resources at once, or resources that others come of.
func writeMounts(Deps) []server.Mount { return nil }

func writePolicy() identity.Policy { return nil }
