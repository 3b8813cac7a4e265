package event

import (
	"fmt"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/store"
)

// AccessRequested says that somebody waits for a decision.
func AccessRequested(r store.AccessRequest, at time.Time) store.Event {
	return access(AccessRequest, warning, r, r.Subject, at,
		fmt.Sprintf("%s asks for role %s for %s: %s. Decide with `fairlead cluster access approve %s` or `deny`.", r.Subject, r.Role, r.For, r.Reason, r.ID))
}

// AccessApproved says that access is lent.
func AccessApproved(r store.AccessRequest, at time.Time) store.Event {
	return access(AccessLent, info, r, r.Decider, at,
		fmt.Sprintf("%s has role %s until %s%s.", r.Subject, r.Role, r.Until.UTC().Format(time.RFC3339), reasonOf(r.DecisionReason)))
}

// AccessDenied says that a request was refused.
func AccessDenied(r store.AccessRequest, at time.Time) store.Event {
	return access(AccessRefused, info, r, r.Decider, at, fmt.Sprintf("Role %s for %s is denied%s.", r.Role, r.Subject, reasonOf(r.DecisionReason)))
}

// AccessRevoked says that somebody ended access, or took a request back.
func AccessRevoked(r store.AccessRequest, at time.Time) store.Event {
	return access(AccessTaken, info, r, r.Revoker, at, fmt.Sprintf("Role %s for %s is revoked%s.", r.Role, r.Subject, reasonOf(r.RevocationReason)))
}

// AccessEnded says that the time of access, or of a request, is over.
func AccessEnded(r store.AccessRequest, at time.Time) store.Event {
	message := fmt.Sprintf("The time of role %s for %s is over.", r.Role, r.Subject)
	if r.State == store.RequestLapsed {
		message = fmt.Sprintf("Nobody decided about role %s for %s: the request lapsed.", r.Role, r.Subject)
	}
	return access(AccessOver, info, r, "", at, message)
}

// access is an event of a request. Each kind of event happens once to a request.
func access(kind string, severity consolev1.Severity, r store.AccessRequest, actor string, at time.Time, message string) store.Event {
	return stored(&consolev1.Event{Type: kind, Severity: severity, Cluster: r.Cluster, Actor: actor, Message: message}, at, r.ID)
}

func reasonOf(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
