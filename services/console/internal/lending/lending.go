// Package lending lends access to clusters for a while: one person asks for a role, another one who has it for good
// approves.
//
// The role is lent by a grant with an end, so that every service that judges grants judges it by its own clock, the
// console away or not. The grant, what became of the request, its event and its entry in the audit trail are written in
// one transaction. A person does not decide about a request of their own.
package lending

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/access"
	trail "fairlead.dev/platform/audit"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	// Shortest and Longest bound what is lent: what somebody needs for longer is a grant.
	Shortest, Longest = time.Minute, 7 * 24 * time.Hour
	// WaitsFor is how long a request waits for a decision.
	WaitsFor = 24 * time.Hour
	// KeptFor is how long a request is kept after it was over. The audit trail has it, too.
	KeptFor = 90 * 24 * time.Hour
	// maxOpen bounds the requests of one person that wait or are lent.
	maxOpen = 20
	// maxDaily bounds the requests of one person in 24 hours, whatever became of them: each is an event, a notification
	// and entries in the audit trail.
	maxDaily = 100
	// endEvery is how often it is looked for what has ended: a few rows of an index. Rights end by themselves before.
	endEvery = 5 * time.Second
	// endRows is how many are ended at once.
	endRows = 100
	// clockAuthor is who the history says removed a grant whose time was over.
	clockAuthor = "clock"

	defaultPageSize, maxPageSize = 100, 1000
	// maxLooks is how many times maxPageSize rows are looked through for one page: a caller who sees few of them gets
	// the rest with the next page.
	maxLooks = 10
)

// Desk keeps requests.
type Desk struct {
	Store   *store.Store
	Catalog *catalog.Catalog
	Rights  *authz.Rules
	Log     *slog.Logger
	Now     func() time.Time
}

// Ask is what somebody asks for.
type Ask struct {
	Cluster, Role, Reason string
	For                   time.Duration
}

// Request asks for access.
func (k *Desk) Request(ctx context.Context, by catalog.By, ask Ask) (r store.AccessRequest, err error) {
	if by.Identity.MayMake(platform.Right) != nil {
		return r, refusal.New(refusal.Forbidden, "request access: a token that was handed on asks for no access: log in with `fairlead login`")
	}
	if ask.For < Shortest || ask.For > Longest {
		return r, refusal.New(refusal.Invalid, "duration: %s: access is lent for a minute at least and for 7 days at most", ask.For)
	}
	if _, err := k.Catalog.GetCluster(ctx, ask.Cluster); err != nil {
		return r, err
	}
	role, err := k.role(ctx, ask.Role)
	if err != nil {
		return r, err
	}
	now := k.now()
	r = store.AccessRequest{
		ID: trail.NewID(), Subject: by.Subject, Cluster: ask.Cluster, State: store.RequestWaiting, Due: now.Add(WaitsFor),
		RequestData: store.RequestData{Role: role, For: ask.For, Reason: ask.Reason, CreateTime: now},
	}
	err = k.Store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		open, err := tx.OpenRequests(ctx, r.Subject)
		if err != nil {
			return err
		}
		for _, o := range open {
			if o.Cluster == r.Cluster && o.Role == r.Role {
				return refusal.New(refusal.Precondition,
					"access request %s is for role %s at cluster %q already, and is %s: `fairlead cluster access revoke %s` ends it", o.ID, o.Role, o.Cluster, o.State, o.ID)
			}
		}
		if len(open) >= maxOpen {
			return refusal.New(refusal.Precondition,
				"%d requests of yours are open, and no more can be: end some with `fairlead cluster access revoke`", len(open))
		}
		daily, err := tx.RequestsSince(ctx, r.Subject, trail.FirstID(now.Add(-24*time.Hour)))
		if err != nil {
			return err
		}
		if daily >= maxDaily {
			return refusal.New(refusal.Exhausted,
				"%d requests of yours were made in the last 24 hours, and no more can be: ask an administrator for a grant", daily)
		}
		tx.Tell(event.AccessRequested(r, tx.Now()))
		return k.put(ctx, tx, by, r, "access.request", r.Reason)
	})
	return r, err
}

