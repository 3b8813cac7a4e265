package authz

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"fairlead.dev/platform/access"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// mayDirect refuses to choose what a folder declares from who has not all rights of the account that the folder has:
// who says where the folder is, or what it is a source of, says what is done with these rights.
func (k *Rules) mayDirect(ctx context.Context, tx *store.Tx, by catalog.By, before, after *store.Resource) error {
	if after == nil {
		return nil
	}
	switch after.Kind {
	case store.KindService:
		return k.mayDirectService(ctx, by, before, *after)
	case store.KindSource:
		return k.mayDirectSource(ctx, tx, by, before, *after)
	}
	return nil
}

func (k *Rules) mayDirectService(ctx context.Context, by catalog.By, before *store.Resource, after store.Resource) error {
	var was, is state.ServiceSpec
	if err := json.Unmarshal(after.Spec, &is); err != nil {
		return fmt.Errorf("decode service %q: %w", after.Name, err)
	}
	if !is.Catalog {
		return nil
	}
	if before != nil {
		if err := json.Unmarshal(before.Spec, &was); err != nil {
			return fmt.Errorf("decode service %q: %w", before.Name, err)
		}
		// A pin may be to a commit that is on no branch that others look after.
		if onlyLevers(before, &after) && (is.EffectiveRef() == was.EffectiveRef() || is.EffectiveRef() == is.Ref) {
			return nil
		}
	}
	return k.mayActAs(ctx, by, is.ServiceAccount, fmt.Sprintf("service %q: spec.serviceAccount", after.Name))
}

func (k *Rules) mayDirectSource(ctx context.Context, tx *store.Tx, by catalog.By, before *store.Resource, after store.Resource) error {
	if before == nil || tx == nil || bytes.Equal(before.Spec, after.Spec) {
		return nil
	}
	refs, err := tx.Referrers(ctx, store.Ref{Kind: after.Kind, Name: after.Name}, maxReferrers)
	if err != nil {
		return err
	}
	var names []string
	for _, ref := range refs {
		if ref.Kind == store.KindService {
			names = append(names, ref.Name)
		}
	}
	services, err := tx.Named(ctx, store.KindService, names)
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	for _, name := range names {
		var spec state.ServiceSpec
		if err := json.Unmarshal(services[name].Spec, &spec); err != nil {
			return fmt.Errorf("decode service %q: %w", name, err)
		}
		if !spec.Catalog || asked[spec.ServiceAccount] {
			continue
		}
		asked[spec.ServiceAccount] = true
		if err := k.mayActAs(ctx, by, spec.ServiceAccount, fmt.Sprintf("source %q: folders of it are applied to the catalog", after.Name)); err != nil {
			return err
		}
	}
	return nil
}

// maxReferrers is more resources than can name one.
const maxReferrers = 1_000_000

// mayActAs refuses callers without every right of a service account, and tokens of which nothing may last: what a
// folder declares as the account stays when the token has ended.
func (k *Rules) mayActAs(ctx context.Context, by catalog.By, account, why string) error {
	if err := by.Identity.MayMake(platform.Right); err != nil {
		return refusal.New(refusal.Forbidden, "%s: %s", why, err)
	}
	if by.Identity.Has(platform.RoleAdmin) {
		return nil
	}
	if by.Identity.Limits != nil {
		return refusal.New(refusal.Forbidden, "%s: a token with limits may not act as service account %q: log in yourself", why, account)
	}
	rules, err := k.get(ctx, k.since(by))
	if err != nil {
		return err
	}
	if !rules.Any(platform.ServiceAccount(account)) {
		return refusal.New(refusal.Forbidden, "%s: service account %q has no grants yet, and whoever names it now would have those that it gets: ask an administrator to grant it something first", why, account)
	}
	beyond := rules.Beyond(by.Identity, platform.ServiceAccount(account))
	if beyond == "" {
		return nil
	}
	rule := "a grant of it gives more"
	if decision := rules.May(by.Identity, access.View, access.Target{Kind: access.Grant, Name: beyond}); decision.Allowed {
		rule = fmt.Sprintf("grant %q gives it more", beyond)
	}
	return refusal.New(refusal.Forbidden, "%s: %s may not act as service account %q, for %s than any one grant gives you. %s", why, access.Who(by.Identity), account, rule, access.Help)
}
