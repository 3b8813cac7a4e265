package acceptance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

// people are those of the tests of lending: ada administrates, lea has role admin at edge-1 for good, bob may see it,
// eve may nothing.
type people struct {
	*running
	admin, lea, bob, eve api
}

func newPeople(t *testing.T, db string) people {
	t.Helper()
	r := newHub(t, db).start(t)
	person := func(name string) api {
		return r.as(t, r.sign(t, identity.Identity{Kind: identity.KindUser, Name: name}))
	}
	p := people{r, r.admin(t), person("lea"), person("bob"), person("eve")}
	p.admin.must(t, newCluster("edge-1"), newCluster("edge-2"), grantFor("leads", "admin", "lea"),
		grantFor("viewers", "viewer", "bob"))
	return p
}

func grantFor(name, role, user string) *consolev1.Grant {
	return &consolev1.Grant{Metadata: meta(name), Spec: &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: user}}}, Role: role,
		Clusters: &consolev1.GrantClusters{Names: []string{"edge-1"}},
	}}
}

func asking(role string) *consolev1.CreateAccessRequestRequest {
	return &consolev1.CreateAccessRequestRequest{
		Cluster: "edge-1", Role: role, Duration: durationpb.New(time.Hour), Reason: "incident 7",
	}
}

func (a api) ask(t *testing.T, role string) *consolev1.AccessRequest {
	t.Helper()
	res, err := a.lending.CreateAccessRequest(t.Context(), asking(role))
	if err != nil {
		t.Fatal(err)
	}
	return res.GetRequest()
}

func (a api) approve(t *testing.T, id string) *consolev1.AccessRequest {
	t.Helper()
	res, err := a.lending.ApproveAccessRequest(t.Context(), &consolev1.ApproveAccessRequestRequest{
		Id: id, Reason: "go on",
	})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetRequest()
}

// may asks whether somebody may exec at edge-1.
func (a api) may(t *testing.T) bool {
	t.Helper()
	res, err := a.access.CheckAccess(t.Context(), &consolev1.CheckAccessRequest{Verb: "exec", Cluster: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetAllowed()
}

func (a api) requests(t *testing.T, all bool) (out []string) {
	t.Helper()
	res, err := a.lending.ListAccessRequests(t.Context(), &consolev1.ListAccessRequestsRequest{All: all})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.GetRequests() {
		out = append(out, r.GetSubject()+" "+r.GetRole()+" "+
			strings.ToLower(strings.TrimPrefix(r.GetState().String(), "ACCESS_REQUEST_STATE_")))
	}
	return out
}

func TestAccessIsLentBySomebodyElse(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeople(t, db)
			r := p.bob.ask(t, "edit")
			if r.GetRole() != "operator" ||
				r.GetState() != consolev1.AccessRequestState_ACCESS_REQUEST_STATE_WAITING ||
				r.GetSubject() != "user:bob" {
				t.Errorf("asked for: %v", r)
			}
			if p.bob.may(t) {
				t.Error("a request that waits gives rights")
			}
			began := time.Now()
			r = p.lea.approve(t, r.GetId())
			if left := r.GetUntilTime().AsTime().Sub(began); r.GetDecider() != "user:lea" ||
				r.GetDecisionReason() != "go on" || left < 59*time.Minute || left > 61*time.Minute {
				t.Errorf("approved: %v", r)
			}
			if !p.bob.may(t) {
				t.Error("what is lent gives nothing")
			}
			got, err := p.admin.grants.GetGrant(t.Context(), &consolev1.GetGrantRequest{Name: r.GetGrant()})
			if err != nil || got.GetGrant().GetSpec().GetRole() != "operator" ||
				!got.GetGrant().GetSpec().GetUntilTime().AsTime().Equal(r.GetUntilTime().AsTime()) {
				t.Errorf("grant %v, %v", got, err)
			}
			res, err := p.bob.lending.RevokeAccessRequest(t.Context(), &consolev1.RevokeAccessRequestRequest{
				Id: r.GetId(), Reason: "done",
			})
			if err != nil || res.GetRequest().GetRevoker() != "user:bob" || res.GetRequest().GetGrant() != "" {
				t.Errorf("revoked: %v, %v", res, err)
			}
			if p.bob.may(t) {
				t.Error("what was revoked gives rights")
			}
			if got := p.bob.requests(t, false); len(got) > 0 {
				t.Errorf("open: %v", got)
			}
			if got := p.bob.requests(t, true); !slices.Equal(got, []string{"user:bob operator revoked"}) {
				t.Errorf("all: %v", got)
			}
			for _, action := range []string{"access.request", "access.approve", "access.revoke"} {
				events := p.admin.eventsOf(t, action)
				if len(events) != 1 || events[0].GetCluster() != "edge-1" || events[0].GetName() != r.GetId() ||
					!strings.Contains(events[0].GetReason(), "operator") {
					t.Errorf("%s in the trail: %v", action, events)
				}
			}
			told, err := p.bob.events.ListEvents(t.Context(), &consolev1.ListEventsRequest{Filter: "type : access."})
			if err != nil {
				t.Fatal(err)
			}
			var types []string
			for _, e := range told.GetEvents() {
				types = append(types, e.GetType()+" "+e.GetActor())
			}
			if got := strings.Join(types,
				", "); got != "access.revoked user:bob, access.approved user:lea, access.requested user:bob" {
				t.Errorf("told %s", got)
			}
		})
	}
}