// role is the one that a request is about. Kubernetes' own names stand for the roles that come nearest.
func (k *Desk) role(ctx context.Context, name string) (string, error) {
	if access.IsBuiltin(name) {
		return name, nil
	}
	own, err := k.Rights.HasRole(ctx, name)
	if err != nil || own {
		return name, err
	}
	switch name {
	case "view":
		return "viewer", nil
	case "edit":
		return "operator", nil
	}
	return "", refusal.New(refusal.Invalid, "role: %q is none: there are viewer, deployer, operator, admin, those of `fairlead get roles`, and view and edit for viewer and operator", name)
}

// Approve lends what a request asks for, from now on.
func (k *Desk) Approve(ctx context.Context, by catalog.By, id, reason string) (store.AccessRequest, error) {
	return k.decide(ctx, by, id, func(ctx context.Context, tx *store.Tx, r *store.AccessRequest) error {
		r.State, r.Until, r.Grant = store.RequestApproved, tx.Now().Add(r.For), "access-"+r.ID
		r.Due, r.Decider, r.DecisionReason, r.DecideTime = r.Until, by.Subject, reason, tx.Now()
		grant := resource.Grant{Meta: state.Meta{Name: r.Grant}, Spec: resource.GrantSpec{
			Role: r.Role, Clusters: resource.GrantClusters{Names: []string{r.Cluster}}, Until: r.Until,
		}}
		who, err := identityOf(r.Subject)
		if err != nil {
			return err
		}
		if account, ok := who.ServiceAccount(); ok {
			grant.Spec.ServiceAccounts = []string{account}
		} else {
			grant.Spec.Users = []string{who.Name}
		}
		edit, err := catalog.DraftGrant(&grant, catalog.Expectation{ETag: catalog.MustBeNew})
		if err != nil {
			return err
		}
		// The right of who approves is judged above: it is not that to write any grant.
		if _, err := k.Catalog.PutIn(ctx, catalog.Write{Tx: tx, By: catalog.Self(by.Subject)}, []catalog.Edit{edit}); err != nil {
			return err
		}
		tx.Tell(event.AccessApproved(*r, tx.Now()))
		return k.put(ctx, tx, by, *r, "access.approve", reason)
	})
}

// Deny refuses what a request asks for.
func (k *Desk) Deny(ctx context.Context, by catalog.By, id, reason string) (store.AccessRequest, error) {
	return k.decide(ctx, by, id, func(ctx context.Context, tx *store.Tx, r *store.AccessRequest) error {
		r.State, r.Due, r.End = store.RequestDenied, time.Time{}, tx.Now()
		r.Decider, r.DecisionReason, r.DecideTime = by.Subject, reason, tx.Now()
		tx.Tell(event.AccessDenied(*r, tx.Now()))
		return k.put(ctx, tx, by, *r, "access.deny", reason)
	})
}

// decide has a request that waits decided by who may.
func (k *Desk) decide(ctx context.Context, by catalog.By, id string,
	how func(context.Context, *store.Tx, *store.AccessRequest) error,
) (r store.AccessRequest, err error) {
	if r, err = k.find(ctx, by, id); err != nil {
		return r, err
	}
	if err := k.mayDecide(ctx, by, r); err != nil {
		return r, err
	}
	err = k.Store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		if r, err = tx.AccessRequest(ctx, id); err != nil {
			return err
		}
		if r.State != store.RequestWaiting || !r.Due.After(tx.Now()) {
			return over(r)
		}
		return how(ctx, tx, &r)
	})
	return r, err
}

