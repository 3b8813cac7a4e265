package views

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of texts that anybody may have written, in bytes: of kinds, namespaces, versions and phases; of reasons; and
// of names, as Kubernetes has it. The key of a warning's row, which joins four of them, has 512 bytes at most.
const maxKind, maxReason, maxName = 64, 128, 253

// node is what is kept of a node.
type node struct {
	name, version         string
	ready, cordoned       bool
	bad                   []string // conditions, but for Ready
	since                 int64    // when Ready became what it is
	capacity, allocatable amounts
}

func parseNode(b []byte) (o node, m meta, err error) {
	err = walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
		switch number {
		case 1:
			m, err = parseMeta(b)
		case 2:
			return walk(b, func(number protowire.Number, n uint64, _ []byte) error {
				if number == 4 {
					o.cordoned = n != 0
				}
				return nil
			})
		case 3:
			return o.parseStatus(b)
		}
		return err
	})
	o.name = m.name
	slices.Sort(o.bad)
	return o, m, err
}

func (o *node) parseStatus(b []byte) error {
	return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 1:
			o.capacity.parse(b)
		case 2:
			o.allocatable.parse(b)
		case 4:
			c, err := parseCondition(b)
			o.judge(c)
			return err
		case 7:
			return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
				if number == 7 {
					o.version = word(cut(b, maxKind))
				}
				return nil
			})
		}
		return nil
	})
}

// judge says what a condition means: some are bad if they are True, those called *Ready if they are not. The meaning of
// others, which programs beside Kubernetes make, is not known.
func (o *node) judge(c condition) {
	switch {
	case c.name == "Ready":
		o.ready, o.since = c.status == "True", c.since
	case strings.HasSuffix(c.name, "Ready"):
		if c.status != "True" {
			o.bad = append(o.bad, c.name)
		}
	case slices.Contains([]string{"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}, c.name):
		if c.status == "True" {
			o.bad = append(o.bad, c.name)
		}
	}
}

// rank orders nodes: those that are not ready before others that are not as they should be.
func (o *node) rank(skewed bool) int {
	switch {
	case !o.ready:
		return 0
	case len(o.bad) > 0, o.cordoned, skewed:
		return 1
	}
	return 2
}

// states say how a node is, with commas between.
func (o *node) states(skewed bool) string {
	states := []string{"NotReady"}
	if o.ready {
		states[0] = "Ready"
	}
	states = append(states, o.bad...)
	if o.cordoned {
		states = append(states, "SchedulingDisabled")
	}
	if skewed {
		states = append(states, "VersionSkew")
	}
	return string(cut([]byte(strings.Join(states, ",")), 128))
}

// isSkewed says whether Kubernetes does not support a kubelet beside an API server: it is newer, or more than 3 minors
// older.
func isSkewed(kubelet, server string) bool {
	k, okK := minor(kubelet)
	s, okS := minor(server)
	return okK && okS && (k > s || s-k > 3)
}

// minor is that of v1.36.3.
func minor(version string) (int, bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 || parts[0] != "v1" {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimRight(parts[1], "+"))
	return n, err == nil
}

// workload is what is kept of an object that makes pods, or other such objects.
type workload struct {
	kind, namespace, name string
	service, owner        string
	ready, desired        int32
	well                  bool
	status                string // of a Job: STATUS of kubectl get jobs
	suspended             bool
	created               int64
	hidden                bool // the object is counted with its owner
	empty                 bool // a ReplicaSet without pods, such as that of an earlier revision
}

// fields are the numbers of what the kinds of workloads have alike.
type fields struct {
	observed, ready, updated protowire.Number // of the status
	desired                  protowire.Number // of the spec; 0: of the status, see below
	scheduled                protowire.Number // desired, of the status
	pods                     protowire.Number // of the status
}

func fieldsOf(kind string) fields {
	switch kind {
	case "Deployment":
		return fields{observed: 1, ready: 7, updated: 3, desired: 1}
	case "StatefulSet":
		return fields{observed: 1, ready: 3, updated: 5, desired: 1}
	case "DaemonSet":
		return fields{observed: 5, ready: 4, updated: 6, scheduled: 3}
	}
	return fields{observed: 3, ready: 4, desired: 1, pods: 1} // ReplicaSet
}

func parseWorkload(kind string, b []byte) (w workload, m meta, err error) {
	at := fieldsOf(kind)
	var observed int64
	var updated, pods int32
	if at.desired != 0 {
		w.desired = 1 // the meaning of an absent number
	}
	err = walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
		switch number {
		case 1:
			m, err = parseMeta(b)
		case 2:
			return walk(b, func(number protowire.Number, n uint64, _ []byte) error {
				if number == at.desired {
					w.desired = int32(n) // int32 on the wire
				}
				return nil
			})
		case 3:
			return walk(b, func(number protowire.Number, n uint64, _ []byte) error {
				switch number {
				case at.pods:
					pods = int32(n) // int32 on the wire
				case at.observed:
					observed = int64(n) // int64 on the wire
				case at.ready:
					w.ready = int32(n) // int32 on the wire
				case at.updated:
					updated = int32(n) // int32 on the wire
				case at.scheduled:
					w.desired = int32(n) // int32 on the wire
				}
				return nil
			})
		}
		return err
	})
	w.well = observed >= m.generation && w.ready >= w.desired && (at.updated == 0 || updated >= w.desired)
	w.hidden = kind == "ReplicaSet" && (m.owner != "" || w.desired == 0)
	w.empty = kind == "ReplicaSet" && w.desired == 0 && pods == 0
	w.fill(kind, m)
	return w, m, err
}

