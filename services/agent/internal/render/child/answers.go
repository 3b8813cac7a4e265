package child

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"

	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/render"
)

// random are the functions that give another answer each time.
var random = []string{ //nolint:gochecknoglobals // a table
	"randAlphaNum", "randAlpha", "randNumeric", "randAscii", "randBytes", "randInt", "shuffle", "uuidv4",
	"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
	"htpasswd", "bcrypt", "encryptAES", "now", "ago",
}

// undated are the functions that tell the time if this argument of theirs is none.
var undated = map[string]int{ //nolint:gochecknoglobals // a table
	"date": 1, "dateInZone": 1, "date_in_zone": 1, "htmlDate": 0, "htmlDateInZone": 0,
}

// answers gives the calls of random and time functions the answers that are kept, and gathers new ones. A chart that is
// rendered again, for whatever reason, gives the same objects by that.
type answers struct {
	recall func() ([]render.Answer, error)
	now    func() time.Time
	// known is nil before the first call.
	known map[render.Call]render.Answer
	// template is the one that is rendered.
	template string
	// calls counts those that have all but the number in common.
	calls map[render.Call]int
	bytes int
	// used are those that templates got, kept ones and new ones.
	used []render.Answer
	// loose are the calls whose answers are not kept, by template and function.
	loose map[[2]string]bool
}

func newAnswers(recall func() ([]render.Answer, error)) *answers {
	return &answers{recall: recall, now: time.Now, calls: map[render.Call]int{}, loose: map[[2]string]bool{}}
}

// wrapFunctions are those of all that need an answer kept, wrapped; and those whose order is by chance, in order.
func (a *answers) wrapFunctions(all template.FuncMap) template.FuncMap {
	wrapped := template.FuncMap{}
	for _, name := range random {
		if f, ok := all[name]; ok {
			wrapped[name] = a.keepAnswers(name, f, func([]reflect.Value) bool { return true })
		}
	}
	for name, at := range undated {
		if f, ok := all[name]; ok {
			wrapped[name] = a.keepAnswers(name, f, func(in []reflect.Value) bool { return !isDated(in[at]) })
		}
	}
	if f, ok := all["durationRound"]; ok {
		wrapped["durationRound"] = a.keepAnswers("durationRound", f, func(in []reflect.Value) bool {
			_, since := reflect.TypeAssert[time.Time](in[0])
			return since
		})
	}
	wrapped["keys"] = func(dicts ...map[string]any) []string {
		names := []string{}
		for _, dict := range dicts {
			names = append(names, slices.Sorted(maps.Keys(dict))...)
		}
		return names
	}
	wrapped["values"] = func(dict map[string]any) []any {
		all := []any{}
		for _, name := range slices.Sorted(maps.Keys(dict)) {
			all = append(all, dict[name])
		}
		return all
	}
	return wrapped
}

// isDated tells whether a date function goes by this argument, and not by the clock.
func isDated(in reflect.Value) bool {
	switch in.Interface().(type) {
	case time.Time, *time.Time, int64, int, int32:
		return true
	}
	return false
}

// keepAnswers wraps a function: a call that moves gets the answer that is kept.
func (a *answers) keepAnswers(name string, f any, moves func(in []reflect.Value) bool) any {
	function := reflect.ValueOf(f)
	kind := function.Type()
	call := function.Call
	if kind.IsVariadic() {
		call = function.CallSlice
	}
	return reflect.MakeFunc(kind, func(in []reflect.Value) []reflect.Value {
		if !moves(in) {
			return call(in)
		}
		id, known, err := a.findAnswer(name, in)
		if err == nil && known != nil {
			value := reflect.New(kind.Out(0))
			if err = json.Unmarshal(known.Value, value.Interface()); err == nil {
				a.noteUse(*known)
				return resultValues(kind, value.Elem(), nil)
			}
		}
		if err != nil {
			panic(err) // the template fails by it
		}
		out := call(in)
		if len(out) > 1 && !out[1].IsNil() {
			return out
		}
		text, err := json.Marshal(out[0].Interface())
		if err != nil {
			panic(fmt.Errorf("keep the answer of %s: %w", name, err))
		}
		a.noteUse(render.Answer{Call: id, Value: text, Renew: renewalTime(out[0])})
		value := reflect.New(kind.Out(0)) // as it is read the next time: a time loses its reading of the monotonic clock
		if err := json.Unmarshal(text, value.Interface()); err != nil {
			panic(fmt.Errorf("keep the answer of %s: %w", name, err))
		}
		return resultValues(kind, value.Elem(), nil)
	}).Interface()
}

// resultValues are a value, and an error where the function has one.
func resultValues(kind reflect.Type, value reflect.Value, err error) []reflect.Value {
	out := []reflect.Value{value}
	if kind.NumOut() > 1 {
		last := reflect.New(kind.Out(1)).Elem()
		if err != nil {
			last.Set(reflect.ValueOf(err))
		}
		out = append(out, last)
	}
	return out
}

