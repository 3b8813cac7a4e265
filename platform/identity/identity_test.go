package identity_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/platform/identity"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	user := identity.Identity{Kind: identity.KindUser, Name: "ann"}
	admin := identity.Identity{Kind: identity.KindUser, Name: "root", Groups: []string{"devs", identity.AdminsGroup}}
	agent := identity.Identity{Kind: identity.KindAgent, Name: "edge-1", Groups: []string{identity.AdminsGroup}}
	agentNamedConsole := identity.Identity{Kind: identity.KindAgent, Name: identity.ServiceConsole}
	service := func(name string) identity.Identity {
		return identity.Identity{Kind: identity.KindService, Name: name, Groups: []string{identity.AdminsGroup}}
	}
	all := []identity.Role{
		identity.RoleAdmin, identity.RoleUser, identity.RoleAgent, identity.RoleConsole,
		identity.RoleGitcache, identity.RoleDistributor, identity.RoleTunnel,
	}
	for _, tt := range []struct {
		id   identity.Identity
		want identity.Role
	}{
		{user, identity.RoleUser},
		{admin, identity.RoleUser | identity.RoleAdmin},
		{agent, identity.RoleAgent},
		{agentNamedConsole, identity.RoleAgent},
		{service("console"), identity.RoleConsole},
		{service("gitcache"), identity.RoleGitcache},
		{service("distributor"), identity.RoleDistributor},
		{service("tunnel"), identity.RoleTunnel},
		{service("unheard-of"), identity.RoleNone},
		{identity.Identity{}, identity.RoleNone},
		{identity.Identity{Kind: "root", Name: "x", Groups: []string{identity.AdminsGroup}}, identity.RoleNone},
	} {
		for _, role := range all {
			if got := tt.id.Has(role); got != (tt.want&role != 0) {
				t.Errorf("%s has %s: %t", tt.id.Subject(), role, got)
			}
		}
		if got := tt.id.Has(identity.RoleAny); got != (tt.want != identity.RoleNone) {
			t.Errorf("%s has any role: %t", tt.id.Subject(), got)
		}
		if tt.id.Has(identity.RoleNone) || !tt.id.Has(identity.RoleOpen) {
			t.Errorf("%s: nobody has RoleNone and everybody RoleOpen", tt.id.Subject())
		}
	}
}

