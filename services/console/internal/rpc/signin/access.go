package signin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	rules "fairlead.dev/platform/access"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/descriptor"
)

type access struct{ Deps }

func (s *access) GetCaller(ctx context.Context, _ *consolev1.GetCallerRequest) (*consolev1.GetCallerResponse, error) {
	caller, _ := platform.FromContext(ctx) // the policy has seen to it
	grants, err := s.Rights.Grants(ctx, caller)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.GetCallerResponse{
		Subject: shownSubject(caller), Groups: caller.Groups, Administrator: caller.Has(platform.RoleAdmin), ExpireTime: descriptor.Stamp(caller.ExpiresAt), Grants: grants,
	}, nil
}

const serviceAccountSubject = "serviceaccount:"

// shownSubject is how people name somebody: service accounts are a kind of their own for them.
func shownSubject(id platform.Identity) string { return shownName(id.Subject()) }

func shownName(subject string) string {
	user, ok := strings.CutPrefix(subject, string(platform.KindUser)+":")
	if ok && strings.HasPrefix(user, serviceAccountSubject) {
		return user
	}
	return subject
}

// identityOf is the identity of a subject as people write it.
func identityOf(subject string, groups []string) (platform.Identity, error) {
	if account, ok := strings.CutPrefix(subject, serviceAccountSubject); ok {
		id := platform.ServiceAccount(account)
		return id, id.Validate()
	}
	user, ok := strings.CutPrefix(subject, string(platform.KindUser)+":")
	if !ok {
		return platform.Identity{}, fmt.Errorf("subject %q: must be like user:ada or serviceaccount:ci", subject)
	}
	return platform.Person(user, groups)
}

func (s *access) CheckAccess(ctx context.Context, req *consolev1.CheckAccessRequest) (*consolev1.CheckAccessResponse, error) {
	who, _ := platform.FromContext(ctx)
	if req.GetSubject() != "" && req.GetSubject() != shownSubject(who) {
		if !who.Has(platform.RoleAdmin) {
			return nil, connect.NewError(connect.CodePermissionDenied, errors.New("only administrators ask for others: leave the subject out"))
		}
		var err error
		if who, err = identityOf(req.GetSubject(), req.GetGroups()); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	decision, err := s.decide(ctx, who, req)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	out := &consolev1.CheckAccessResponse{Allowed: decision.Allowed, Reason: decision.Reason}
	if decision.Allowed {
		out.Reason = decision.Rule
	}
	return out, nil
}

func (s *access) decide(ctx context.Context, who platform.Identity, req *consolev1.CheckAccessRequest) (rules.Decision, error) {
	if req.GetKind() == "" {
		if req.GetCluster() == "" {
			return rules.Decision{}, refusal.New(refusal.Invalid, "name a kind, or a cluster for its Kubernetes API")
		}
		return s.Rights.AtCluster(ctx, who, req.GetVerb(), req.GetCluster())
	}
	verb := rules.Verb(req.GetVerb())
	if !slices.Contains(rules.Verbs(), verb) {
		return rules.Decision{}, refusal.New(refusal.Invalid, "verb %q: there are view, deploy, edit and delete; without a kind, read, write, exec and secrets", verb)
	}
	if !slices.Contains(rules.Kinds(), req.GetKind()) {
		return rules.Decision{}, refusal.New(refusal.Invalid, "kind %q: there are %s", req.GetKind(), strings.Join(rules.Kinds(), ", "))
	}
	at, err := s.Rights.Find(ctx, rules.Target{Kind: req.GetKind(), Name: req.GetName(), Project: req.GetProject(), Cluster: req.GetCluster()})
	if err != nil {
		return rules.Decision{}, err
	}
	return s.Rights.Decide(ctx, who, verb, at)
}