// over refuses what can't be done with a request any more.
func over(r store.AccessRequest) error {
	is := r.State
	if is == store.RequestWaiting {
		is = store.RequestLapsed
	}
	by := ""
	if who := cmp.Or(r.Revoker, r.Decider); who != "" && is != store.RequestEnded {
		by = " by " + who
	}
	return refusal.New(refusal.Precondition, "access request %s is %s already%s: ask anew with `fairlead cluster access request`", r.ID, is, by)
}

// mayDecide refuses to decide about one's own request, and about what the caller does not have for good.
func (k *Desk) mayDecide(ctx context.Context, by catalog.By, r store.AccessRequest) error {
	if err := by.Identity.MayMake(platform.Right); err != nil {
		return refusal.New(refusal.Forbidden, "access request %s: %s", r.ID, err)
	}
	if by.Subject == r.Subject {
		return refusal.New(refusal.Forbidden, "access request %s is your own: somebody else has to decide about it", r.ID)
	}
	// The holder of the account's token may be the one who decides, under their own name.
	if strings.HasPrefix(r.Subject, platform.ServiceAccount("").Subject()) && !slices.Contains(by.Identity.Groups, platform.AdminsGroup) {
		return refusal.New(refusal.Forbidden, "access request %s is of a service account: a member of %s has to decide about it", r.ID, platform.AdminsGroup)
	}
	judge, err := k.Rights.Judge(ctx)
	if err != nil {
		return err
	}
	if decision := judge.MayLend(by.Identity, r.Role, r.Cluster); !decision.Allowed {
		return refusal.New(refusal.Forbidden, "access request %s: %s", r.ID, decision.Reason)
	}
	return nil
}

// sees tells whether the caller sees a request: their own, or one that they could decide about.
func sees(judge authz.Judge, who platform.Identity, r store.AccessRequest) bool {
	return who.Subject() == r.Subject || judge.MayLend(who, r.Role, r.Cluster).Allowed
}

// find returns a request that the caller sees.
func (k *Desk) find(ctx context.Context, by catalog.By, id string) (r store.AccessRequest, err error) {
	judge, err := k.Rights.Judge(ctx)
	if err != nil {
		return r, err
	}
	err = k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		r, err = v.AccessRequest(ctx, id)
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && !sees(judge, by.Identity, r) {
		return store.AccessRequest{}, refusal.New(refusal.NotFound,
			"access request %q does not exist, or is none that you may see: `fairlead cluster access list --all` shows those", id)
	}
	return r, err
}

// Revoke ends what is lent before its time, or takes back a request that waits.
func (k *Desk) Revoke(ctx context.Context, by catalog.By, id, reason string) (r store.AccessRequest, err error) {
	if r, err = k.find(ctx, by, id); err != nil {
		return r, err
	}
	err = k.Store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		if r, err = tx.AccessRequest(ctx, id); err != nil {
			return err
		}
		if r.Due.IsZero() {
			return over(r)
		}
		r.State, r.Revoker, r.RevocationReason, r.RevokeTime = store.RequestRevoked, by.Subject, reason, tx.Now()
		if err := k.end(ctx, tx, catalog.Self(by.Subject), &r); err != nil {
			return err
		}
		tx.Tell(event.AccessRevoked(r, tx.Now()))
		return k.put(ctx, tx, by, r, "access.revoke", reason)
	})
	return r, err
}

// end removes the grant of a request that is over. An administrator may have removed it before.
func (k *Desk) end(ctx context.Context, tx *store.Tx, by catalog.By, r *store.AccessRequest) error {
	r.Due, r.End = time.Time{}, tx.Now()
	if r.Grant == "" {
		return nil
	}
	found, err := tx.Named(ctx, store.KindGrant, []string{r.Grant})
	if err != nil {
		return err
	}
	if _, there := found[r.Grant]; there {
		if _, err := k.Catalog.PutIn(ctx, catalog.Write{Tx: tx, By: by}, []catalog.Edit{catalog.Removal(store.KindGrant, r.Grant, "")}); err != nil {
			return err
		}
	}
	r.Grant = ""
	return nil
}

