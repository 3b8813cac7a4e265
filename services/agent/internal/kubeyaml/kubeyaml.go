// Package kubeyaml turns plain manifests into objects.
//
// A file may hold several documents; empty ones and ones of comments only are skipped; a List is taken
// apart. Everything else is a mistake and stops the whole folder, because a guess could delete
// something: a document without apiVersion, kind or name, and generateName (a new object at every apply) but of a hook.
//
// Scalars mean what kubectl takes them for (`on` and `yes` are true), and not what YAML 1.2 says.
package kubeyaml

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/mistakes"
	"fairlead.dev/services/agent/internal/object"
)

// Limits on what one folder may make the agent hold in memory.
const (
	// MaxFileBytes bounds one file. The API server takes objects of 1.5 MiB; a List may be larger.
	MaxFileBytes = 16 << 20
	// MaxBytes bounds all manifests of a folder.
	MaxBytes = 64 << 20
	// MaxDocuments bounds documents, and objects, of a folder.
	MaxDocuments = 20_000
	// maxDepth bounds nesting. Deep CRD schemas reach about 80.
	maxDepth = 200
	// maxMarks bounds the separators of one document before it is parsed: a parsed node costs
	// ~150 bytes, so this bounds the parser to ~75 MB. CRDs of 1 MB have about 60,000.
	maxMarks = 500_000
	// maxNodes bounds the values of a whole folder.
	maxNodes = 2_000_000
	// maxAliased bounds the values that aliases repeat in one document.
	maxAliased = 100_000
	// maxAliasedBytes bounds the text that they repeat.
	maxAliasedBytes = 4 << 20
)

const byteOrderMark = "\xef\xbb\xbf"

// Position says where an object was written down.
type Position struct {
	// File is the path within the repository.
	File string
	// Document counts from 1 within the file.
	Document int
	// Item counts from 1 within a List; 0: the document is no List.
	Item int
	// Line of the file where the document begins.
	Line int
	// CRD: the document is of a chart's crds/ folder.
	CRD bool
	// Text is the sum of the document's text, 0 if it is not known: equal texts give equal objects.
	Text object.Sum
}

func (p Position) String() string {
	text := p.File
	if p.Document > 0 {
		text += fmt.Sprintf(", document %d", p.Document)
	}
	if p.Item > 0 {
		text += fmt.Sprintf(", item %d", p.Item)
	}
	return text
}

// Object is an object and where it was written down.
type Object struct {
	*unstructured.Unstructured

	Position Position
}

// Ref is the object's name in the cluster.
func (o Object) Ref() object.Ref { return object.RefOf(o.Unstructured) }

// String names the object and its place: "ConfigMap default/hello (apps/hello/config.yaml, document 2)".
func (o Object) String() string {
	return fmt.Sprintf("%s (%s)", o.Ref().Key, o.Position)
}

// Error is a mistake in the manifests. Only a new commit mends it, so it is not worth a retry.
type Error struct {
	Position Position
	// Line of the mistake, 0 when unknown.
	Line    int
	Problem string
}

func (e *Error) Error() string {
	where := e.Position.String()
	if e.Line > 0 {
		where += fmt.Sprintf(", line %d", e.Line)
	}
	return where + ": " + e.Problem
}

// Add takes an object, in the order of documents. A *Error is a mistake; any other error ends the reading.
type Add func(obj *unstructured.Unstructured, at Position) error

// Memo adds what a document's text gave the last time, if it is known: then it need not be read.
type Memo func(at Position) (known bool, err error)

// Reader reads files of manifests, one after the other. A Reader holds no more than one of them.
type Reader struct {
	// Warn is told what is read, though its author may have meant something else. Warn may be nil.
	Warn func(text string)

	add  Add
	memo Memo
	// take is given each document that is not empty.
	take func(at Position, value any) error

	problems  mistakes.List
	objects   int
	bytes     int
	documents int
	nodes     int
	// exhausted is set when a limit of the whole is passed, or add failed: nothing else is looked at.
	exhausted bool
}

// NewReader returns a reader. The memo may be nil.
func NewReader(add Add, memo Memo) *Reader {
	p := &Reader{add: add, memo: memo}
	p.take = p.document
	return p
}

// Read reads a plain file. False: nothing more is to be read; Err says why.
func (p *Reader) Read(name string, data []byte) bool { return p.ReadAs(Plain, name, data) }