func (w *workload) fill(kind string, m meta) {
	w.kind, w.namespace, w.name, w.service, w.owner, w.created = kind, m.namespace, m.name, m.service, m.owner, m.created
}

// parseJob reads a Job. Its STATUS is that of printJob in Kubernetes' pkg/printers.
func parseJob(b []byte) (w workload, m meta, err error) {
	conditions := map[string]bool{}
	w.desired = 1
	err = walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
		switch number {
		case 1:
			m, err = parseMeta(b)
		case 2:
			return walk(b, func(number protowire.Number, n uint64, _ []byte) error {
				switch number {
				case 2:
					w.desired = int32(n) // int32 on the wire
				case 10:
					w.suspended = n != 0
				}
				return nil
			})
		case 3:
			return walk(b, func(number protowire.Number, n uint64, b []byte) error {
				switch number {
				case 1:
					c, err := parseCondition(b)
					conditions[c.name] = c.status == "True"
					return err
				case 5:
					w.ready = int32(n) // int32 on the wire
				}
				return nil
			})
		}
		return err
	})
	w.status = jobStatus(conditions, m.deleted)
	w.well = w.status != "Failed" && w.status != "FailureTarget"
	w.fill("Job", m)
	return w, m, err
}

func jobStatus(conditions map[string]bool, deleted bool) string {
	switch {
	case conditions["Complete"]:
		return "Complete"
	case conditions["Failed"]:
		return "Failed"
	case deleted:
		return "Terminating"
	case conditions["Suspended"]:
		return "Suspended"
	case conditions["FailureTarget"]:
		return "FailureTarget"
	case conditions["SuccessCriteriaMet"]:
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func parseCronJob(b []byte) (w workload, m meta, err error) {
	err = walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
		switch number {
		case 1:
			m, err = parseMeta(b)
		case 2:
			return walk(b, func(number protowire.Number, n uint64, _ []byte) error {
				if number == 4 {
					w.suspended = n != 0
				}
				return nil
			})
		}
		return err
	})
	w.well = true
	w.fill("CronJob", m)
	return w, m, err
}

// of says how much of a workload there is, as READY and COMPLETIONS of kubectl.
func (w *workload) of() string { return fmt.Sprintf("%d/%d", w.ready, w.desired) }

