package event

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
)

const (
	// manyServices is of how many services at once each has an event of its own. To more of them the same happened, and
	// that is one event: a first delivery to 10,000 clusters is nobody's list of a million lines.
	manyServices = 5
	// shownMembers is how many of an event's services stand in it by name.
	shownMembers = 20
	// maxMembers bounds what is read of one event, in bytes: those of a thousand services are a tenth of it.
	maxMembers = 8 << 20
)

// draft is an event about a service that may be told with those of others.
type draft struct {
	event *consolev1.Event
	parts []string // of its id
}

// drafted is an event for Gather, which the store can't keep as it is.
func drafted(e *consolev1.Event, at time.Time, parts ...string) store.Event {
	e.Time = timestamppb.New(at.UTC().Truncate(time.Microsecond))
	return store.Event{Draft: draft{e, parts}}
}

// group is what events have in common that are told together.
type group struct{ typ, project, commit string }

// Gather implements catalog.Observer: to whatever many services the same happened becomes one event.
func (r *Recorder) Gather(events []store.Event) []store.Event {
	var keys []func(e *consolev1.Event) group
	// Of one commit if these are many, else of any: a cluster that reports all its services at once has few of each
	// commit.
	keys = append(keys,
		func(e *consolev1.Event) group { return group{e.GetType(), e.GetProject(), e.GetCommit()} },
		func(e *consolev1.Event) group { return group{e.GetType(), e.GetProject(), ""} },
	)
	together := map[int][]draft{} // by the place of the first
	taken := make([]bool, len(events))
	for _, key := range keys {
		of := map[group][]int{}
		for i, e := range events {
			if d, ok := e.Draft.(draft); ok && !taken[i] && d.gathers() {
				of[key(d.event)] = append(of[key(d.event)], i)
			}
		}
		for _, places := range of {
			if len(places) <= manyServices {
				continue
			}
			for _, i := range places {
				taken[i] = true
				together[places[0]] = append(together[places[0]], events[i].Draft.(draft))
			}
		}
	}
	out := make([]store.Event, 0, len(events))
	for i, e := range events {
		d, isDraft := e.Draft.(draft)
		switch {
		case together[i] != nil:
			out = append(out, gathered(together[i]))
		case taken[i]:
		case isDraft:
			out = append(out, stored(d.event, d.event.GetTime().AsTime(), d.parts...))
		default:
			out = append(out, e)
		}
	}
	return out
}

// gathers says whether an event may be told with those of other services: what a person has to look at is told alone.
func (d draft) gathers() bool {
	switch d.event.GetType() {
	case ServiceDelivered, ServiceApplied, ServiceHealthy:
		return true
	}
	return false
}

// gathered is one event of many.
func gathered(of []draft) store.Event {
	list, sum := make([]*consolev1.Event, len(of)), sha256.New()
	for i, d := range of {
		list[i] = d.event
		for _, part := range d.parts {
			_, _ = io.WriteString(sum, part+"\x00") // never fails
		}
	}
	e := summary(list)
	members, cluster := pack(e, list), e.GetCluster()
	// The cluster is beside the event: a console of before there were such events takes one with a cluster and without
	// a service for one about the cluster, and would show it whole to a person who sees some of its services.
	e.Cluster = ""
	out := stored(e, list[0].GetTime().AsTime(), "together", string(sum.Sum(nil)))
	out.Members, out.Cluster = members, cluster
	return out
}

// summary is the event of many, without an id and the names of its services.
func summary(list []*consolev1.Event) *consolev1.Event {
	first := list[0]
	e := &consolev1.Event{Time: first.GetTime(), Type: first.GetType(), Severity: first.GetSeverity(), Project: first.GetProject(), Count: int32(len(list))}
	e.Cluster, e.Commit, e.Digest, e.TraceId = first.GetCluster(), first.GetCommit(), first.GetDigest(), first.GetTraceId()
	clusters := map[string]bool{}
	for _, one := range list {
		e.Cluster, e.Commit = same(e.GetCluster(), one.GetCluster()), same(e.GetCommit(), one.GetCommit())
		e.Digest, e.TraceId = same(e.GetDigest(), one.GetDigest()), same(e.GetTraceId(), one.GetTraceId())
		if one.GetCluster() != "" {
			clusters[one.GetCluster()] = true
		}
	}
	services := fmt.Sprintf("%d services", len(list))
	if len(clusters) > 1 {
		services += fmt.Sprintf(" in %d clusters", len(clusters))
	}
	content := cmp.Or(short(e.GetCommit()), "New content")
	switch e.GetType() {
	case ServiceDelivered:
		e.Message = fmt.Sprintf("%s is ready for %s.", content, services)
	case ServiceApplied:
		e.Message = fmt.Sprintf("%s is applied: %s.", content, services)
	default:
		e.Message = fmt.Sprintf("All objects of %s are healthy.", services)
	}
	return e
}

// names are the first of some services.
func names(list []*consolev1.Event) (members []*consolev1.EventMember) {
	for _, one := range list[:min(len(list), shownMembers)] {
		members = append(members, &consolev1.EventMember{Service: one.GetService(), Cluster: one.GetCluster()})
	}
	return members
}

// same is a text if both are equal, else empty.
func same(a, b string) string {
	if a == b {
		return a
	}
	return ""
}

// packers are writers that have been used: each has more than a megabyte of tables.
var packers = sync.Pool{New: func() any { //nolint:gochecknoglobals // the same wherever it is used
	packer, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is a valid one
	return packer
}}

