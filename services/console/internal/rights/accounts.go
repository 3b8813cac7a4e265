package rights

import (
	"context"
	"encoding/json"
	"fmt"

	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/store"
)

// Accounts is the hook that makes the tokens of a service account void with it.
type Accounts struct{}

// Wrote implements catalog.Hook.
func (Accounts) Wrote(ctx context.Context, tx *store.Tx, _ catalog.By, before, after *store.Resource) error {
	if before == nil || before.Kind != store.KindServiceAccount {
		return nil
	}
	subject := platform.ServiceAccount(before.Name).Subject()
	if after == nil {
		if err := tx.RevokeAPITokens(ctx, "", subject); err != nil {
			return err
		}
		return tx.Revoke(ctx, identity.Revocation(subject, tx.Now()))
	}
	var spec catalog.ServiceAccountSpec
	if err := json.Unmarshal(after.Spec, &spec); err != nil {
		return fmt.Errorf("decode service account %q: %w", after.Name, err)
	}
	if !spec.Disabled {
		return nil
	}
	return tx.Revoke(ctx, identity.Revocation(subject, tx.Now()))
}
