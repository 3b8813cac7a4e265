package rpc

import (
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
)

// identityMounts are the services about who may do what.
func identityMounts(Deps) []server.Mount { return nil }

func identityPolicy() identity.Policy { return nil }
