package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"fairlead.dev/e2e/process"
)

// leftovers are attacks by what remains of something: tickets of a deleted cluster, requests that nobody approved, and
// what the parts wrote down. leftovers come last: the last one looks for planted secrets in what all the others left.
func leftovers() []Attack {
	return []Attack{
		{Name: "access to a cluster that was asked for and not approved", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.askedFor(ctx) }},
		{Name: "ticket of a cluster that was deleted and made again", CVE: []string{"CVE-2019-6287"}, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.oldTicket(ctx) }},
		{Name: "secrets in logs, metrics and probes, after all other attacks", Part: console, Alone: true, Run: func(ctx context.Context, t *Try) (string, error) { return t.writtenDown(ctx) }},
	}
}

const lendingService = consoleV1 + "LendingService/"

// askedFor asks for the rights of an operator at the victim's cluster, as a person who sees the cluster because of one
// project there. The request is no right, and neither the person nor others without rights of their own can make one of
// it.
func (t *Try) askedFor(ctx context.Context) (string, error) {
	ask := func(token, cluster string) (Answer, error) {
		return t.call(ctx, console, lendingService+"CreateAccessRequest", token, map[string]any{"cluster": cluster, "role": "operator", "duration": "3600s", "reason": "please"})
	}
	var none, made Answer
	var err error
	if none, err = ask(t.world.callers.stranger, "no-such-cluster"); err != nil {
		return "", err
	}
	if made, err = ask(t.world.callers.stranger, "a"); err != nil || made.Code != none.Code || made.Code == http.StatusOK || strings.ReplaceAll(made.Body, `"a\"`, `"no-such-cluster\"`) != strings.ReplaceAll(none.Body, `"a\"`, `"no-such-cluster\"`) {
		return made.String() + " / " + none.String(), errors.Join(err, errors.New("a person without a grant can tell which clusters there are"))
	}
	if made, err = ask(t.world.callers.viewer, "a"); err != nil || made.Code != http.StatusOK {
		return made.String(), errors.Join(err, errors.New("a person who sees the cluster can't ask, so that this tries nothing"))
	}
	var told struct {
		Request struct{ ID, State string }
	}
	if err := json.Unmarshal([]byte(made.Body), &told); err != nil || told.Request.State != "ACCESS_REQUEST_STATE_WAITING" {
		return made.String(), errors.Join(err, errors.New("the request does not wait"))
	}
	for name, token := range map[string]string{"the requester": t.world.callers.viewer, "a deployer of the project": t.world.callers.deployer, "a stranger": t.world.callers.stranger, "a reader of another cluster": t.world.callers.reader, "an agent": t.world.evil.token, "a service": t.world.callers.services[tunnel]} {
		a, err := t.call(ctx, console, lendingService+"ApproveAccessRequest", token, map[string]any{"id": told.Request.ID, "reason": "granted"})
		if err != nil {
			return "", err
		}
		if a.Code != http.StatusForbidden && a.Code != http.StatusNotFound && a.Code != http.StatusUnauthorized {
			return a.String(), fmt.Errorf("%s approves it", name)
		}
	}
	var last Answer
	for _, path := range []string{"/api/v1/namespaces/victim/secrets", "/api/v1/namespaces/shop/pods", "/api/v1/namespaces"} {
		if last, err = t.get(ctx, t.world.Hub[tunnel]+"/clusters/a"+path, t.world.callers.viewer); err != nil || last.Code != http.StatusForbidden {
			return last.String(), errors.Join(err, fmt.Errorf("%s is served to who asked", path))
		}
	}
	a, err := t.call(ctx, console, lendingService+"RevokeAccessRequest", t.world.callers.viewer, map[string]any{"id": told.Request.ID})
	if err != nil || a.Code != http.StatusOK {
		return a.String(), errors.Join(err, errors.New("it can't be taken back"))
	}
	return last.String(), nil
}

// delivered is what an agent is told to fetch.
type delivered struct {
	Changes struct {
		Services []struct {
			Name, Ticket string
			Artifact     struct{ Digest string }
		}
	}
}

