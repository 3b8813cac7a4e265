package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/login"
)

// lineLifetime is how long a line of tokens is known after its newest token was made: that has expired then.
const lineLifetime = identity.AgentLifetime + time.Hour

// VerifyProof implements identity.ProofVerifier.
func (a *Authority) VerifyProof(id identity.Identity, token, proof string) error {
	if a.Unbound && (proof == "" || id.Key == "") {
		return nil
	}
	return a.proofs.VerifyProof(id, token, proof)
}

// clusterOf returns the cluster of an agent's token: not another one that has its name by now.
func clusterOf(ctx context.Context, v store.View, id identity.Identity) (store.Resource, error) {
	r, err := v.Get(ctx, store.KindCluster, id.Name)
	if errors.Is(err, store.ErrNotFound) || err == nil && id.ClusterUID != "" && id.ClusterUID != r.UID {
		return store.Resource{}, refusal.New(refusal.Unauthenticated, "cluster %q was deleted: its agent's token can't be renewed", id.Name)
	}
	return r, err
}

// keepLine keeps a line of tokens as of a token that was made just now.
func (a *Authority) keepLine(ctx context.Context, tx *store.Tx, line store.AgentToken) error {
	line.RenewTime, line.UseTime = tx.Now(), time.Time{}
	return tx.PutAgentToken(ctx, line, tx.Now().Add(-lineLifetime))
}

// RenewAgent gives an agent the next token of its line, bound to its key, which the caller has seen proved. A token is
// renewed once: who asks with the same request again had no answer, and gets the same token. Another request with the
// same token is from somebody who has a copy of it and of the key (or had it restored from one): that is refused, and
// noted for people to see, who end the line.
func (a *Authority) RenewAgent(ctx context.Context, who audit.Who, id identity.Identity, key string, request []byte) (Token, error) {
	if id.Key != "" && id.Key != key {
		return Token{}, refusal.New(refusal.Unauthenticated, "the token is bound to another key than the one that renews it: join again")
	}
	const least = 16
	if len(request) < least {
		return Token{}, refusal.New(refusal.Invalid, "key.request: %d random bytes are needed", least)
	}
	if wait := a.renewals.wait(id.Subject(), a.now()); wait > 0 {
		return Token{}, tooMany(fmt.Sprintf("renewals by agents of cluster %q", id.Name), wait)
	}
	a.renewals.failed(id.Subject(), a.now())
	sum := sha256.Sum256(request)
	var token Token
	var refused error // the refusal is written down, too
	err := a.store.Write(ctx, id.Subject(), func(ctx context.Context, tx *store.Tx) (err error) {
		token, refused = Token{}, nil
		if err := a.covered(ctx, tx.View, id); err != nil {
			return err
		}
		cluster, err := clusterOf(ctx, tx.View, id)
		if err != nil {
			return err
		}
		next := renewal{id: id, key: key, request: hex.EncodeToString(sum[:]), cluster: cluster}
		line, err := next.line(ctx, tx)
		if err != nil {
			return err
		}
		switch {
		case identity.Generation(id.TokenID) >= line.Generation && line.Key == key: // a line that is ahead is of a database that was restored
			line.Generation, line.Request = identity.Generation(id.TokenID)+1, next.request
			if err := a.keepLine(ctx, tx, line); err != nil {
				return err
			}
		case next.repeats(line):
		default:
			refused = refusal.New(refusal.Unauthenticated, "this token was renewed before, by another copy of the agent's data folder, or before the folder was restored. "+
				"Run `fairlead cluster leave %s`, and let the agent join again with a new join token", cluster.Name)
			return a.noteReuse(ctx, tx, who, cluster,
				fmt.Sprintf("token %s was to be renewed again, after it had been renewed at %s", id.TokenID, line.RenewTime.UTC().Format(time.RFC3339)))
		}
		id.ClusterUID, id.Key = cluster.UID, key
		token, err = issued(a.signer().RenewAgent(id, line.Generation, identity.AgentLifetime))
		return err
	})
	if err == nil {
		err = refused
	}
	if err == nil {
		a.log.InfoContext(ctx, "token issued", "actor", id.Subject(), "by", "renewal", "token", token.Identity.TokenID)
	}
	return token, err
}

// renewal is what an agent asks for.
type renewal struct {
	id           identity.Identity
	key, request string
	cluster      store.Resource
}

// line is that of the token, or the one which begins with it: of before there were keys, or unknown to a database that
// was restored.
func (r renewal) line(ctx context.Context, tx *store.Tx) (store.AgentToken, error) {
	family := identity.Family(r.id.TokenID)
	line, err := tx.AgentToken(ctx, family)
	if errors.Is(err, store.ErrNotFound) {
		return store.AgentToken{Family: family, Cluster: r.cluster.UID, Key: r.key, Generation: identity.Generation(r.id.TokenID)}, nil
	}
	return line, err
}

