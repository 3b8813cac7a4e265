package state

import (
	"encoding/json"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store"
)

// Phase is how far an agent is with a service.
type Phase string

// The phases.
const (
	PhaseApplying    Phase = "applying"
	PhaseProgressing Phase = "progressing"
	PhaseHealthy     Phase = "healthy"
	PhaseDegraded    Phase = "degraded"
	PhaseFailed      Phase = "failed"
	PhaseRemoved     Phase = "removed"
	PhaseHeld        Phase = "held"
	PhaseWaiting     Phase = "waiting"
	PhaseDiffers     Phase = "differs"
)

// Report is the whole state of a service in a cluster.
type Report struct {
	Service        string         `json:"service"`
	Sequence       uint64         `json:"sequence"`
	Phase          Phase          `json:"phase,omitempty"`
	Digest         string         `json:"digest,omitempty"`
	Commit         string         `json:"commit,omitempty"`
	AppliedDigest  string         `json:"appliedDigest,omitempty"`
	AppliedCommit  string         `json:"appliedCommit,omitempty"`
	AppliedTime    time.Time      `json:"appliedTime,omitzero"`
	ObservedTime   time.Time      `json:"observedTime,omitzero"`
	Message        string         `json:"message,omitempty"`
	ObjectsTotal   int32          `json:"objectsTotal,omitempty"`
	ObjectsHealthy int32          `json:"objectsHealthy,omitempty"`
	Objects        []ObjectReport `json:"objects,omitempty"`
	Traceparent    string         `json:"traceparent,omitempty"`
	// Guard is what a person has to confirm; nil: nothing.
	Guard *Guard `json:"guard,omitempty"`
	// ObjectsDrifted are those that others keep changing.
	ObjectsDrifted int32 `json:"objectsDrifted,omitempty"`
	// Repairs counts what was put right, RepairTime is when it was last, and Repaired what.
	Repairs    uint64        `json:"repairs,omitempty"`
	RepairTime time.Time     `json:"repairTime,omitzero"`
	Repaired   *ObjectReport `json:"repaired,omitempty"`
	// Tests is the latest run of its tests; nil: there was none.
	Tests *TestSummary `json:"tests,omitempty"`
	// SyncProblem is why the objects that the last sync names were not all applied; empty: they were, or it names none.
	SyncProblem string `json:"syncProblem,omitempty"`
}

// EndsGuard says whether a report tells that no guard holds anything up: what an attempt, a hold or a wait says of a
// guard before it is nothing.
func (r *Report) EndsGuard() bool {
	return r.Guard == nil && (r.Phase == PhaseHealthy || r.Phase == PhaseDegraded)
}

// Guard stands before a removal that looks like an accident.
type Guard struct {
	ID           string          `json:"id"`
	Removing     int32           `json:"removing"`
	ObjectsTotal int32           `json:"objectsTotal"`
	Sample       []ManagedObject `json:"sample,omitempty"`
}

// ManagedObject is an object of a service.
type ManagedObject struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	Wave      int32  `json:"wave,omitempty"`
	Leaving   string `json:"leaving,omitempty"`
}

// ObjectReport is an object that is not healthy.
type ObjectReport struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Health    string `json:"health,omitempty"`
	Message   string `json:"message,omitempty"`
	// Rival is who changed Fields of it against Git.
	Rival  string   `json:"rival,omitempty"`
	Fields []string `json:"fields,omitempty"`
	// NextAttempt is when it is repaired next, and Drifted when the agent's watch saw that it differs from what is
	// applied.
	NextAttempt time.Time `json:"nextAttempt,omitzero"`
	Drifted     time.Time `json:"drifted,omitzero"`
}

// TestCause is what made a run of tests.
type TestCause string

// The causes.
const (
	TestsRequested  TestCause = "request"
	TestsOfRevision TestCause = "revision"
	TestsScheduled  TestCause = "schedule"
)

// TestOutcome is how a run of tests went.
type TestOutcome string

// The outcomes.
const (
	TestsRunning  TestOutcome = "running"
	TestsPassed   TestOutcome = "passed"
	TestsFailed   TestOutcome = "failed"
	TestsTimedOut TestOutcome = "timedOut"
	TestsAborted  TestOutcome = "aborted"
	TestsError    TestOutcome = "error"
	TestsSkipped  TestOutcome = "skipped"
)

// TestSummary is a run of a service's tests in few words.
type TestSummary struct {
	ID      string      `json:"id"`
	Cause   TestCause   `json:"cause,omitempty"`
	Outcome TestOutcome `json:"outcome,omitempty"`
	// Digest is the content's that was applied when the run began.
	Digest    string    `json:"digest,omitempty"`
	Passed    int32     `json:"passed,omitempty"`
	Failed    int32     `json:"failed,omitempty"`
	StartTime time.Time `json:"startTime,omitzero"`
	EndTime   time.Time `json:"endTime,omitzero"`
}

// EncodeReport makes of a report what is stored.
func EncodeReport(service, cluster string, r Report) (store.Report, error) {
	state, err := json.Marshal(r)
	if err != nil {
		return store.Report{}, fmt.Errorf("encode report about service %q: %w", r.Service, err)
	}
	return store.Report{Service: service, Cluster: cluster, Sequence: int64(r.Sequence), State: state}, nil
}

// ReadReport makes a report of what is stored.
func ReadReport(row store.Report) (r Report, err error) {
	if err := json.Unmarshal(row.State, &r); err != nil {
		return r, fmt.Errorf("decode report: %w", err)
	}
	r.Sequence = uint64(row.Sequence)
	return r, nil
}
