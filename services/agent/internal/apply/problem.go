package apply

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/upgrade"
)

const (
	// maxProblemBytes keeps a webhook's essay out of the report.
	maxProblemBytes = 1024
	// maxCauses is how many mistakes of one object are told.
	maxCauses = 3
)

// Problem is an error of the API server in words for the person who wrote the manifest.
type Problem struct {
	// Text is what is wrong, without a full stop.
	Text string
	// Advice is the next step: a sentence.
	Advice string
	// Mistake: the manifest is at fault. Otherwise time or an operator may mend it.
	Mistake bool
	// Owner is the service that has the object, where that is the problem.
	Owner string
}

const (
	fixAndPush     = "Fix the manifest and push."
	triedAgain     = "It is tried again."
	cantChange     = "It can't be changed on an existing object: undo the change, or delete the object so that it is made anew."
	cantChangeHere = "It can't be changed on an existing object: undo the change, delete the object so that it is made anew, or allow that by its annotation " +
		object.RecreateAnnotation + ": allowed."
	recreatesByAll = "It can't be changed on an existing object: a sync of all of the service deletes it, and makes it anew."
	allowTheUser   = "Allow it to that account, see the agent's README."
)

// Taken is the problem of an object that another service has.
func Taken(owner string) *Problem {
	return &Problem{
		Text:    fmt.Sprintf("it belongs to service %q", owner),
		Advice:  "Remove it from one of the two, or, if that service is gone, take the label fairlead.dev/service off the object.",
		Mistake: true, Owner: owner,
	}
}

// explainError puts an error into words. Answers about Secrets are not repeated, since they may quote values:
// only what is known to be harmless is told.
func explainError(item set.Item, err error) *Problem {
	problem := describeError(item.Kind == "Secret", err)
	problem.Text = shortenText(problem.Text)
	if problem.Advice == cantChange && mayRecreate(item) {
		problem.Advice = cantChangeHere
		if Recreates(item, err) && item.Hook == 0 { // the object was named alone
			problem.Advice = recreatesByAll
		}
	}
	return problem
}

// Explain puts an error about an object into words that quote no value of a Secret.
func Explain(ref object.Ref, err error) string {
	problem := explainError(set.Item{Ref: ref}, err)
	return problem.Text + ". " + problem.Advice
}

// isImmutable tells the refusal of a change to a field that can't be changed.
func isImmutable(err error) bool {
	return err != nil && describeError(true, err).Advice == cantChange
}

func describeError(secret bool, err error) *Problem {
	if unknown := (*cluster.UnknownKindError)(nil); errors.As(err, &unknown) {
		return &Problem{Text: strings.TrimSuffix(unknown.Error(), "."), Advice: triedAgain}
	}
	if waits := (*upgrade.WaitError)(nil); errors.As(err, &waits) {
		return &Problem{Text: "it " + waits.Why, Advice: triedAgain}
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		if errors.Is(err, context.DeadlineExceeded) {
			return &Problem{Text: "the API server did not answer in time", Advice: triedAgain}
		}
		if secret {
			return &Problem{Text: "the API server can't be reached", Advice: triedAgain}
		}
		return &Problem{Text: "the API server can't be reached: " + withoutPorts(err.Error()), Advice: triedAgain}
	}
	answer := status.Status()
	if text, ok := typeErrors(secret, answer.Message); ok {
		return &Problem{Text: text, Advice: fixAndPush, Mistake: true}
	}
	if strings.Contains(answer.Message, "illegal base64 data") {
		return &Problem{Text: "data: a value is not base64", Advice: "Encode it, or write it as plain text under stringData, and push.", Mistake: true}
	}
	switch answer.Reason {
	case metav1.StatusReasonInvalid:
		return describeInvalid(secret, answer)
	case metav1.StatusReasonForbidden:
		return describeForbidden(secret, answer)
	case metav1.StatusReasonNotFound:
		if answer.Details != nil && answer.Details.Kind == "namespaces" {
			return &Problem{
				Text:   fmt.Sprintf("namespace %q does not exist", answer.Details.Name),
				Advice: "Add it to the manifests, or create it. " + triedAgain,
			}
		}
	}
	return describeOther(secret, answer)
}

// typeErrors reads what server-side apply says about fields of the wrong type or that do not exist. The message quotes
// the value, in one of Go's notations; only the value's type is told.
func typeErrors(secret bool, message string) (string, bool) {
	list, ok := strings.CutPrefix(message, "failed to create typed patch object (")
	if !ok {
		return "", false
	}
	if _, list, ok = strings.Cut(list, "): "); !ok {
		return "", false
	}
	wrongType := regexp.MustCompile(`^(.*?): expected ([a-z ()]+), got (.*)$`)
	var causes []string
	for text := range strings.SplitSeq(list, "\n") {
		text = strings.TrimSpace(text)
		if !strings.HasPrefix(text, ".") {
			continue // the heading, or the rest of a value that has several lines
		}
		text = strings.TrimPrefix(text, ".")
		if match := wrongType.FindStringSubmatch(text); match != nil {
			text = fmt.Sprintf("%s: expected %s, got %s", match[1], match[2], goType(match[3]))
		} else if field, ok := strings.CutSuffix(text, ": field not declared in schema"); ok {
			text = field + ": there is no such field"
		} else if secret {
			text = "a field is invalid"
		}
		causes = append(causes, text)
	}
	if len(causes) == 0 {
		causes = []string{"a field has the wrong type"}
	}
	slices.Sort(causes)
	return joinCauses(slices.Compact(causes)), true
}