// ReadAs reads a file by the rules of its dialect.
func (p *Reader) ReadAs(as Dialect, name string, data []byte) bool {
	if p.exhausted {
		return false
	}
	if err := p.file(as, name, data); err != nil {
		if _, isMistake := errors.AsType[*Error](err); !isMistake {
			p.problems, p.exhausted = mistakes.List{}, true
		}
		p.problems.Add(err)
	}
	return !p.exhausted
}

// Err joins the mistakes of the first files that have some, of each file the first, and counts those of the others.
func (p *Reader) Err() error { return p.problems.Err() }

func (p *Reader) file(as Dialect, name string, data []byte) error {
	at := Position{File: name}
	if len(data) > MaxFileBytes {
		return &Error{Position: at, Problem: fmt.Sprintf("the file has more than the %d bytes that are read. Split it", MaxFileBytes)}
	}
	if p.bytes += len(data); p.bytes > MaxBytes {
		p.exhausted = true
		return &Error{Position: at, Problem: fmt.Sprintf("the folder's manifests have more than %d bytes. Split the service", MaxBytes)}
	}
	data = bytes.TrimPrefix(data, []byte(byteOrderMark)) // the byte order mark of Windows editors
	if as != HelmTemplate && (looksLikeJSON(data) || path.Ext(name) == ".json") {
		return p.mixedFile(at, data)
	}
	return p.chunks(at, split(data, as), as)
}

// warn tells of something that is read in another way than it looks.
func (p *Reader) warn(at Position, line int, problem string) {
	if p.Warn != nil {
		p.Warn((&Error{Position: at, Line: line, Problem: problem}).Error() + ".")
	}
}

// document takes one decoded document.
func (p *Reader) document(at Position, value any) error {
	if p.documents++; p.documents > MaxDocuments {
		p.exhausted = true
		return &Error{Position: at, Problem: fmt.Sprintf("the folder has more than %d documents. Split the service", MaxDocuments)}
	}
	content, ok := value.(map[string]any)
	if !ok {
		return &Error{Position: at, Line: at.Line, Problem: "is no Kubernetes object: it holds a " + typeName(value) +
			" where apiVersion, kind and metadata should be. Move it out of the folder if it is none"}
	}
	return p.object(at, content, 0)
}

func (p *Reader) object(at Position, content map[string]any, depth int) error {
	apiVersion, kind, err := typeOf(at, content)
	if err != nil {
		return err
	}
	if isList(apiVersion, kind, content) {
		items, ok := content["items"].([]any)
		if !ok && content["items"] != nil { // to take it for an empty one would remove what it holds
			problem := kind + ": items: expected list, got " + typeName(content["items"])
			return &Error{Position: at, Line: at.Line, Problem: problem}
		}
		return p.list(at, apiVersion, kind, items, depth)
	}
	if p.objects++; p.objects > MaxDocuments {
		p.exhausted = true
		return &Error{Position: at, Problem: fmt.Sprintf("the folder has more than %d objects. Split the service", MaxDocuments)}
	}
	if err := checkMetadata(at, kind, content); err != nil {
		return err
	}
	return p.add(&unstructured.Unstructured{Object: content}, at)
}

// Check makes sure that an object has all that an object needs, and takes away what only the server writes.
func Check(content map[string]any, at Position) error {
	_, kind, err := typeOf(at, content)
	if err != nil {
		return err
	}
	if tooDeep(content, 0) {
		return &Error{Position: at, Line: at.Line, Problem: fmt.Sprintf("%s is nested more than %d levels deep", kind, maxDepth)}
	}
	return checkMetadata(at, kind, content)
}

func tooDeep(value any, depth int) bool {
	if depth > maxDepth {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for _, item := range value {
			if tooDeep(item, depth+1) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(item any) bool { return tooDeep(item, depth+1) })
	}
	return false
}

// isList tells a List, and not a custom resource whose kind happens to end with the word: that has a name.
func isList(apiVersion, kind string, content map[string]any) bool {
	if apiVersion == "v1" && kind == "List" {
		return true
	}
	metadata, _ := content["metadata"].(map[string]any)
	_, items := content["items"].([]any)
	return items && strings.HasSuffix(kind, "List") && metadata["name"] == nil
}

