package trial

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

// mostSeen is how many ids of runs are remembered.
const mostSeen = 50

// state is what the inventory of a service says about its tests.
type state struct {
	// Seen are the ids of the last runs that were begun, the latest last.
	Seen []string `json:"seen,omitempty"`
	// Request and Revision are the ids of the last runs by those causes. The services still name them when Seen has
	// long forgotten.
	Request  string `json:"request,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Schedule is that of Through, until when its times are through.
	Schedule string    `json:"schedule,omitempty"`
	Through  time.Time `json:"through,omitzero"`
	// Run is the one that goes on, Last the one before; nil: there is none.
	Run  *run `json:"run,omitempty"`
	Last *run `json:"last,omitempty"`
	// Untold: the hub may not have the end of Last yet, whose Tests are kept until it does.
	Untold bool `json:"untold,omitempty"`
	// Failing says how the last run failed; "": it did not.
	Failing string `json:"failing,omitempty"`
	// Objects of tests are, or may be, in the cluster.
	Objects []made `json:"objects,omitempty"`
}

// run is a run of all tests.
type run struct {
	ID      string                 `json:"id"`
	Cause   deliveryv1.TestCause   `json:"cause"`
	Digest  string                 `json:"digest"`
	Commit  string                 `json:"commit,omitempty"`
	Set     string                 `json:"set,omitempty"` // of the tests
	Start   time.Time              `json:"start"`
	End     time.Time              `json:"end,omitzero"`
	Outcome deliveryv1.TestOutcome `json:"outcome"`
	Message string                 `json:"message,omitempty"`
	Passed  int32                  `json:"passed,omitempty"`
	Failed  int32                  `json:"failed,omitempty"`
	// Unbegun: nothing of the run was made, because it could not be run when its turn came. An unbegun run is no fault
	// of the service.
	Unbegun bool `json:"unbegun,omitempty"`
	// Tests are the objects in turn; empty: not yet known, or the hub has the end of the run.
	Tests []test `json:"tests,omitempty"`
}

// test is a Job or Pod of a run, or an object that they need.
type test struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Fixture: it is no test, and is made for them.
	Fixture bool `json:"fixture,omitempty"`
	// Attempt counts from 1, Began is when it was begun, and UID of its object.
	Attempt int32                  `json:"attempt,omitempty"`
	Began   time.Time              `json:"began,omitzero"`
	UID     types.UID              `json:"uid,omitempty"`
	Earlier types.UID              `json:"earlier,omitempty"` // of the attempt before
	Start   time.Time              `json:"start,omitzero"`
	End     time.Time              `json:"end,omitzero"`
	Outcome deliveryv1.TestOutcome `json:"outcome,omitempty"`
	Message string                 `json:"message,omitempty"`
}

// made is an object of a test.
type made struct {
	object.Ref

	UID types.UID `json:"uid,omitempty"`
	// Goes: it is to be removed.
	Goes bool `json:"goes,omitempty"`
}

// readState takes the state out of a record. A state that can't be read is as none: then a test may run once more.
func readState(record inventory.Record) (state, error) {
	var s state
	if len(record.Tests) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(record.Tests, &s); err != nil {
		return state{}, fmt.Errorf("read what is known of the tests of %s: %w", record.Service, err)
	}
	return s, nil
}

// writeState puts the state into a record.
func (s state) writeState(record inventory.Record) (inventory.Record, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return record, fmt.Errorf("encode what is known of the tests of %s: %w", record.Service, err)
	}
	record.Tests = text
	return record, nil
}

// beginRun starts a run.
func (s *state) beginRun(r run) {
	switch r.Cause {
	case deliveryv1.TestCause_TEST_CAUSE_REQUEST:
		s.Request = r.ID
	case deliveryv1.TestCause_TEST_CAUSE_REVISION:
		s.Revision = r.ID
	}
	s.Seen = append(s.Seen, r.ID)
	s.Seen = s.Seen[max(0, len(s.Seen)-mostSeen):]
	r.Outcome = deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING
	s.Run = &r
}

// hasRun tells whether a run was begun before.
func (s *state) hasRun(id string) bool {
	return id == s.Request || id == s.Revision || slices.Contains(s.Seen, id)
}

// leaveObjects drops objects that the service applies by now: they are no objects of tests any more.
func (s *state) leaveObjects(applied []inventory.Entry) {
	ordinary := map[object.Key]bool{}
	for _, entry := range applied {
		if !entry.Hook {
			ordinary[entry.Key] = true
		}
	}
	s.Objects = slices.DeleteFunc(s.Objects, func(one made) bool { return ordinary[one.Key] })
}

// noteObject lists an object before it is made.
func (s *state) noteObject(ref object.Ref, uid types.UID) {
	for i, one := range s.Objects {
		if one.Key == ref.Key {
			s.Objects[i] = made{Ref: ref, UID: uid}
			return
		}
	}
	s.Objects = append(s.Objects, made{Ref: ref, UID: uid})
}

// goingObjects are the objects that are to be removed.
func (s *state) goingObjects() []inventory.Entry {
	var entries []inventory.Entry
	for _, one := range s.Objects {
		if one.Goes {
			entries = append(entries, inventory.Entry{Ref: one.Ref, UID: one.UID, Hook: true})
		}
	}
	return entries
}

// goAll has all objects removed.
func (s *state) goAll() {
	for i := range s.Objects {
		s.Objects[i].Goes = true
	}
}

// dropGone drops objects that are to be removed and are not among those left.
func (s *state) dropGone(left map[object.Key]bool) {
	s.Objects = slices.DeleteFunc(s.Objects, func(one made) bool { return one.Goes && !left[one.Key] })
}

// endRun ends the run, and returns it with its tests.
func (s *state) endRun(outcome deliveryv1.TestOutcome, message string, now time.Time) run {
	r := s.Run
	for i := range r.Tests {
		one := &r.Tests[i]
		if !one.End.IsZero() {
			continue
		}
		one.Outcome, one.Message = deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED, "it was not begun"
		if one.Attempt > 0 {
			one.Outcome, one.Message = outcome, message
		}
		one.End = now
	}
	r.Outcome, r.Message, r.End = outcome, message, now
	r.Passed, r.Failed = 0, 0
	for _, one := range r.Tests {
		switch {
		case one.Fixture || one.Outcome == deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED:
		case one.Outcome == deliveryv1.TestOutcome_TEST_OUTCOME_PASSED:
			r.Passed++
		default:
			r.Failed++
		}
	}
	last := *r
	s.Run, s.Last, s.Untold = nil, &last, true
	switch {
	case r.Unbegun:
	case isFailure(outcome):
		s.Failing = message
	case outcome == deliveryv1.TestOutcome_TEST_OUTCOME_PASSED || outcome == deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED:
		s.Failing = ""
	}
	return *r
}

// isFailure tells the outcomes of which people have to know.
func isFailure(outcome deliveryv1.TestOutcome) bool {
	switch outcome {
	case deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR:
		return true
	}
	return false
}

// Summary is the latest run of a service in few words; nil: there was none.
func Summary(record inventory.Record) *deliveryv1.TestSummary {
	s, err := readState(record)
	r := s.Last
	if s.Run != nil {
		r = s.Run
	}
	if err != nil || r == nil {
		return nil
	}
	summary := &deliveryv1.TestSummary{
		Id: r.ID, Cause: r.Cause, Outcome: r.Outcome, Digest: r.Digest, Passed: r.Passed, Failed: r.Failed,
		StartTime: timestamppb.New(r.Start), EndTime: timestampOf(r.End),
	}
	for _, one := range r.Tests {
		switch {
		case !r.End.IsZero(): // Passed and Failed count them
		case one.Fixture || one.End.IsZero():
		case one.Outcome == deliveryv1.TestOutcome_TEST_OUTCOME_PASSED:
			summary.Passed++
		case one.Outcome != deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED:
			summary.Failed++
		}
	}
	return summary
}

// Running tells whether a run goes on, and of which digest and set of tests.
func Running(record inventory.Record) (digest, set string, ok bool) {
	s, err := readState(record)
	if err != nil || s.Run == nil {
		return "", "", false
	}
	return s.Run.Digest, s.Run.Set, true
}

// Failing says in a sentence how the last run of a service failed; "": it did not.
func Failing(record inventory.Record) string {
	s, err := readState(record)
	if err != nil {
		return ""
	}
	return s.Failing
}

func timestampOf(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
