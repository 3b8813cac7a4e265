package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/dialpolicy"
)

// lookupSelf is where Vault says what it knows of a token.
const lookupSelf = "v1/auth/token/lookup-self"

// Vault says where a KV engine of version 2 is. Credentials are token, or roleID and secretID, and ca.crt if need be.
type Vault struct {
	Address     string
	Mount       string // empty: secret
	Namespace   string
	Credentials map[string]string
	// Addresses judges where Address leads to.
	Addresses *dialpolicy.Policy
}

type vault struct {
	api *api
	Vault
	now func() time.Time

	mu    sync.Mutex // guards what follows, and lets one log in for all
	token string     // empty: not logged in
	// renewAt is when the token has lived through half of its lease; zero: it has none, or it was not looked at.
	renewAt time.Time
	known   bool // whether the lease was looked at
}

// NewVault returns the places of a KV engine, by their paths in it. now is the clock.
func NewVault(at Vault, now func() time.Time) (Backend, error) {
	if at.Mount == "" {
		at.Mount = "secret"
	}
	if !relative(at.Mount) {
		return nil, errors.New("vault.mount: must be the path of an engine, such as secret")
	}
	own, role := at.Credentials["token"] != "", at.Credentials["roleID"] != "" && at.Credentials["secretID"] != ""
	if own == role {
		return nil, errors.New("its Secret must have either token, or roleID and secretID")
	}
	v := &vault{Vault: at, now: now, token: at.Credentials["token"]}
	var err error
	v.api, err = newAPI(at.Address, at.Credentials["ca.crt"], at.Addresses)
	return v, err
}

// Read implements Backend.
func (v *vault) Read(ctx context.Context, path string) (Values, error) {
	if !relative(path) || strings.ContainsAny(path, "?#%") {
		return nil, badPath("the path within the engine, such as shop/db")
	}
	var answer struct {
		Data struct {
			Data, Metadata map[string]any
		}
		Errors []string
	}
	status, err := v.ask(ctx, http.MethodGet, []string{"v1", v.Mount, "data", path}, nil, &answer)
	switch {
	case err != nil:
		return nil, err
	// Of deleted and destroyed versions there is metadata. An engine that is not there is an error.
	case status == http.StatusNotFound && (answer.Data.Metadata != nil || answer.Errors != nil && len(answer.Errors) == 0):
		return nil, ErrNotFound
	case status != http.StatusOK:
		return nil, v.api.refused(status, "read "+v.Mount+"/"+path)
	}
	return flatten(answer.Data.Data)
}

// Check implements Backend.
func (v *vault) Check(ctx context.Context) error {
	status, err := v.ask(ctx, http.MethodGet, []string{lookupSelf}, nil, nil)
	if err == nil && status != http.StatusOK {
		err = v.api.refused(status, "look at our token")
	}
	return err
}

// ask calls with a token. A token that is not accepted any more is replaced once, where there is a role to log in with.
func (v *vault) ask(ctx context.Context, method string, path []string, in, out any) (int, error) {
	for again := true; ; again = false {
		token, err := v.current(ctx)
		if err != nil {
			return 0, err
		}
		status, err := v.api.call(ctx, method, path, v.header(token), in, out)
		if err != nil || status != http.StatusForbidden || !again || v.Credentials["token"] != "" || v.accepts(ctx, token) {
			return status, err
		}
		v.forget(token)
	}
}

// accepts tells whether Vault knows a token: what it refuses is then forbidden to each token of the role.
func (v *vault) accepts(ctx context.Context, token string) bool {
	status, err := v.api.call(ctx, http.MethodGet, []string{lookupSelf}, v.header(token), nil, nil)
	return err == nil && status == http.StatusOK
}

func (v *vault) header(token string) http.Header {
	header := http.Header{"X-Vault-Request": {"true"}}
	if token != "" {
		header.Set("X-Vault-Token", token)
	}
	if v.Namespace != "" {
		header.Set("X-Vault-Namespace", v.Namespace)
	}
	return header
}

func (v *vault) forget(token string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.token == token {
		v.token, v.known, v.renewAt = "", false, time.Time{}
	}
}

// lease is what Vault says about a token. Of one that was given to us it is data, else auth.
type lease struct {
	Auth struct {
		ClientToken   string `json:"client_token"`
		LeaseDuration int64  `json:"lease_duration"`
		Renewable     bool
	}
	Data struct {
		TTL       int64
		Renewable bool
	}
}

// current is a token that can be used: logged in for, or renewed, if it is time.
func (v *vault) current(ctx context.Context) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.token == "":
		if err := v.login(ctx); err != nil {
			return "", err
		}
	case !v.known:
		var of lease
		status, err := v.api.call(ctx, http.MethodGet, []string{lookupSelf}, v.header(v.token), nil, &of)
		if err != nil {
			return "", err
		}
		if v.known = status == http.StatusOK; v.known && of.Data.Renewable {
			v.lasts(of.Data.TTL)
		}
	case !v.renewAt.IsZero() && !v.now().Before(v.renewAt):
		if err := v.renew(ctx); err != nil {
			return "", err
		}
	}
	return v.token, nil
}

func (v *vault) lasts(seconds int64) {
	if v.renewAt = (time.Time{}); seconds > 0 {
		v.renewAt = v.now().Add(time.Duration(seconds) * time.Second / 2)
	}
}

func (v *vault) login(ctx context.Context) error {
	in := map[string]string{"role_id": v.Credentials["roleID"], "secret_id": v.Credentials["secretID"]}
	var of lease
	status, err := v.api.call(ctx, http.MethodPost, []string{"v1/auth/approle/login"}, v.header(""), in, &of)
	switch {
	case err != nil:
		return err
	case unwell(status):
		return v.api.refused(status, "log in")
	case status != http.StatusOK || of.Auth.ClientToken == "":
		return fmt.Errorf("%s does not let the role of its Secret log in (%d): make a new secretID", v.api.base.Host, status)
	}
	v.token, v.known = of.Auth.ClientToken, true
	v.lasts(of.Auth.LeaseDuration)
	return nil
}

// renew makes a token last. A token that can't last longer is replaced, where there is a role to log in with.
func (v *vault) renew(ctx context.Context) error {
	var of lease
	status, err := v.api.call(ctx, http.MethodPost, []string{"v1/auth/token/renew-self"}, v.header(v.token), map[string]string{}, &of)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK && of.Auth.Renewable && of.Auth.LeaseDuration > 0:
		v.lasts(of.Auth.LeaseDuration)
	case unwell(status): // the token still lives, and the next read has it renewed
	case v.Credentials["token"] == "":
		return v.login(ctx)
	default:
		v.renewAt = time.Time{} // as long as it lasts
	}
	return nil
}

// unwell says that an answer is about Vault, which restarts or has too much to do, and not about what it was asked. 404 is
// of a proxy in its place: of a token Vault never answers it.
func unwell(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusNotFound
}