// ticket waits until the service of an attacker's cluster is delivered, and returns its artifact and the ticket for it.
func (t *Try) ticket(ctx context.Context, c cluster) (digest, ticket string, err error) {
	service := "apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: " + c.name + "}\nspec: {source: sample, path: shop, cluster: " + c.name + ", namespace: shop}\n"
	if err := t.world.apply(ctx, service); err != nil {
		return "", "", err
	}
	err = process.Await(ctx, "the service is delivered to "+c.name, func(ctx context.Context) error {
		a, err := t.call(ctx, distributor, deliveryService+"Sync", c.token, map[string]any{})
		if err != nil {
			return err
		}
		var told delivered
		if err := json.Unmarshal([]byte(a.Body), &told); err != nil {
			return err
		}
		for _, s := range told.Changes.Services {
			digest, ticket = s.Artifact.Digest, s.Ticket
		}
		if digest == "" || ticket == "" {
			return errors.New(a.String())
		}
		return nil
	})
	return digest, ticket, err
}

// oldTicket deletes a cluster and makes another one of its name, whose agent shows the ticket of the first at the
// gitcache.
func (t *Try) oldTicket(ctx context.Context) (string, error) {
	const name = "ticketed"
	first, err := t.world.join(ctx, name)
	if err != nil {
		return "", err
	}
	digest, old, err := t.ticket(ctx, first)
	if err != nil {
		return "", err
	}
	fetch := func(token, ticket string) (Answer, error) {
		return t.send(ctx, http.MethodGet, t.world.Hub[gitcache]+"/v1/artifacts/"+digest, token, http.NoBody, "Fairlead-Artifact-Ticket", ticket)
	}
	if a, err := fetch(first.token, old); err != nil || a.Code != http.StatusOK {
		return a.String(), errors.Join(err, errors.New("the ticket opens nothing before, so that this tries nothing"))
	}
	for _, gone := range []string{"ServiceService/DeleteService", "ClusterService/DeleteCluster"} {
		if err := t.must(ctx, console, consoleV1+gone, t.world.callers.admin, map[string]any{"name": name}, nil); err != nil {
			return "", err
		}
	}
	next, err := t.world.join(ctx, name)
	if err != nil {
		return "", err
	}
	// The gitcache learns of the new agent's cluster by its token; a ticket of its own opens the same artifact.
	_, own, err := t.ticket(ctx, next)
	if err != nil {
		return "", err
	}
	if a, err := fetch(next.token, own); err != nil || a.Code != http.StatusOK {
		return a.String(), errors.Join(err, errors.New("the next cluster's own ticket opens nothing, so that this tries nothing"))
	}
	var last Answer
	for _, try := range [][2]string{{next.token, old}, {t.world.evil.token, own}, {t.world.evil.token, old}, {next.token, own + "x"}} {
		if last, err = fetch(try[0], try[1]); err != nil || last.Code/100 != 4 {
			return last.String(), errors.Join(err, errors.New("a ticket opens an artifact to a cluster that it is not for"))
		}
	}
	return last.String(), nil
}

// writtenDown looks for secrets in what the parts wrote while they were attacked.
func (t *Try) writtenDown(ctx context.Context) (string, error) {
	hubSecret, err := os.ReadFile(t.world.HubSecret())
	if err != nil {
		return "", err
	}
	secrets := []string{t.world.planted.secret, t.world.planted.object, strings.TrimSpace(string(hubSecret)), t.world.metrics, t.world.evil.token, t.world.callers.admin, t.world.callers.stranger, t.world.callers.viewer, t.world.callers.deployer, t.world.callers.reader}
	for _, token := range t.world.callers.services {
		secrets = append(secrets, token)
	}
	for _, name := range []string{"a", "b"} {
		token, err := t.world.agentToken(name)
		if err != nil {
			return "", err
		}
		secrets = append(secrets, token)
	}
	looked := 0
	look := func(what, text string) error {
		looked += len(text)
		if err := silentOf(text, secrets...); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	var errs []error
	for _, name := range t.world.Parts() {
		log, err := t.world.Process(name).Log()
		errs = append(errs, err, look("the log of "+name, log))
	}
	for _, part := range hubParts() {
		for _, path := range []string{"/metrics", "/readyz", "/version", "/debug/log"} {
			a, err := t.get(ctx, t.world.Hub[part]+path, t.world.callers.admin)
			errs = append(errs, err, look(path+" of "+part, a.Body))
		}
	}
	return fmt.Sprintf("%d secrets in none of %d KiB", len(secrets), looked>>10), errors.Join(errs...)
}
