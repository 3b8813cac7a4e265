// Command distribution is the CNCF's container registry (distribution), for tests against a real one. It takes the configuration file of
// that program: https://distribution.github.io/distribution/about/configuration.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	if registry.RootCmd.Execute() != nil { // it has said why
		os.Exit(1)
	}
}