// list takes a List apart. A List in a List is read, though not endlessly.
func (p *Reader) list(at Position, apiVersion, kind string, items []any, depth int) error {
	const maxLists = 3
	if depth >= maxLists {
		return &Error{Position: at, Line: at.Line, Problem: "Lists are nested too deeply. Write the objects as documents"}
	}
	for i, item := range items {
		at := at
		at.Item = i + 1
		content, ok := item.(map[string]any)
		if !ok {
			return &Error{Position: at, Line: at.Line, Problem: "is no Kubernetes object: it holds a " + typeName(item)}
		}
		// The items of a ConfigMapList, as the API server writes it, leave out what the list says.
		if elem := strings.TrimSuffix(kind, "List"); elem != "" {
			if _, ok := content["kind"]; !ok {
				content["kind"] = elem
			}
			if _, ok := content["apiVersion"]; !ok {
				content["apiVersion"] = apiVersion
			}
		}
		if err := p.object(at, content, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func typeOf(at Position, content map[string]any) (apiVersion, kind string, err error) {
	apiVersion, _ = content["apiVersion"].(string)
	kind, _ = content["kind"].(string)
	var missing string
	switch {
	case apiVersion == "" && kind == "":
		missing = "apiVersion and kind are missing. Move the file out of the folder if it is no Kubernetes manifest"
	case apiVersion == "":
		missing = kind + ": apiVersion is missing"
	case kind == "":
		missing = "kind is missing"
	default:
		if _, err := schema.ParseGroupVersion(apiVersion); err == nil {
			return apiVersion, kind, nil
		}
		missing = fmt.Sprintf("%s: apiVersion %q is not of the form group/version", kind, apiVersion)
	}
	return "", "", &Error{Position: at, Line: at.Line, Problem: missing}
}

// serverFields are written by the API server. A manifest that was read from a cluster still has
// them, and they would make the apply fail.
func serverFields() []string {
	return []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"}
}

func checkMetadata(at Position, kind string, content map[string]any) error {
	fail := func(problem string) error {
		return &Error{Position: at, Line: at.Line, Problem: kind + ": " + problem}
	}
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		return fail("metadata.name is missing")
	}
	name, ok := metadata["name"].(string)
	switch {
	case !ok && metadata["name"] != nil:
		return fail("metadata.name must be a string: put it in quotes")
	case name == "" && metadata["generateName"] != nil:
		if !isHook(metadata) {
			return fail("metadata.generateName would make a new object at every apply. Give it a metadata.name")
		}
		if name, ok = metadata["generateName"].(string); !ok || name == "" {
			return fail("metadata.generateName must be a string: put it in quotes")
		}
	case name == "":
		return fail("metadata.name is missing")
	default:
		delete(metadata, "generateName")
	}
	if strings.Contains(name, "/") || name == "." || name == ".." {
		return fail(fmt.Sprintf("metadata.name %q can't be a name", name))
	}
	for _, field := range serverFields() {
		delete(metadata, field)
	}
	if namespace, ok := metadata["namespace"]; ok {
		text, isText := namespace.(string)
		if (!isText && namespace != nil) || strings.Contains(text, "/") || text == "." || text == ".." {
			return fail("metadata.namespace must be the name of a namespace")
		}
	}
	return checkStrings(metadata, fail)
}

// isHook tells an object that is made once for a revision, so that it may have a name of its own each time.
func isHook(metadata map[string]any) bool {
	annotations, _ := metadata["annotations"].(map[string]any)
	texts := map[string]string{}
	for key, value := range annotations {
		texts[key] = fmt.Sprint(value)
	}
	wishes, err := object.WishesOf(texts)
	return err == nil && wishes.Hook != 0
}

// checkStrings finds labels and annotations that are no strings: everybody's first mistake with YAML.
func checkStrings(metadata map[string]any, fail func(string) error) error {
	for _, field := range []string{"labels", "annotations"} {
		values, ok := metadata[field].(map[string]any)
		if !ok {
			if metadata[field] != nil {
				return fail("metadata." + field + ": expected map, got " + typeName(metadata[field]))
			}
			delete(metadata, field)
			continue
		}
		for key, value := range values {
			if _, ok := value.(string); !ok {
				return fail(fmt.Sprintf("metadata.%s[%s]: expected string, got %s. Put it in quotes", field, key, typeName(value)))
			}
		}
	}
	return nil
}

func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	case []any:
		return "list"
	case map[string]any:
		return "map"
	}
	return "value"
}