// repeats tells that the newest token of the line was made for this very request.
func (r renewal) repeats(line store.AgentToken) bool {
	return line.Generation == identity.Generation(r.id.TokenID)+1 && line.Request == r.request && line.Key == r.key
}

// reuseGrace is how long a token may be used after the one that it was renewed to was first used: calls that were on
// their way, and clocks that differ.
const reuseGrace = 10 * time.Minute

// TokenUse says that an agent of a cluster asked a distributor, or began a session at a tunnel, with a token.
type TokenUse struct {
	Cluster, TokenID string
	Time             time.Time
}

// Used takes note of the tokens that distributors and tunnels have seen. A token that is used although the one that it
// was renewed to is in use, too, is used by somebody else. (A newer one that nobody has used may be that of an answer
// which was lost.)
func (a *Authority) Used(ctx context.Context, who audit.Who, uses []TokenUse) error {
	if len(uses) == 0 {
		return nil
	}
	families := make([]string, 0, len(uses))
	for _, u := range uses {
		families = append(families, identity.Family(u.TokenID))
	}
	var lines map[string]store.AgentToken
	var seen map[string]store.Seen
	if err := a.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if lines, err = v.AgentTokens(ctx, families); err != nil {
			return err
		}
		var clusters []string
		for _, line := range lines {
			clusters = append(clusters, line.Cluster)
		}
		seen, err = v.Seen(ctx, clusters)
		return err
	}); err != nil {
		return err
	}
	now := a.now()
	var first []store.AgentToken // lines whose newest token is seen for the first time
	var again []TokenUse         // uses of earlier tokens
	for _, u := range uses {
		line, generation := lines[identity.Family(u.TokenID)], identity.Generation(u.TokenID)
		switch {
		case line.Family == "":
		case generation == line.Generation && line.UseTime.IsZero():
			first = append(first, line)
		case generation < line.Generation && !line.UseTime.IsZero() && now.Sub(line.UseTime) > reuseGrace &&
			u.Time.Sub(line.UseTime) > reuseGrace && seen[line.Cluster].ReuseTime.IsZero():
			again = append(again, u)
		}
	}
	if len(first)+len(again) == 0 {
		return nil
	}
	who = audit.Who{Identity: who.Identity, TraceID: who.TraceID} // its address is the service's
	return a.store.Write(ctx, who.Identity.Subject(), func(ctx context.Context, tx *store.Tx) error {
		for _, line := range first {
			if err := tx.UseAgentToken(ctx, line.Family, line.Generation, now); err != nil {
				return err
			}
		}
		for _, u := range again {
			line := lines[identity.Family(u.TokenID)]
			how := fmt.Sprintf("token %s was used at a %s, %s after the one that it was renewed to", u.TokenID,
				cmp.Or(who.Identity.Name, "service"), now.Sub(line.UseTime).Round(time.Minute))
			if err := a.noteReuse(ctx, tx, who, store.Resource{UID: line.Cluster, Name: u.Cluster}, how); err != nil {
				return err
			}
		}
		return nil
	})
}

// noteReuse writes down that a token was used which had been renewed: each time in the trail, the first time in the
// cluster's status and as an event.
func (a *Authority) noteReuse(ctx context.Context, tx *store.Tx, who audit.Who, cluster store.Resource, how string) error {
	if who.Remote != "" {
		how = "from " + who.Remote + ": " + how
	}
	first, err := tx.Reused(ctx, cluster.UID, how)
	if err != nil {
		return err
	}
	if first && a.ReuseEvent != nil {
		tx.Tell(a.ReuseEvent(cluster.Name, how, tx.Now()))
	}
	a.log.ErrorContext(ctx, "a token of an agent was used after it had been renewed: somebody may have a copy of the agent's data folder", "cluster", cluster.Name, "how", how)
	return tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "token.reuse", Cluster: cluster.Name, Name: cluster.Name, Reason: how}))
}

// endLines forgets the lines of tokens that a revocation is about. A cluster whose agents have no token any more has
// left: its agents are refused everywhere.
func endLines(ctx context.Context, tx *store.Tx, r login.Revocation) error {
	if r.TokenID != "" {
		line, err := tx.AgentToken(ctx, r.TokenID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := tx.EndAgentTokens(ctx, line.Cluster, line.Family); err != nil {
			return err
		}
		if others, err := tx.HasAgentTokens(ctx, line.Cluster); err != nil || others {
			return err
		}
		return tx.Leave(ctx, line.Cluster)
	}
	name, ok := strings.CutPrefix(r.Subject, AgentSubject(""))
	if !ok {
		return nil
	}
	cluster, err := tx.Get(ctx, store.KindCluster, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(tx.EndAgentTokens(ctx, cluster.UID, ""), tx.Leave(ctx, cluster.UID))
}
