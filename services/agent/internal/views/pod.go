package views

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// pod is what is kept of a pod.
type pod struct {
	namespace, name, node string
	phase, reason         string // reason is STATUS of kubectl get pods
	service, owner        string // owner is the uid of the controller
	since                 int64  // when it stopped to be ready, or was created
	requests              amounts
	terminal, notReady    bool
	placed, counted       bool // the pod has a node; the pod takes room there
	pulls                 []pull
	restarts              []restart // of each container, init containers first
}

// pull is an image that a pod waits for, as imageOf names it.
type pull struct{ image, reason string }

// restart is what a container says of its restarts.
type restart struct {
	count    int32
	finished int64 // of the run before this one; 0: unknown
	killed   bool  // for memory
}

func (p *pod) total() (sum int64) {
	for _, r := range p.restarts {
		sum += int64(r.count)
	}
	return sum
}

// container is what is read of a container's spec.
type container struct {
	name, image string // the image is whole: it can have a userinfo
	requests    amounts
	sidecar     bool // an init container that goes on
}

// status is what is read of a container's status.
type status struct {
	name, image                  string // as above
	ready, started               bool
	waiting, running, terminated bool
	reason                       string // of waiting or terminated
	exitCode, signal             int32
	restart                      restart
	requests, allocated          amounts
	hasResources                 bool
}

// rawPod is a pod as it is read.
type rawPod struct {
	meta
	node, phase, statusReason string
	init, containers          []container
	initStates, states        []status
	conditions                []condition
	overhead, podLevel        amounts
}

func parsePod(b []byte) (pod, meta, error) {
	var r rawPod
	err := walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
		switch number {
		case 1:
			r.meta, err = parseMeta(b)
		case 2:
			err = r.parseSpec(b)
		case 3:
			err = r.parseStatus(b)
		}
		return err
	})
	if err != nil {
		return pod{}, meta{}, err
	}
	return r.record(), r.meta, nil
}

func (r *rawPod) parseSpec(b []byte) error {
	return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 2, 20:
			c, err := parseContainer(b)
			if number == 20 {
				r.init = append(r.init, c)
			} else {
				r.containers = append(r.containers, c)
			}
			return err
		case 10:
			r.node = word(b)
		case 32:
			r.overhead.parse(b)
		case 40:
			return parseRequests(b, &r.podLevel)
		}
		return nil
	})
}

func parseContainer(b []byte) (c container, err error) {
	err = walk(b, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 1:
			c.name = word(b)
		case 2:
			c.image = string(b)
		case 8:
			return parseRequests(b, &c.requests)
		case 24:
			c.sidecar = string(b) == "Always"
		}
		return nil
	})
	return c, err
}

// parseRequests reads the requests of ResourceRequirements.
func parseRequests(b []byte, into *amounts) error {
	return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
		if number == 2 {
			into.parse(b)
		}
		return nil
	})
}

func (r *rawPod) parseStatus(b []byte) error {
	return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 1:
			r.phase = word(cut(b, maxKind))
		case 2:
			c, err := parseCondition(b)
			r.conditions = append(r.conditions, c)
			return err
		case 4:
			r.statusReason = word(b)
		case 8, 10:
			s, err := parseState(b)
			if number == 10 {
				r.initStates = append(r.initStates, s)
			} else {
				r.states = append(r.states, s)
			}
			return err
		}
		return nil
	})
}

func parseState(b []byte) (s status, err error) {
	err = walk(b, func(number protowire.Number, n uint64, b []byte) error {
		switch number {
		case 1:
			s.name = word(b)
		case 2:
			return s.parseNow(b)
		case 3:
			return s.parseLast(b)
		case 4:
			s.ready = n != 0
		case 5:
			s.restart.count = int32(n) // int32 on the wire
		case 6:
			s.image = string(b)
		case 9:
			s.started = n != 0
		case 10:
			s.allocated.parse(b)
			s.hasResources = true
		case 11:
			s.hasResources = true
			return parseRequests(b, &s.requests)
		}
		return nil
	})
	return s, err
}

func (s *status) parseNow(b []byte) error {
	return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 1:
			s.waiting = true
			return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
				if number == 1 {
					s.reason = word(b)
				}
				return nil
			})
		case 2:
			s.running = true
		case 3:
			s.terminated = true
			return walk(b, func(number protowire.Number, n uint64, b []byte) error {
				switch number {
				case 1:
					s.exitCode = int32(n) // int32 on the wire
				case 2:
					s.signal = int32(n) // int32 on the wire
				case 3:
					s.reason = word(b)
				}
				return nil
			})
		}
		return nil
	})
}

// parseLast reads how the run before this one ended.
func (s *status) parseLast(b []byte) error {
	return walk(b, func(number protowire.Number, _ uint64, b []byte) error {
		if number != 3 {
			return nil
		}
		return walk(b, func(number protowire.Number, _ uint64, b []byte) (err error) {
			switch number {
			case 3:
				s.restart.killed = string(b) == "OOMKilled"
			case 6:
				s.restart.finished, err = seconds(b)
			}
			return err
		})
	})
}

// condition returns the one of a name.
func (r *rawPod) condition(name string) (condition, bool) {
	i := slices.IndexFunc(r.conditions, func(c condition) bool { return c.name == name })
	if i < 0 {
		return condition{}, false
	}
	return r.conditions[i], true
}

// record is what is kept.
func (r *rawPod) record() pod {
	p := pod{
		namespace: r.namespace, name: r.name, node: r.node, phase: r.phase, reason: r.state(), service: r.service, owner: r.owner, since: r.created,
		placed: r.node != "",
	}
	p.terminal = r.phase == "Succeeded" || r.phase == "Failed"
	p.counted = !p.terminal
	ready, known := r.condition("Ready")
	if known && ready.since > 0 {
		p.since = ready.since
	}
	p.notReady = !p.terminal && !r.deleted && ready.status != "True"
	if p.counted {
		p.requests = r.requests()
	}
	p.pulls, p.restarts = r.pulls(), r.counts()
	return p
}