// goType finds the type of a value that was printed with %v, %#v or %T.
func goType(value string) string {
	value = strings.TrimPrefix(value, "&value.valueUnstructured{Value:")
	value = strings.TrimPrefix(value, "&{")
	value = strings.TrimSuffix(value, "}")
	switch {
	case value == "true" || value == "false" || value == "bool":
		return "boolean"
	case strings.HasPrefix(value, "["):
		return "list"
	case strings.HasPrefix(value, "map["):
		return "map"
	case value == "<nil>" || value == "nil" || strings.HasPrefix(value, "interface {}(nil)"):
		return "null"
	case regexp.MustCompile(`^-?\d+$`).MatchString(value):
		return "integer"
	case regexp.MustCompile(`^-?[\d.]+(e[+-]\d+)?$`).MatchString(value):
		return "number"
	}
	return "string"
}

// describeInvalid tells each field that validation refused.
func describeInvalid(secret bool, answer metav1.Status) *Problem {
	problem := &Problem{Text: "the API server finds it invalid", Advice: fixAndPush, Mistake: true}
	if answer.Details == nil || len(answer.Details.Causes) == 0 {
		if !secret && answer.Message != "" {
			problem.Text = answer.Message
		}
		return problem
	}
	var causes []string
	for _, cause := range answer.Details.Causes {
		detail, quoted := withoutValue(cause.Message)
		if isUnchangeable(detail) {
			problem.Advice = cantChange
		} else if !secret {
			detail = cause.Message
		}
		if secret && !quoted && cause.Type == metav1.CauseTypeFieldValueInvalid {
			detail = "invalid value"
		}
		causes = append(causes, cause.Field+": "+detail)
	}
	slices.Sort(causes) // the API server goes over maps: the same mistakes come in another order with every request
	problem.Text = joinCauses(slices.Compact(causes))
	return problem
}

func isUnchangeable(detail string) bool {
	for _, words := range []string{"immutable", "may not change", "may not be changed", "cannot change roleRef"} {
		if strings.Contains(detail, words) {
			return true
		}
	}
	_, updates, found := strings.Cut(detail, "updates to ")
	return found && strings.Contains(updates, " are forbidden") // of a StatefulSet's claim templates, of a StorageClass
}

// withoutValue cuts the quoted value off `Invalid value: "x": detail`. ok is false if it can't be told
// where the value ends.
func withoutValue(message string) (detail string, ok bool) {
	if match := regexp.MustCompile(`(?s)^Invalid value: "(?:[^"\\]|\\.)*": (.*)$`).FindStringSubmatch(message); match != nil {
		return match[1], true
	}
	if _, found := strings.CutPrefix(message, "Invalid value: "); found && strings.HasSuffix(message, ": field is immutable") {
		return "field is immutable", true
	}
	if strings.HasPrefix(message, "Invalid value: ") && strings.HasSuffix(message, ": may not change once set") {
		return "may not change once set", true
	}
	return message, false
}

// describeForbidden tells three refusals apart: by access rules, by a webhook, and by the rest of admission.
func describeForbidden(secret bool, answer metav1.Status) *Problem {
	if match := regexp.MustCompile(`User "([^"]*)" cannot (\w+) resource "([^"]*)" in API group "([^"]*)"( in the namespace "[^"]*"| at the cluster scope)?`).FindString(answer.Message); match != "" {
		return &Problem{Text: match, Advice: allowTheUser}
	}
	if match := regexp.MustCompile(`admission webhook "[^"]*" denied the request`).FindString(answer.Message); match != "" && secret {
		return &Problem{Text: match, Advice: fixAndPush, Mistake: true}
	}
	if secret {
		return &Problem{Text: "the API server forbids it", Advice: triedAgain}
	}
	return &Problem{Text: answer.Message, Advice: "Change what forbids it, or the manifest. " + triedAgain}
}

func describeOther(secret bool, answer metav1.Status) *Problem {
	mistake := answer.Reason == metav1.StatusReasonBadRequest || answer.Reason == metav1.StatusReasonRequestEntityTooLarge ||
		answer.Reason == metav1.StatusReasonMethodNotAllowed || strings.HasPrefix(answer.Message, "failed to convert new object")
	problem := &Problem{Text: answer.Message, Advice: triedAgain, Mistake: mistake}
	if mistake {
		problem.Advice = fixAndPush
	}
	if secret || problem.Text == "" {
		problem.Text = fmt.Sprintf("the API server refused it (%d %s)", answer.Code, answer.Reason)
	}
	return problem
}

// noDryRun tells the refusal of a webhook that has side effects.
func noDryRun(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// withoutPorts takes the near end off a network error: its port is another one with every connection, and the error is
// the same.
func withoutPorts(text string) string {
	return regexp.MustCompile(`(?:\[[0-9a-fA-F:.%a-z]+\]|[0-9.]+):\d+->`).ReplaceAllString(text, "")
}

func countWords(n int, what string) string { return fmt.Sprintf("%d %ss", n, what) }

func joinCauses(causes []string) string {
	text := strings.Join(causes[:min(len(causes), maxCauses)], "; ")
	if more := len(causes) - maxCauses; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func shortenText(text string) string {
	text = strings.ToValidUTF8(strings.TrimRight(text, ". \n"), "?")
	if len(text) <= maxProblemBytes {
		return text
	}
	cut := maxProblemBytes
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + " ..."
}
