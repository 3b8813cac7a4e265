// Package catalogyaml reads and writes the catalog as people write it down: YAML documents with
// apiVersion, kind, and otherwise exactly the fields of the proto message.
//
// Reading is strict. An unknown key, a value of another type, a key given twice or a broken rule is an
// error that names file, line, resource and field. Output-only fields (status, and in metadata uid,
// revision, createTime and updateTime) are skipped without a look, so that what `fairlead get -o
// yaml` prints can be applied again, also by a CLI that is older than the hub.
package catalogyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"buf.build/go/protovalidate"

	"fairlead.dev/platform/kind"
)

// APIVersion is the only one there is.
const APIVersion = "fairlead.dev/v1"

// Limits on what is read. The limits are far above honest use: a fleet of thousands has some thousand resources, and
// each is small.
const (
	MaxFileBytes = 16 << 20
	maxObjects   = 10_000
	maxNodes     = 1_000_000 // Of files that are read together, counting what aliases repeat.
	nodeBytes    = 32        // Of text that count as one node more.
	maxDepth     = 32
	maxProblems  = 20 // As many as a person reads.
)

// Kind is what a document describes.
type Kind string

// The kinds, and the list of any of them that `get -o json` prints.
const (
	Role    Kind = "Role"
	Secret  Kind = "Secret"
	Source  Kind = "Source"
	Project Kind = "Project"
	Cluster Kind = "Cluster"
	Global  Kind = "GlobalService"
	Service Kind = "Service"
	Grant   Kind = "Grant"

	ServiceAccount Kind = "ServiceAccount"
	ConfigSet      Kind = "ConfigSet"
	Backend        Kind = "Backend"
	Sink           Kind = "Sink"
	AgentConfig    Kind = "AgentConfig"
	ViewSet        Kind = "ViewSet"
	Alert          Kind = "Alert"

	list Kind = "List"
)

// Kinds in the order in which they depend on each other.
func Kinds() []Kind {
	all := kind.All()
	out := make([]Kind, len(all))
	for i, k := range all {
		out[i] = Kind(k.Name())
	}
	return out
}

// new returns an empty message of the kind; nil if there is no such kind.
func (k Kind) new() Message {
	of, ok := kind.Named(string(k))
	if !ok || of.Name() != string(k) {
		return nil
	}
	return of.New()
}

// KindOf returns the kind of a message.
func KindOf(m Message) Kind { return Kind(m.ProtoReflect().Descriptor().Name()) }

// Message is a resource of the catalog.
type Message = kind.Message

// Object is a resource and where it was read.
type Object struct {
	Message Message
	File    string
	Line    int

	lines map[string]int // Line of each field that is there, by its protovalidate path.
}

// Kind of the resource.
func (o *Object) Kind() Kind { return KindOf(o.Message) }

// Name of the resource.
func (o *Object) Name() string { return o.Message.GetMetadata().GetName() }

// Ref names the resource as the CLI does: source/shop.
func (o *Object) Ref() string { return strings.ToLower(string(o.Kind())) + "/" + o.Name() }

func refTo(kind Kind, name string) string {
	if name == "" {
		return ""
	}
	return strings.ToLower(string(kind)) + "/" + name
}

// Problem says what is wrong with a field, as it is called in YAML; with "": with the object.
func (o *Object) Problem(field, message string) Problem {
	who := subject(o.Kind(), o.Name())
	message = strings.TrimPrefix(strings.TrimPrefix(message, who+": "), who+" ") // the subject stands before it anyway
	return o.problemAt(o.lineOf(protoPath(field)), "%s", message)
}

