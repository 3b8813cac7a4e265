package deliveryclient

import (
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

const (
	// freshFor is how long a heartbeat counts: they come every 45 s.
	freshFor = time.Minute
	// longestQuiet is between two Syncs, however still it is: the hub is to hear of tokens in use and of clocks that
	// are off, and the agent whether the hub answers new calls.
	longestQuiet = 10 * time.Minute
)

// quiet is the time in which polls are left out: heartbeats say that what the hub has for the agent is what the last
// answer was about. Of the goroutine of Run but for hear, which is of that of Watch.
type quiet struct {
	wanted atomic.Uint64             // as in the last answer; 0: polls are made
	heard  atomic.Pointer[time.Time] // when a heartbeat said the same; nil: none did, or the last one said something else
	began  time.Time
	asked  *deliveryv1.SyncRequest // the question that was answered
}

// begin notes an answer: nothing is new. wanted names what there is; 0: that is not known, so polls go on.
func (q *quiet) begin(asked *deliveryv1.SyncRequest, wanted uint64) {
	q.asked, q.began = question(asked), time.Now()
	q.wanted.Store(wanted)
}

// end has polls be made until the next answer.
func (q *quiet) end() {
	q.wanted.Store(0)
	q.heard.Store(nil)
	q.asked = nil
}

// hear notes what a heartbeat says.
func (q *quiet) hear(wanted uint64) {
	if wanted == 0 || wanted != q.wanted.Load() {
		q.heard.Store(nil)
		return
	}
	now := time.Now()
	q.heard.Store(&now)
}

// lasts says whether the answer to a poll is known: the same question was answered not long ago, and the answer
// holds. A configuration on trial has to be seen to reach the hub.
func (q *quiet) lasts(poll *deliveryv1.SyncRequest) bool {
	heard := q.heard.Load()
	return heard != nil && time.Since(*heard) < freshFor && time.Since(q.began) < longestQuiet &&
		!poll.GetAgentConfig().GetTrial() && proto.Equal(question(poll), q.asked)
}

// question is what decides on the answer to a request, and what the hub shows of the agent.
func question(request *deliveryv1.SyncRequest) *deliveryv1.SyncRequest {
	// The digest is over all that the agent has, and "nothing is new" holds whatever revision it has seen.
	request.Have, request.Revision, request.Nudged = nil, 0, 0
	request.Agent.Time = nil
	return request
}