// findAnswer names a call, and looks for its answer; nil: it is a new one.
func (a *answers) findAnswer(name string, in []reflect.Value) (render.Call, *render.Answer, error) {
	if a.known == nil {
		kept, err := a.recall()
		if err != nil {
			return render.Call{}, nil, err
		}
		a.known = make(map[render.Call]render.Answer, len(kept))
		for _, answer := range kept {
			if !answer.Due(a.now()) {
				a.known[answer.Call] = answer
			}
		}
	}
	sum := sha256.New()
	for _, argument := range in {
		text, err := json.Marshal(argument.Interface())
		if err != nil {
			text = fmt.Append(nil, argument.Interface())
		}
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	id := render.Call{Function: name, Arguments: hex.EncodeToString(sum.Sum(nil)[:16]), Template: a.template}
	nth := a.calls[id]
	a.calls[id]++
	id.Nth = nth
	if known, ok := a.known[id]; ok {
		return id, &known, nil
	}
	return id, nil, nil
}

// noteUse notes an answer that a template got, as far as there is room.
func (a *answers) noteUse(answer render.Answer) {
	if size := answer.Size(); a.bytes+size <= render.MaxAnswers {
		a.bytes += size
		a.used = append(a.used, answer)
		return
	}
	a.loose[[2]string{answer.Template, answer.Function}] = true
}

// renewalTime is when a certificate is to be made again: after about two thirds of its life, at another time for each.
func renewalTime(value reflect.Value) time.Time {
	if value.Kind() != reflect.Struct || value.Type() == reflect.TypeFor[time.Time]() {
		return time.Time{}
	}
	text := value.FieldByName("Cert")
	if !text.IsValid() || text.Kind() != reflect.String {
		return time.Time{}
	}
	block, _ := pem.Decode([]byte(text.String()))
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	life := certificate.NotAfter.Sub(certificate.NotBefore) // 292 years at most
	if life < time.Hour {
		return time.Time{} // the certificate would be made again and again
	}
	return certificate.NotBefore.Add(retry.Between(life/3*2-life/12, life/3*2)).UTC().Truncate(time.Second)
}

// marked is what is put before each template of a chart: the engine does not say which one it renders. The mark gives
// no text.
const marked = "{{fairleadAt .}}"

// markTemplates has templates say which one they are.
func markTemplates(c *chart.Chart) {
	for _, file := range c.Templates {
		if !strings.HasPrefix(path.Base(file.Name), "_") {
			file.Data = append([]byte(marked), file.Data...)
		}
	}
	for _, dependency := range c.Dependencies() {
		markTemplates(dependency)
	}
}

// templateAt is fairleadAt. A template that is included by its path gets what the one around it passes.
func (a *answers) templateAt(data any) string {
	scope, ok := data.(common.Values)
	if plain, isMap := data.(map[string]any); isMap {
		scope, ok = plain, true
	}
	if !ok {
		return ""
	}
	var name any
	switch about := scope["Template"].(type) {
	case common.Values:
		name = about["Name"]
	case map[string]any:
		name = about["Name"]
	}
	if name, ok := name.(string); ok {
		a.template = name
	}
	return ""
}

// column is a place in the first line of a template, where the mark is.
var column = regexp.MustCompile(`(\.[A-Za-z]+:1:)(\d+)`)

// unmarkText is an error's text with the columns that a template has without its mark.
func unmarkText(text string) string {
	return column.ReplaceAllStringFunc(text, func(place string) string {
		parts := column.FindStringSubmatch(place)
		if at, err := strconv.Atoi(parts[2]); err == nil && at >= len(marked) {
			return parts[1] + strconv.Itoa(at-len(marked))
		}
		return place
	})
}

// describeUnkept says where calls stand whose answers are not kept: in the template, or else in one that it may
// include. "": there are none.
func (a *answers) describeUnkept(sources map[string][]byte) string {
	if len(a.loose) == 0 {
		return ""
	}
	const most = 5
	calls := slices.SortedFunc(maps.Keys(a.loose), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	var all []string
	for _, call := range calls {
		name, function := call[0], call[1]
		place := name
		for _, file := range append([]string{name}, slices.Sorted(maps.Keys(sources))...) {
			if line := lineOf(sources[file], function); line > 0 {
				place = fmt.Sprintf("%s, line %d", file, line)
				break
			}
		}
		all = append(all, fmt.Sprintf("%s (%s)", place, function))
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("and %d more", more))
	}
	return "Random values are made again by every render, because they are too many to be kept: " + strings.Join(all, "; ") + "."
}

// lineOf is the first line that has a word; 0: there is none.
func lineOf(text []byte, word string) int {
	at := regexp.MustCompile(`\b` + word + `\b`).FindIndex(text)
	if at == nil {
		return 0
	}
	return bytes.Count(text[:at[0]], []byte("\n")) + 1
}

// sourcesOf are a chart's templates by the engine's names.
func sourcesOf(c *chart.Chart, sources map[string][]byte) map[string][]byte {
	for _, file := range c.Templates {
		sources[path.Join(c.ChartFullPath(), file.Name)] = file.Data
	}
	for _, dependency := range c.Dependencies() {
		sourcesOf(dependency, sources)
	}
	return sources
}

// recallAnswers asks the agent for the answers that are kept.
func (j *job) recallAnswers() ([]render.Answer, error) {
	payload, err := j.askAgent(render.FrameRecall, nil)
	if err != nil {
		return nil, err
	}
	var answer render.RecallAnswer
	if err := json.Unmarshal(payload, &answer); err != nil {
		return nil, fmt.Errorf("read kept values: %w", err)
	}
	if answer.Error != "" {
		j.unanswered = true
		return nil, errors.New(answer.Error)
	}
	return answer.Answers, nil
}