func TestRoleNames(t *testing.T) {
	t.Parallel()
	for role, want := range map[identity.Role]string{
		identity.RoleNone:                            "nobody",
		identity.RoleOpen:                            "anybody",
		identity.RoleAny:                             "any valid token",
		identity.RoleHub:                             "hub service",
		identity.RoleUser | identity.RoleHub:         "hub service or user",
		identity.RoleAgent | identity.RoleTunnel:     "agent or tunnel",
		identity.RoleAny &^ identity.RoleDistributor: "user or agent or console or gitcache or tunnel",
	} {
		if got := role.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Signed, stored, loaded and verified: the same identity comes out.
func TestSignAndVerifyAnyName(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	private, err := keys.MarshalPrivate()
	if err != nil {
		t.Fatal(err)
	}
	if keys, err = identity.ParseKeySet(private); err != nil {
		t.Fatal(err)
	}
	data, err := identity.Bundle{Keys: keys.PublicJWKS(), IssuedAt: time.Now()}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	b, err := identity.ParseBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	v, err := identity.NewBundleVerifier(identity.BundleFromProto(b.Proto()))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		id := identity.Identity{
			Kind:   identity.KindUser,
			Name:   rapid.StringN(1, 40, 200).Draw(t, "name"),
			Groups: rapid.SliceOfN(rapid.StringN(1, 10, 40), 0, 5).Draw(t, "groups"),
		}
		if id.Validate() != nil {
			t.Skip("not a name")
		}
		token, signed, err := keys.Sign(id, identity.UserLifetime)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Verify(token)
		if err != nil {
			t.Fatal(err)
		}
		if got.Subject() != id.Subject() || fmt.Sprint(got.Groups) != fmt.Sprint(id.Groups) ||
			got.TokenID != signed.TokenID || !got.IssuedAt.Equal(signed.IssuedAt) ||
			!got.ExpiresAt.Equal(signed.ExpiresAt) {
			t.Fatalf("signed %+v, got %+v", signed, got)
		}
	})
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	user := identity.Identity{Kind: identity.KindUser, Name: "ann"}
	many := make([]string, identity.MaxGroups+1)
	for i := range many {
		many[i] = fmt.Sprint("g", i)
	}
	for name, tt := range map[string]struct {
		id  identity.Identity
		ttl time.Duration
	}{
		"no kind":     {identity.Identity{Name: "ann"}, time.Hour},
		"no name":     {identity.Identity{Kind: identity.KindUser}, time.Hour},
		"long name":   {identity.Identity{Kind: identity.KindUser, Name: strings.Repeat("x", 254)}, time.Hour},
		"system name": {identity.Identity{Kind: identity.KindUser, Name: "system:admin"}, time.Hour},
		"system group": {
			identity.Identity{Kind: identity.KindUser, Name: "ann", Groups: []string{"system:masters"}}, time.Hour,
		},
		"not UTF-8":      {identity.Identity{Kind: identity.KindUser, Name: "\xff"}, time.Hour},
		"many groups":    {identity.Identity{Kind: identity.KindUser, Name: "ann", Groups: many}, time.Hour},
		"group of agent": {identity.Identity{Kind: identity.KindAgent, Name: "edge", Groups: []string{"g"}}, time.Hour},
		"no lifetime":    {user, 0},
		"negative":       {user, -time.Hour},
		"too long":       {user, identity.MaxLifetime + time.Second},
	} {
		if token, _, err := keys.Sign(tt.id, tt.ttl); err == nil || token != "" {
			t.Errorf("%s: signed", name)
		}
	}
	full := identity.Identity{Kind: identity.KindUser, Name: strings.Repeat("n", 253), Groups: many[1:]}
	for i := range full.Groups {
		full.Groups[i] = strings.Repeat("g", 253)
	}
	token, _, err := keys.Sign(full, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	v, err := identity.NewBundleVerifier(identity.Bundle{Keys: keys.PublicJWKS()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(token); err != nil {
		t.Errorf("the largest identity (%d bytes): %v", len(token), err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		user := identity.Identity{Kind: identity.KindUser, Name: "ann"}
		sign := func(k *identity.KeySet, ttl time.Duration) string {
			token, _, err := k.Sign(user, ttl)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		verifies := func(k *identity.KeySet, token string) bool {
			v, err := identity.NewBundleVerifier(identity.Bundle{Keys: k.PublicJWKS()})
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Verify(token)
			return err == nil
		}
		first, err := identity.NewKeySet()
		if err != nil {
			t.Fatal(err)
		}
		old := sign(first, identity.MaxLifetime)
		second, kid, err := first.Rotate()
		if err != nil || kid == "" {
			t.Fatalf("rotate: %q, %v", kid, err)
		}
		if !strings.Contains(string(second.PublicJWKS()), kid) {
			t.Error("the new key is not published")
		}
		if !verifies(first, sign(second, time.Hour)) {
			t.Error("the new key signs before verifiers can know it")
		}
		<-time.After(identity.ActivationDelay)
		if verifies(first, sign(second, time.Hour)) || !verifies(second, sign(second, time.Hour)) {
			t.Error("the new key does not sign after the delay")
		}
		if !verifies(second, old) {
			t.Error("tokens under the old key are refused")
		}
		<-time.After(identity.MaxLifetime / 2)
		third, _, err := second.Rotate()
		if err != nil {
			t.Fatal(err)
		}
		if !verifies(third, old) {
			t.Error("a key was dropped before its tokens expired")
		}
		<-time.After(identity.MaxLifetime/2 + 2*time.Minute)
		fourth, _, err := third.Rotate()
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(fourth.PublicJWKS()), `"kid"`); n != 3 {
			t.Errorf("%d keys: the first must be gone", n)
		}
	})
}

func TestRotationIsBounded(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	for range 1000 {
		if err != nil {
			return
		}
		keys, _, err = keys.Rotate()
	}
	t.Error("keys pile up without bound")
}

func TestParseKeySetRefuses(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"nothing": "",
		"garbage": "garbage",
		"no keys": `{"keys":[]}`,
		"public keys": `{"keys":[{"jwk":` +
			strings.TrimSuffix(strings.TrimPrefix(string(keys.PublicJWKS()), `{"keys":[`), "]}") + `}]}`,
		"symmetric": `{"keys":[{"jwk":{"kty":"oct","kid":"x","k":"c2VjcmV0"}}]}`,
	} {
		if _, err := identity.ParseKeySet([]byte(data)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := identity.ParseKeySet(data)
		if err != nil {
			return
		}
		if _, _, err := keys.Sign(identity.Identity{Kind: identity.KindUser, Name: "ann"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzBundle(f *testing.F) {
	f.Add([]byte(`{"keys":{"keys":[]},"revocations":[{"token_id":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := identity.ParseBundle(data)
		if err != nil {
			return
		}
		if v, err := identity.NewBundleVerifier(b); err == nil {
			_, _ = v.Verify("..")
		}
	})
}
