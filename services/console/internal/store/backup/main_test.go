package backup_test

import (
	"os"
	"testing"

	"fairlead.dev/platform/postgrestest"
)

var postgres postgrestest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	_ = postgres.Stop()
	os.Exit(code)
}