// claim is what is kept of a PersistentVolumeClaim.
type claim struct {
	namespace, name, phase, service string
	bytes, created                  int64
}

func parseClaim(b []byte) (c claim, m meta, err error) {
	err = walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
		switch number {
		case 1:
			m, err = parseMeta(b)
		case 3:
			var size amounts
			err = walk(b, func(number protowire.Number, _ uint64, b []byte) error {
				switch number {
				case 1:
					c.phase = word(cut(b, maxKind))
				case 3:
					size.parse(b)
				}
				return nil
			})
			c.bytes = size.storage
		}
		return err
	})
	if m.deleted {
		c.phase = "Terminating"
	}
	c.namespace, c.name, c.service, c.created = m.namespace, m.name, m.service, m.created
	return c, m, err
}

// warning is what is read of an Event.
type warning struct {
	group       group
	text        string
	count       int64
	first, last int64
}

// group is what events are counted together by: those about the pods of one ReplicaSet are of one group. All are
// tokens, so that no two groups have one key.
type group struct{ reason, kind, namespace, owner string }

func parseWarning(b []byte) (w warning, m meta, err error) {
	var firstSeen, lastSeen, eventTime, lastInSeries, count, inSeries int64
	var name string
	isWarning := true
	err = walk(b, func(number protowire.Number, n uint64, b []byte) (err error) {
		switch number {
		case 1:
			m, err = parseMeta(b)
		case 2:
			return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
				switch number {
				case 1:
					w.group.kind = token(b, maxKind)
				case 2:
					w.group.namespace = token(b, maxKind)
				case 3:
					name = string(cut(b, maxName))
				}
				return nil
			})
		case 3:
			w.group.reason = token(b, maxReason)
		case 4:
			w.text = clean(string(b))
		case 6:
			firstSeen, err = seconds(b)
		case 7:
			lastSeen, err = seconds(b)
		case 8:
			count = int64(int32(n)) // int32 on the wire
		case 9:
			isWarning = string(b) == "Warning"
		case 10:
			eventTime, err = seconds(b)
		case 11:
			return walk(b, func(number protowire.Number, n uint64, b []byte) (err error) {
				switch number {
				case 1:
					inSeries = int64(int32(n)) // int32 on the wire
				case 2:
					lastInSeries, err = seconds(b)
				}
				return err
			})
		}
		return err
	})
	w.group.owner = token([]byte(ownerOf(w.group.kind, name)), maxName)
	w.count = max(inSeries, count, 1)
	w.last = max(lastInSeries, lastSeen, eventTime)
	for _, at := range []int64{firstSeen, eventTime} {
		if at > 0 && (w.first == 0 || at < w.first) {
			w.first = at
		}
	}
	if w.first == 0 {
		w.first = m.created
	}
	w.last = max(w.last, w.first)
	if !isWarning {
		w.count = 0
	}
	return w, m, err
}

// ownerOf is the name that events about objects of one owner share: without what Kubernetes adds to the names of a
// ReplicaSet's pods.
func ownerOf(kind, name string) string {
	if kind != "Pod" {
		return name
	}
	parts := strings.Split(name, "-")
	const random = 5 // letters behind the name of an owner
	if n := len(parts); n > 1 && len(parts[n-1]) == random && isRandom(parts[n-1]) {
		parts = parts[:n-1]
		if n := len(parts); n > 1 && len(parts[n-1]) >= 8 && len(parts[n-1]) <= 10 && isRandom(parts[n-1]) { // of a Deployment's ReplicaSet
			parts = parts[:n-1]
		}
		return strings.Join(parts, "-")
	}
	return name
}

// isRandom tells whether Kubernetes could have made a part of a name: it takes no vowels and no 0, 1 and 3.
func isRandom(part string) bool {
	return strings.Trim(part, "bcdfghjklmnpqrstvwxz2456789") == ""
}