// protoPath is the opposite of jsonPath.
func protoPath(field string) string {
	var b strings.Builder
	quoted := false
	for _, r := range field {
		switch {
		case r == '"':
			quoted = !quoted
		case 'A' <= r && r <= 'Z' && !quoted:
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// problemAt says that something about the object is wrong at a line.
func (o *Object) problemAt(line int, format string, args ...any) Problem {
	return Problem{File: o.File, Line: line, Subject: subject(o.Kind(), o.Name()), Ref: refTo(o.Kind(), o.Name()), Message: fmt.Sprintf(format, args...)}
}

func subject(kind Kind, name string) string {
	if name == "" {
		return strings.ToLower(string(kind))
	}
	return fmt.Sprintf("%s %q", strings.ToLower(string(kind)), name)
}

// Problem is one thing that is wrong in a file.
type Problem struct {
	File    string // Empty: it was made from something else than a file, and has no lines.
	Line    int
	Subject string // Which resource; empty if that is not known.
	// Ref is the resource as Object.Ref has it; empty if its kind or its name is not known.
	Ref     string
	Message string
}

func (p Problem) String() string {
	s := ""
	if p.File != "" {
		s = fmt.Sprintf("%s:%d: ", p.File, p.Line)
	}
	if p.Subject != "" {
		s += p.Subject + ": "
	}
	return s + p.Message
}

// Problems is an error with everything that is wrong, one thing per line.
type Problems []Problem

// Without returns the objects that none of the problems is about, and whether each of the problems says which resource
// it is about.
func (ps Problems) Without(objects []*Object) (good []*Object, all bool) {
	broken := map[string]bool{}
	all = true
	for _, p := range ps {
		broken[p.Ref] = true
		all = all && p.Ref != ""
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o *Object) bool { return o.Name() == "" || broken[o.Ref()] }), all
}

// Sort puts them in the order of files and lines.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

func (ps Problems) Error() string {
	var b strings.Builder
	for i, p := range ps {
		if i == maxProblems {
			fmt.Fprintf(&b, "\n... and %d more", len(ps)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// Validate checks objects, which may come from several files, against the rules of their messages, and that none
// is there twice.
func Validate(objects []*Object) error {
	var problems Problems
	seen := make(map[string]*Object, len(objects))
	for _, o := range objects {
		problems = append(problems, validate(o)...)
		if first, ok := seen[o.Ref()]; ok {
			problems = append(problems, o.problemAt(o.Line, "is described twice: also at %s:%d", first.File, first.Line))
			continue
		}
		seen[o.Ref()] = o
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

func validate(o *Object) Problems {
	err := protovalidate.Validate(o.Message)
	if err == nil {
		return nil
	}
	broken, ok := err.(*protovalidate.ValidationError) //nolint:errorlint // It is never wrapped.
	if !ok {
		return Problems{o.problemAt(o.Line, "%v", err)}
	}
	var problems Problems
	for _, v := range broken.Violations {
		path := protovalidate.FieldPathString(v.Proto.GetField())
		message := v.Proto.GetMessage()
		if message == "" {
			message = "breaks the rule " + v.Proto.GetRuleId()
		}
		// The library says the path, too, for rules of some kinds.
		message = strings.TrimPrefix(message, path+": ")
		if path != "" {
			message = jsonPath(path) + ": " + message
		}
		problems = append(problems, o.problemAt(o.lineOf(path), "%s", message))
	}
	return problems
}

// lineOf finds the field, or the nearest thing around it that is there.
func (o *Object) lineOf(path string) int {
	for path != "" {
		if line, ok := o.lines[path]; ok {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return o.Line
}

// jsonPath turns the names of proto into those of YAML: page_size is pageSize.
func jsonPath(path string) string {
	var b strings.Builder
	quoted, upper := false, false
	for _, r := range path {
		switch {
		case r == '"':
			quoted = !quoted
		case r == '_' && !quoted:
			upper = true
			continue
		case upper && 'a' <= r && r <= 'z':
			r -= 'a' - 'A'
		}
		upper = false
		b.WriteRune(r)
	}
	return b.String()
}

// Sort brings objects into the order in which they can be written: what others depend on first, and
// otherwise as they were given.
func Sort(objects []*Object) {
	order := Kinds()
	slices.SortStableFunc(objects, func(a, b *Object) int {
		return slices.Index(order, a.Kind()) - slices.Index(order, b.Kind())
	})
}
