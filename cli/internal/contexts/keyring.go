package contexts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/zalando/go-keyring"
)

// Keyring keeps secrets by account, as desktops have it: the Secret Service, the Keychain, the Credential Manager. A
// Keyring blocks while a person unlocks it, within bounds, and an account that is not there is an error.
type Keyring interface {
	Set(account, secret string) error
	Get(account string) (string, error)
}

// Desktop is the keyring of the person's desktop.
type Desktop struct{ getenv func(string) string }

// NewDesktop returns the keyring of the desktop that the environment belongs to.
func NewDesktop(getenv func(string) string) Desktop { return Desktop{getenv} }

const (
	keyringService = "fairlead"
	// keyringTimeout is how long a person has to unlock it.
	keyringTimeout = time.Minute
)

// Set keeps a secret.
func (d Desktop) Set(account, secret string) error {
	_, err := d.callWithin(func() (string, error) { return "", keyring.Set(keyringService, account, secret) })
	return err
}

// Get reads a secret.
func (d Desktop) Get(account string) (string, error) {
	return d.callWithin(func() (string, error) { return keyring.Get(keyringService, account) })
}

func (d Desktop) callWithin(do func() (string, error)) (string, error) {
	if !d.keyringThere() {
		return "", errors.New("there is no desktop session")
	}
	type answer struct {
		secret string
		err    error
	}
	got := make(chan answer, 1) // a caller that gave up leaves the goroutine behind: the process ends soon
	go func() {
		secret, err := do()
		got <- answer{secret, err}
	}()
	patience := time.NewTimer(keyringTimeout)
	defer patience.Stop()
	select {
	case a := <-got:
		return a.secret, a.err
	case <-patience.C:
		return "", fmt.Errorf("it did not answer within %s", keyringTimeout)
	}
}

// keyringThere says whether a keyring may be there. Where D-Bus is not, asking for it would start one.
func (d Desktop) keyringThere() bool {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" || d.getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return true
	}
	dir := d.getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "bus"))
	return err == nil
}