func TestOnlyThoseWhoMayDecideAboutRequests(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	ctx := t.Context()
	r := p.bob.ask(t, "operator")
	approve := func(a api) error {
		_, err := a.lending.ApproveAccessRequest(ctx, &consolev1.ApproveAccessRequestRequest{Id: r.GetId()})
		return err
	}
	deny := func(a api) error {
		_, err := a.lending.DenyAccessRequest(ctx, &consolev1.DenyAccessRequestRequest{Id: r.GetId()})
		return err
	}
	revoke := func(a api) error {
		_, err := a.lending.RevokeAccessRequest(ctx, &consolev1.RevokeAccessRequestRequest{Id: r.GetId()})
		return err
	}
	for _, do := range []func(api) error{approve, deny} {
		wantCode(t, do(p.bob), connect.CodePermissionDenied, "your own")
	}
	for _, do := range []func(api) error{approve, deny, revoke} {
		wantCode(t, do(p.eve), connect.CodeNotFound, "does not exist")
	}
	// An administrator decides about no request of their own either, in whatever token.
	own := p.admin.ask(t, "admin")
	_, err := p.admin.lending.ApproveAccessRequest(ctx, &consolev1.ApproveAccessRequestRequest{Id: own.GetId()})
	wantCode(t, err, connect.CodePermissionDenied, "your own")
	// The holder of an account's token may be one of those who decide.
	p.admin.must(t, &consolev1.ServiceAccount{
		Metadata: meta("ci"),
	}, &consolev1.Grant{Metadata: meta("ci"), Spec: &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_ServiceAccount{ServiceAccount: "ci"}}},
		Role:     "viewer",
		Clusters: &consolev1.GrantClusters{Names: []string{"edge-1"}},
	}})
	of := p.as(t, p.sign(t, identity.ServiceAccount("ci"))).ask(t, "operator").GetId()
	_, err = p.lea.lending.ApproveAccessRequest(ctx, &consolev1.ApproveAccessRequestRequest{Id: of})
	wantCode(t, err, connect.CodePermissionDenied, "service account", "fairlead:admins")
	if _, err := p.admin.lending.ApproveAccessRequest(ctx, &consolev1.ApproveAccessRequestRequest{Id: of}); err != nil {
		t.Error(err)
	}
	// A person to whom role admin is lent lends nothing on.
	kim := p.as(t, p.sign(t, identity.Identity{Kind: identity.KindUser, Name: "kim"}))
	lent := grantFor("borrowed", "admin", "kim")
	lent.Spec.UntilTime = timestamppb.New(time.Now().Add(time.Hour))
	p.admin.must(t, lent)
	wantCode(t, approve(kim), connect.CodeNotFound)
	// A token that was handed on makes no rights, and asks for none.
	handed, err := p.lea.identity.RenewToken(ctx, &consolev1.RenewTokenRequest{Lifetime: durationpb.New(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	holder := p.as(t, handed.GetToken().GetToken())
	wantCode(t, approve(holder), connect.CodePermissionDenied, "handed on")
	_, err = holder.lending.CreateAccessRequest(ctx, asking("operator"))
	wantCode(t, err, connect.CodePermissionDenied, "a token that was handed on asks for no access")

	if got := p.lea.requests(t,
		false); !slices.Equal(got, []string{
		"serviceaccount:ci operator approved", "user:ada admin waiting", "user:bob operator waiting",
	}) {
		t.Errorf("lea sees %v", got)
	}
	if got := p.bob.requests(t, true); !slices.Equal(got, []string{"user:bob operator waiting"}) {
		t.Errorf("bob sees %v", got)
	}
	if got := p.eve.requests(t, true); len(got) > 0 {
		t.Errorf("eve sees %v", got)
	}
	if err := deny(p.lea); err != nil {
		t.Fatal(err)
	}
	wantCode(t, approve(p.admin), connect.CodeFailedPrecondition, "denied already by user:lea")
	wantCode(t, revoke(p.bob), connect.CodeFailedPrecondition, "denied already")
	if p.bob.may(t) {
		t.Error("what was denied gives rights")
	}
	if len(p.admin.eventsOf(t, "access.deny")) != 1 {
		t.Error("the denial is not in the trail")
	}
}

func TestAccessIsAskedForWithinBounds(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	ctx := t.Context()
	for what, tc := range map[string]struct {
		change func(*consolev1.CreateAccessRequestRequest)
		code   connect.Code
		want   string
	}{
		"too short": {
			func(r *consolev1.CreateAccessRequestRequest) { r.Duration = durationpb.New(time.Second) },
			connect.CodeInvalidArgument, "a minute at least",
		},
		"too long": {
			func(r *consolev1.CreateAccessRequestRequest) { r.Duration = durationpb.New(8 * 24 * time.Hour) },
			connect.CodeInvalidArgument, "7 days at most",
		},
		"no duration": {
			func(r *consolev1.CreateAccessRequestRequest) { r.Duration = nil }, connect.CodeInvalidArgument, "duration",
		},
		"no reason": {
			func(r *consolev1.CreateAccessRequestRequest) { r.Reason = "" }, connect.CodeInvalidArgument, "reason",
		},
		"no such role": {
			func(r *consolev1.CreateAccessRequestRequest) { r.Role = "root" }, connect.CodeInvalidArgument,
			"fairlead get roles",
		},
		"no such cluster": {
			func(r *consolev1.CreateAccessRequestRequest) { r.Cluster = "nowhere" }, connect.CodeNotFound, "nowhere",
		},
		"a cluster that is hidden": {
			func(r *consolev1.CreateAccessRequestRequest) { r.Cluster = "edge-2" }, connect.CodeNotFound, "edge-2",
		},
	} {
		req := asking("operator")
		tc.change(req)
		_, err := p.bob.lending.CreateAccessRequest(ctx, req)
		if connect.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := p.eve.lending.CreateAccessRequest(ctx, asking("viewer"))
	wantCode(t, err, connect.CodeNotFound)
	p.bob.ask(t, "operator")
	_, err = p.bob.lending.CreateAccessRequest(ctx, asking("operator"))
	wantCode(t, err, connect.CodeFailedPrecondition, "already")
	for i := range 19 {
		name := "r" + string(rune('a'+i))
		p.admin.must(t, &consolev1.Role{Metadata: meta(name), Spec: &consolev1.RoleSpec{Kubernetes: "viewer"}})
		p.bob.ask(t, name)
	}
	_, err = p.bob.lending.CreateAccessRequest(ctx, asking("admin"))
	wantCode(t, err, connect.CodeFailedPrecondition, "20 requests of yours are open")
}

// Requests that are taken back at once fill no trail and wake nobody up without a bound.
func TestRequestsForAccessAreCountedByTheDay(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeople(t, db)
			for range 100 {
				r := p.bob.ask(t, "operator")
				if _, err := p.bob.lending.RevokeAccessRequest(t.Context(),
					&consolev1.RevokeAccessRequestRequest{Id: r.GetId()}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := p.bob.lending.CreateAccessRequest(t.Context(), asking("operator"))
			wantCode(t, err, connect.CodeResourceExhausted, "24 hours")
			p.lea.ask(t, "operator") // other people go on
		})
	}
}

// Labels of a cluster choose who may what there: with what is lent nobody makes themselves a right that outlasts it.
func TestLabelsOfAClusterAreNotChangedByWhatIsLent(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	get := func() *consolev1.Cluster {
		t.Helper()
		res, err := p.admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetCluster()
	}
	relabel := func(a api, labels map[string]string) error {
		c := get()
		c.Metadata.Labels = labels
		_, err := a.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{Cluster: c})
		return err
	}
	p.admin.must(t, &consolev1.Grant{Metadata: meta("dev"), Spec: &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "bob"}}}, Role: "admin",
		Clusters: &consolev1.GrantClusters{Labels: map[string]string{"env": "dev"}},
	}})
	p.lea.approve(t, p.bob.ask(t, "admin").GetId())
	wantCode(t, relabel(p.bob, map[string]string{"env": "dev"}), connect.CodePermissionDenied, "without an end")
	if labels := get().GetMetadata().GetLabels(); len(labels) > 0 {
		t.Errorf("labels %v", labels)
	}
	// All else of the cluster is what was lent, and so is the mark of a join.
	for _, change := range []func(*consolev1.Cluster){
		func(c *consolev1.Cluster) { c.Spec.Description = "bob was here" },
		func(c *consolev1.Cluster) { c.Metadata.Labels = map[string]string{"fairlead.dev/joining": "1"} },
	} {
		c := get()
		if c.Spec == nil {
			c.Spec = &consolev1.ClusterSpec{}
		}
		change(c)
		if _, err := p.bob.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{
			Cluster: c,
		}); err != nil {
			t.Error(err)
		}
	}
	if err := relabel(p.lea, map[string]string{"env": "test"}); err != nil {
		t.Errorf("by a grant without an end: %v", err)
	}
	wantCode(t, relabel(p.bob, nil), connect.CodePermissionDenied, "without an end")
}