// unpackers are readers that have been used: each has tens of kilobytes of tables.
var unpackers = sync.Pool{New: func() any { return flate.NewReader(nil) }} //nolint:gochecknoglobals // as packers

// pack keeps the events of which one is made, without what is said in that.
func pack(of *consolev1.Event, list []*consolev1.Event) []byte {
	var out bytes.Buffer
	packer := packers.Get().(*flate.Writer)
	defer packers.Put(packer)
	packer.Reset(&out)
	for _, e := range list {
		one := &consolev1.Event{Service: e.GetService(), Message: e.GetMessage(), Count: e.GetCount(), Duration: e.GetDuration()}
		one.Cluster, one.Commit = other(of.GetCluster(), e.GetCluster()), other(of.GetCommit(), e.GetCommit())
		one.Digest, one.TraceId = other(of.GetDigest(), e.GetDigest()), other(of.GetTraceId(), e.GetTraceId())
		_, _ = protodelim.MarshalTo(packer, one)
	}
	_ = packer.Close()
	return out.Bytes()
}

// other is a text unless all have it.
func other(all, text string) string {
	if all == text {
		return ""
	}
	return text
}

// Told is an event as it was recorded. One of many services names these when it is narrowed: they are in its members.
type Told struct {
	*consolev1.Event
	members []byte // as pack made them; nil: it is about one service, or none
}

// Narrow is the event of what of it is chosen: all of it, that of one service, or of some; nil: nothing is. whole tells
// whether all of it is chosen by what its services have in common, if that can be said (sure). looked is at how many
// services it had to look.
func (t Told) Narrow(whole func(*consolev1.Event) (fits, sure bool), chosen func(*consolev1.Event) bool) (e *consolev1.Event, looked int) {
	if t.members == nil {
		if chosen(t.Event) {
			return t.Event, 0
		}
		return nil, 0
	}
	if fits, sure := whole(t.Event); sure {
		if fits {
			return t.named(), 0
		}
		return nil, 0
	}
	var some []*consolev1.Event
	err := t.eachService(func(one *consolev1.Event) bool {
		if looked++; chosen(one) {
			some = append(some, one)
		}
		return true
	})
	switch {
	case err != nil, len(some) == 0: // of members that can't be read nobody knows whether the caller may see them
		return nil, looked
	case len(some) == 1:
		return some[0], looked
	case len(some) == looked:
		e = proto.CloneOf(t.Event)
	default:
		e = summary(some)
		e.Id = t.GetId()
	}
	e.Members = names(some)
	return e, looked
}

// named is the whole event with the names of the first of its services.
func (t Told) named() *consolev1.Event {
	var first []*consolev1.Event
	err := t.eachService(func(one *consolev1.Event) bool {
		first = append(first, one)
		return len(first) < shownMembers
	})
	if err != nil { // as it was recorded: without names, its count is right
		return t.Event
	}
	e := proto.CloneOf(t.Event)
	e.Members = names(first)
	return e
}

// Each returns the chosen events of the single services, all of them: the event that Narrow returns names a few.
func (t Told) Each(chosen func(*consolev1.Event) bool) (list []*consolev1.Event) {
	keep := func(one *consolev1.Event) bool {
		if chosen(one) {
			list = append(list, one)
		}
		return true
	}
	if t.members == nil {
		keep(t.Event)
		return list
	}
	if err := t.eachService(keep); err != nil { // as Narrow does
		return nil
	}
	return list
}

// eachService calls do with the event of each service while do returns true.
func (t Told) eachService(do func(*consolev1.Event) (more bool)) error {
	unpacker := unpackers.Get().(io.Reader)
	defer unpackers.Put(unpacker)
	_ = unpacker.(flate.Resetter).Reset(bytes.NewReader(t.members), nil) // never fails
	in := bufio.NewReader(&io.LimitedReader{R: unpacker, N: maxMembers})
	for {
		one := &consolev1.Event{}
		err := (protodelim.UnmarshalOptions{MaxSize: maxMembers}).UnmarshalFrom(in, one)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("decode services of event %s: %w", t.GetId(), err)
		}
		one.Time, one.Type, one.Severity, one.Project = t.GetTime(), t.GetType(), t.GetSeverity(), t.GetProject()
		one.Cluster, one.Commit = cmp.Or(one.GetCluster(), t.GetCluster()), cmp.Or(one.GetCommit(), t.GetCommit())
		one.Digest, one.TraceId = cmp.Or(one.GetDigest(), t.GetDigest()), cmp.Or(one.GetTraceId(), t.GetTraceId())
		// A number would tell how many others there are to a person who may see this one only.
		one.Id = store.EventID(t.GetId(), one.GetService(), one.GetDigest())
		if !do(one) {
			return nil
		}
	}
}

// common is an event of many services for filters, and notes whether they ask for what differs between these.
type common struct {
	Row
	differs bool
}

// Field implements query.Row.
func (c *common) Field(name string) (query.Value, bool) {
	switch name {
	case "type", "severity", "time", "project", "source", "actor", "sink", "globalservice":
	default:
		c.differs = true
	}
	return c.Row.Field(name)
}

// Whole tells whether a question is answered the same for all services of an event, and how.
func Whole(expr *query.Expr, e *consolev1.Event, now time.Time) (fits, sure bool) {
	row := &common{Row: Row{e}}
	fits = expr.Match(row, now)
	return fits, !row.differs
}