// put keeps a request, with its entry in the audit trail.
func (k *Desk) put(ctx context.Context, tx *store.Tx, by catalog.By, r store.AccessRequest, action, reason string) error {
	if err := tx.PutAccessRequest(ctx, r, tx.Now().Add(-KeptFor)); err != nil {
		return err
	}
	what := fmt.Sprintf("role %s for %s, asked for by %s", r.Role, r.For, r.Subject)
	if reason != "" {
		what += ": " + reason
	}
	who := audit.Who{Identity: by.Identity, Remote: by.Remote, TraceID: by.TraceID}
	return tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: action, Resource: "AccessRequest", Name: r.ID, Cluster: r.Cluster, Reason: what}))
}

// List returns a page of the requests that the caller sees, the newest first, and the token of the next one.
func (k *Desk) List(ctx context.Context, by catalog.By, all bool, size int, before string) (out []store.AccessRequest, next string, err error) {
	size = min(cmp.Or(size, defaultPageSize), maxPageSize)
	judge, err := k.Rights.Judge(ctx)
	if err != nil {
		return nil, "", err
	}
	for range maxLooks {
		var rows []store.AccessRequest
		err := k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
			rows, err = v.AccessRequests(ctx, all, before, maxPageSize)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		for _, r := range rows {
			shown := sees(judge, by.Identity, r)
			if shown && len(out) == size {
				return out, before, nil
			}
			if before = r.ID; shown {
				out = append(out, r)
			}
		}
		if len(rows) < maxPageSize {
			return out, "", nil
		}
	}
	return out, before, nil
}

// Run ends what is over until the context ends. Every console does so: the first one does it.
func (k *Desk) Run(ctx context.Context) error {
	ticker := time.NewTicker(endEvery)
	defer ticker.Stop()
	var away outage.Outage
	for {
		err := k.EndDue(ctx)
		switch {
		case err == nil:
			away.Over(ctx, k.Log, k.Now(), "lent access is tidied up again")
		case ctx.Err() == nil:
			away.Failed(ctx, k.Log, k.Now(), "grants whose time is over stay for now, and give nothing", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// EndDue ends the requests whose time has come.
func (k *Desk) EndDue(ctx context.Context) error {
	for {
		var due []store.AccessRequest
		err := k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
			due, err = v.DueRequests(ctx, k.now(), endRows)
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		for _, r := range due {
			if err := k.endDue(ctx, r.ID); err != nil {
				return fmt.Errorf("end access request %s: %w", r.ID, err)
			}
		}
	}
}

func (k *Desk) endDue(ctx context.Context, id string) error {
	return k.Store.Write(ctx, clockAuthor, func(ctx context.Context, tx *store.Tx) error {
		r, err := tx.AccessRequest(ctx, id)
		if err != nil || r.Due.IsZero() || r.Due.After(k.now()) { // another console was first
			return err
		}
		action := "access.end"
		if r.State == store.RequestWaiting {
			r.State, action = store.RequestLapsed, "access.lapse"
		} else {
			r.State = store.RequestEnded
		}
		if err := k.end(ctx, tx, catalog.Self(clockAuthor), &r); err != nil {
			return err
		}
		tx.Tell(event.AccessEnded(r, tx.Now()))
		by := catalog.By{Identity: audit.Console().Identity}
		return k.put(ctx, tx, by, r, action, "")
	})
}

// now is the time as the database keeps it.
func (k *Desk) now() time.Time { return k.Now().UTC().Truncate(time.Microsecond) }

// identityOf is the user behind a subject.
func identityOf(subject string) (platform.Identity, error) {
	name, ok := strings.CutPrefix(subject, string(platform.KindUser)+":")
	if !ok {
		return platform.Identity{}, fmt.Errorf("subject %q is no user", subject)
	}
	return platform.Identity{Kind: platform.KindUser, Name: name}, nil
}