// A cluster is not given other labels by deleting it and making it again, either.
func TestAClusterIsNotMadeWithLabelsByAGrantWithAnEnd(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	everywhere := func(name, user string, until *timestamppb.Timestamp) *consolev1.Grant {
		g := grantFor(name, "admin", user)
		g.Spec.Clusters, g.Spec.UntilTime = &consolev1.GrantClusters{All: true}, until
		return g
	}
	p.admin.must(t, newCluster("edge-9"), everywhere("for-a-while", "bob", timestamppb.New(time.Now().Add(time.Hour))),
		everywhere("for-good", "eve", nil))
	remake := func(a api, labels map[string]string) error {
		t.Helper()
		if _, err := p.bob.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "edge-9"}); err != nil && connect.CodeOf(err) != connect.CodeNotFound {
			t.Fatal(err)
		}
		_, err := a.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{
			Cluster:      &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "edge-9", Labels: labels}},
			AllowMissing: true,
		})
		return err
	}
	wantCode(t, remake(p.bob, map[string]string{"env": "dev"}), connect.CodePermissionDenied, "without an end")
	wantCode(t, remake(p.bob, map[string]string{"env": "dev", "fairlead.dev/joining": "1"}),
		connect.CodePermissionDenied, "without an end")
	if err := remake(p.bob, nil); err != nil {
		t.Errorf("without labels: %v", err)
	}
	if err := remake(p.bob, map[string]string{"fairlead.dev/joining": "1"}); err != nil {
		t.Errorf("by a join: %v", err)
	}
	if err := remake(p.eve, map[string]string{"env": "test"}); err != nil {
		t.Errorf("by a grant without an end: %v", err)
	}
}

// Two who decide at the same moment make one grant.
func TestOneDecisionCounts(t *testing.T) {
	t.Parallel()
	db := postgres.Database(t)
	p := newPeople(t, db)
	r := p.bob.ask(t, "operator")
	errs := make(chan error, 8)
	for i := range cap(errs) {
		go func() {
			if i%2 == 0 {
				_, err := p.lea.lending.ApproveAccessRequest(context.WithoutCancel(t.Context()),
					&consolev1.ApproveAccessRequestRequest{Id: r.GetId()})
				errs <- err
				return
			}
			_, err := p.admin.lending.DenyAccessRequest(context.WithoutCancel(t.Context()),
				&consolev1.DenyAccessRequestRequest{Id: r.GetId()})
			errs <- err
		}()
	}
	won := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			won++
		} else {
			wantCode(t, err, connect.CodeFailedPrecondition)
		}
	}
	if won != 1 {
		t.Errorf("%d decisions counted", won)
	}
}
