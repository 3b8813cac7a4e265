package authz

import (
	"context"
	"encoding/json"
	"fmt"

	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// Accounts is the hook that makes the tokens of a service account void with it.
type Accounts struct{}

// Wrote implements catalog.Hook.
func (Accounts) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if before == nil || before.Kind != store.KindServiceAccount {
		return nil
	}
	subject := platform.ServiceAccount(before.Name).Subject()
	if after == nil {
		if err := w.Tx.RevokeAPITokens(ctx, "", subject); err != nil {
			return err
		}
		return w.Tx.Revoke(ctx, identity.Revocation(subject, w.Tx.Now()))
	}
	var spec resource.ServiceAccountSpec
	if err := json.Unmarshal(after.Spec, &spec); err != nil {
		return fmt.Errorf("decode service account %q: %w", after.Name, err)
	}
	if !spec.Disabled {
		return nil
	}
	return w.Tx.Revoke(ctx, identity.Revocation(subject, w.Tx.Now()))
}