// state is STATUS of kubectl get pods; see printPod of Kubernetes' pkg/printers.
func (r *rawPod) state() string {
	reason := r.phase
	if r.statusReason != "" {
		reason = r.statusReason
	}
	if c, ok := r.condition("PodScheduled"); ok && c.reason == "SchedulingGated" {
		reason = c.reason
	}
	initializing, begun := r.initState()
	if initializing {
		reason = begun
	}
	if c, _ := r.condition("Initialized"); !initializing || c.status == "True" {
		reason = r.containerState(reason)
	}
	switch {
	case r.deleted && r.statusReason == "NodeLost":
		return "Unknown"
	case r.deleted && r.phase != "Succeeded" && r.phase != "Failed":
		return "Terminating"
	}
	return word([]byte(reason))
}

// initState is that of the first init container that has not done its work.
func (r *rawPod) initState() (initializing bool, reason string) {
	for i, s := range r.initStates {
		sidecar := slices.ContainsFunc(r.init, func(c container) bool { return c.name == s.name && c.sidecar })
		switch {
		case s.terminated && s.exitCode == 0, sidecar && s.started:
			continue
		case s.terminated:
			return true, "Init:" + ended(s)
		case s.waiting && s.reason != "" && s.reason != "PodInitializing":
			return true, "Init:" + s.reason
		}
		return true, fmt.Sprintf("Init:%d/%d", i, len(r.init))
	}
	return false, ""
}

// ended says how a container ended.
func ended(s status) string {
	switch {
	case s.reason != "":
		return s.reason
	case s.signal != 0:
		return fmt.Sprintf("Signal:%d", s.signal)
	}
	return fmt.Sprintf("ExitCode:%d", s.exitCode)
}

// containerState is that of the first container that is not as it should be.
func (r *rawPod) containerState(reason string) string {
	running := false
	for _, s := range slices.Backward(r.states) {
		switch {
		case s.waiting && s.reason != "":
			reason = s.reason
		case s.terminated:
			reason = ended(s)
		case s.ready && s.running:
			running = true
		}
	}
	if reason == "Completed" && running {
		reason = "NotReady"
		if c, _ := r.condition("Ready"); c.status == "True" {
			reason = "Running"
		}
	}
	return reason
}

// requests is what the scheduler counts; see PodRequests of k8s.io/component-helpers/resource.
func (r *rawPod) requests() amounts {
	c, _ := r.condition("PodResizePending")
	infeasible := c.reason == "Infeasible"
	of := func(c container, states []status) amounts {
		i := slices.IndexFunc(states, func(s status) bool { return s.name == c.name })
		if i < 0 || !states[i].hasResources {
			return c.requests
		}
		actual := states[i].requests.max(states[i].allocated)
		if infeasible {
			return actual
		}
		return actual.max(c.requests)
	}
	var sum, sidecars, init amounts
	for _, c := range r.containers {
		sum = sum.add(of(c, r.states))
	}
	for _, c := range r.init {
		if c.sidecar {
			own := of(c, r.initStates)
			sum, sidecars = sum.add(own), sidecars.add(own)
			init = init.max(sidecars)
			continue
		}
		init = init.max(c.requests.add(sidecars))
	}
	sum = sum.max(init)
	if r.podLevel.hasCPU {
		sum.cpu = r.podLevel.cpu
	}
	if r.podLevel.hasMemory {
		sum.memory = r.podLevel.memory
	}
	sum = sum.add(r.overhead)
	return amounts{cpu: sum.cpu, memory: sum.memory}
}

// pullReason says whether a container waits for its image. ErrImagePull and ImagePullBackOff take turns and are one
// state.
func pullReason(reason string) (string, bool) {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff":
		return "ImagePullBackOff", true
	case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		return reason, true
	}
	return "", false
}

// pulls are the images that the pod can't get.
func (r *rawPod) pulls() (out []pull) {
	for _, of := range []struct {
		states     []status
		containers []container
	}{{r.initStates, r.init}, {r.states, r.containers}} {
		for _, s := range of.states {
			reason, waits := pullReason(s.reason)
			if !s.waiting || !waits {
				continue
			}
			image := s.image // the runtime's name of it
			if i := slices.IndexFunc(of.containers, func(c container) bool { return c.name == s.name }); i >= 0 {
				image = of.containers[i].image
			}
			image = imageOf(image)
			if !slices.ContainsFunc(out, func(p pull) bool { return p.image == image }) {
				out = append(out, pull{image, reason})
			}
		}
	}
	return out
}

// counts are the restarts of all containers, nil if there were none.
func (r *rawPod) counts() []restart {
	out := make([]restart, 0, len(r.initStates)+len(r.states))
	some := false
	for _, s := range slices.Concat(r.initStates, r.states) {
		some = some || s.restart.count > 0
		out = append(out, s.restart)
	}
	if !some {
		return nil
	}
	return out
}

// rank orders pods that are not well: those that fail before those that wait, and these before those that begin.
func (p *pod) rank() int {
	for _, fails := range []string{"BackOff", "Err", "Error", "Invalid", "OOM", "Evicted", "Unknown", "Failed", "Deadline", "Signal:", "ExitCode:", "Cannot"} {
		if strings.Contains(p.reason, fails) {
			return 0
		}
	}
	switch p.reason {
	case "ContainerCreating", "PodInitializing":
		return 2
	}
	return 1
}
