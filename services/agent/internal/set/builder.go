package set

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/mistakes"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// MaxContent bounds the objects of a service, in bytes as they are sent.
	MaxContent = 128 << 20
	// maxObject bounds one object: the API server takes about 1.5 MiB.
	maxObject = 4 << 20
)

// Target is what a set is made for.
type Target struct {
	Service string
	ID      ID
	// Namespace for objects that name none.
	Namespace string
	Scopes    Scopes
	// Rules bound the objects; nil: nothing does.
	Rules *deliveryv1.ObjectRules
	// Registries that images may be pulled from, as lists, one of each has to fit; none: any.
	Registries [][]string
	// Tests: the set is of the objects of tests, and of no others.
	Tests bool
	// CRDs says what becomes of definitions in crds/ of a chart.
	CRDs deliveryv1.CrdPolicy
}

// Scopes says whether a kind lives in namespaces, as the cluster has it. A *cluster.UnknownKindError: the cluster does
// not serve the kind.
type Scopes interface {
	Namespaced(ctx context.Context, gvk schema.GroupVersionKind) (bool, error)
}

// Builder writes a set: each object gets the service's mark, and a namespace where its kind has one.
type Builder struct {
	Target

	path  string
	file  *os.File
	w     *bufio.Writer
	at    int64
	items []Item
	// known are the scopes that the cluster told, and unserved the kinds that it does not serve; own are the scopes of
	// kinds whose CRDs are in the set, which count only for kinds that the cluster does not serve: a CRD may claim any
	// kind, and be refused.
	known    map[schema.GroupVersionKind]bool
	unserved map[schema.GroupVersionKind]error
	own      map[schema.GroupKind]bool
	// scaled are the objects that autoscalers scale, by the place of the autoscaler among the items.
	scaled map[int]object.Key
	// silent: the cluster did not tell a scope, and is asked again at the end.
	silent bool
	// last is what the service was before, and before its items by the text they were read from.
	last   *Set
	before map[object.Sum][]Item
	// environment that the objects depend on.
	environment string
	// foreign are the images that Registries do not have.
	foreign mistakes.List
	// releaseService is what templates of a chart see as .Release.Service.
	releaseService string
	warnings       []string
}

// Create begins a set. End it with Commit or Discard.
func (st *Store) Create(target Target) (*Builder, error) {
	path := st.pathOf(target.Service, target.ID)
	// The name is one that OpenStore sweeps.
	file, err := os.CreateTemp(st.dir, "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return nil, fmt.Errorf("write objects of %s: %w", target.Service, err)
	}
	b := &Builder{
		Target: target, path: path, file: file, w: bufio.NewWriterSize(file, 64<<10),
		known: map[schema.GroupVersionKind]bool{}, unserved: map[schema.GroupVersionKind]error{},
		own: map[schema.GroupKind]bool{}, scaled: map[int]object.Key{},
	}
	if err := b.writeBytes([]byte(magic)); err != nil {
		b.Discard()
		return nil, err
	}
	return b, nil
}

// Len is how many objects there are so far.
func (b *Builder) Len() int { return len(b.items) }

// Discard ends a set that is not to be. After Commit it does nothing.
func (b *Builder) Discard() {
	if b.file != nil {
		_ = b.file.Close() // the file goes away
		_ = os.Remove(b.file.Name())
		b.file = nil
	}
}

func (b *Builder) writeBytes(data []byte) error {
	n, err := b.w.Write(data)
	b.at += int64(n)
	if err != nil {
		return fmt.Errorf("write objects of %s: %w", b.Service, err)
	}
	return nil
}

// Add takes an object, which must not be used after. A *kubeyaml.Error is a mistake in it.
func (b *Builder) Add(ctx context.Context, obj *unstructured.Unstructured, at kubeyaml.Position) error {
	return b.addObject(ctx, obj, at, func(wishes object.Wishes) object.Wishes { return wishes })
}

// addObject takes an object whose annotations' wishes are changed by wish.
func (b *Builder) addObject(ctx context.Context, obj *unstructured.Unstructured, at kubeyaml.Position, wish func(object.Wishes) object.Wishes) error {
	wishes, err := object.WishesOf(obj.GetAnnotations())
	if err != nil {
		return &kubeyaml.Error{Position: at, Line: at.Line, Problem: err.Error()}
	}
	wishes = wish(wishes)
	isHook := wishes.Hook
	if b.Tests {
		wishes.Hook &= object.Test
	} else {
		wishes.Hook &^= object.Test
	}
	if isHook != 0 && wishes.Hook&^object.Never == 0 || b.Tests && wishes.Hook == 0 {
		return nil
	}
	if at.CRD && isCRD(obj.GroupVersionKind().Group, obj.GetKind()) {
		wishes = b.definitionWishes(wishes)
	}
	if wishes.Flags&object.NotKept == 0 {
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[object.ServiceLabel] = b.Service
		obj.SetLabels(labels)
	}
	plainSecret(obj)
	if wishes.Flags&object.LeftOut == 0 {
		b.noteForeign(obj, at)
		b.noteOwn(obj.GroupVersionKind(), obj.Object)
	}
	item := Item{
		Wave: wishes.Wave, Hook: wishes.Hook, Flags: wishes.Flags, Timeout: wishes.Timeout, Depends: wishes.Depends,
		Position: at, text: at.Text, bare: obj.GetNamespace() == "",
	}
	if obj.GetGenerateName() != "" {
		if wishes.Hook == 0 {
			return &kubeyaml.Error{
				Position: at, Line: at.Line,
				Problem: obj.GetKind() + ": metadata.generateName would make a new object at every apply. Give it a metadata.name, or make it a hook",
			}
		}
		obj.SetName(obj.GetGenerateName())
		obj.SetGenerateName("")
		item.Flags |= object.Generated
	}
	if !b.silent {
		namespaced, err := b.scopeOf(ctx, item.Flags, obj.GroupVersionKind())
		if err == nil {
			b.placeObject(obj, namespaced)
		}
		b.silent = err != nil // The CRD of the kind may come later in the set.
	}
	if !item.bare && obj.GetNamespace() == "" {
		item.text = 0 // The namespace was dropped, and would be missed should the kind get namespaces.
	}
	if unread := object.UnreadAnnotation(obj.GetAnnotations()); unread != "" {
		item.text = 0 // the warning is told each time
		b.Warn((&kubeyaml.Error{Position: at, Line: at.Line, Problem: obj.GetKind() + " " + obj.GetName() + ": " + unread}).Error())
	}
	if item, err = b.putObject(item, obj); err != nil {
		return err
	}
	b.noteScaled(obj)
	return b.appendItem(item)
}

// definitionWishes is what a definition in crds/ of a chart asks for: nothing of its own, but for what the service
// says.
func (b *Builder) definitionWishes(wishes object.Wishes) object.Wishes {
	switch b.CRDs {
	case deliveryv1.CrdPolicy_CRD_POLICY_CREATE:
		return object.Wishes{Flags: object.MakeOnce}
	case deliveryv1.CrdPolicy_CRD_POLICY_SKIP:
		return object.Wishes{Flags: object.LeftOut}
	}
	return wishes
}

// namespaceAt is where the namespace of sync.createNamespace is written, for what is told of it.
const namespaceAt = "spec.sync.createNamespace"

// AddNamespace adds the namespace of the set's service, unless the set has it anyway.
func (b *Builder) AddNamespace(ctx context.Context, wanted *deliveryv1.CreateNamespace) error {
	if slices.ContainsFunc(b.items, func(item Item) bool {
		return item.Group == "" && item.Kind == "Namespace" && item.Name == b.Namespace && item.Hook == 0
	}) {
		return nil
	}
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion("v1")
	obj.SetKind("Namespace")
	obj.SetName(b.Namespace)
	if len(wanted.GetLabels()) > 0 {
		obj.SetLabels(maps.Clone(wanted.GetLabels()))
	}
	return b.addObject(ctx, obj, kubeyaml.Position{File: namespaceAt}, func(wishes object.Wishes) object.Wishes {
		if !wanted.GetOwn() {
			wishes.Flags |= object.MakeOnce
		}
		return wishes
	})
}

// Hold adds an object of the service that stays in the cluster as it is, unless the set has it anyway. Its content is
// not sent.
func (b *Builder) Hold(ctx context.Context, ref object.Ref, at kubeyaml.Position) error {
	if slices.ContainsFunc(b.items, func(item Item) bool {
		return item.Group == ref.Group && item.Kind == ref.Kind && item.Name == ref.Name &&
			(item.Namespace == ref.Namespace || item.bare && ref.Namespace == b.Namespace)
	}) {
		return nil
	}
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(ref.GVK())
	obj.SetNamespace(ref.Namespace)
	obj.SetName(ref.Name)
	obj.SetAnnotations(map[string]string{object.HoldAnnotation: "a lookup of the chart found it"})
	return b.Add(ctx, obj, at)
}

// appendItem adds an item: a hook once for each of its moments, as hooks that share a name.
func (b *Builder) appendItem(item Item) error {
	moments := item.Hook.Moments()
	if len(b.items)+len(moments) > kubeyaml.MaxDocuments {
		return &kubeyaml.Error{Position: item.Position, Problem: fmt.Sprintf("the service has more than %d objects. Split it", kubeyaml.MaxDocuments)}
	}
	for _, item.Hook = range moments {
		b.items = append(b.items, item)
	}
	return nil
}

// After makes Copy look into another set of the service, which has to stay open until the end.
func (b *Builder) After(last *Set) error {
	items, err := last.Items()
	if err != nil {
		return err
	}
	type document struct {
		file   string
		number int
	}
	of := func(item Item) document { return document{item.Position.File, item.Position.Document} }
	// Of a List the other items alone would be taken for the whole.
	again := map[document]bool{}
	for _, item := range items {
		if item.text == 0 {
			again[of(item)] = true
		}
	}
	b.last, b.before = last, make(map[object.Sum][]Item, len(items))
	for _, item := range items {
		same := b.before[item.text]
		// Another document of the same text gave the same, and is copied on its own.
		if item.text != 0 && !again[of(item)] && (len(same) == 0 || of(same[0]) == of(item)) {
			b.before[item.text] = append(same, item)
		}
	}
	return nil
}

// Copy adds what the text at this position gave in the set before. False: it has to be read.
func (b *Builder) Copy(ctx context.Context, at kubeyaml.Position) (bool, error) {
	items := b.before[at.Text]
	if len(items) == 0 || b.silent {
		return false, nil
	}
	for _, item := range items {
		if namespaced, err := b.scopeOf(ctx, item.Flags, item.GVK()); err != nil || b.namespaceOf(item, namespaced) != item.Namespace {
			return false, nil //nolint:nilerr // Add says it, if it is one
		}
	}
	for _, item := range items {
		data, err := b.last.JSON(item)
		if err != nil {
			return false, err
		}
		if err := b.recallScope(item, data); err != nil {
			return false, err
		}
		at.Item = item.Position.Item
		item.Position = at
		if item, err = b.writeContent(item, data); err != nil {
			return false, err
		}
		if err := b.appendItem(item); err != nil {
			return false, err
		}
	}
	return true, nil
}

// noteScaled notes the object that an autoscaler, which is about to be added, scales.
func (b *Builder) noteScaled(obj *unstructured.Unstructured) {
	if target, ok := object.Scales(obj); ok {
		b.scaled[len(b.items)] = target
	}
}

// markScaled marks the objects that autoscalers of the set scale.
func (b *Builder) markScaled() {
	targets := map[object.Key]bool{}
	for at, target := range b.scaled {
		target.Namespace = b.items[at].Namespace // now that it is known
		targets[target] = true
	}
	for i := range b.items {
		b.items[i].Flags &^= object.Scaled
		if targets[b.items[i].Key] {
			b.items[i].Flags |= object.Scaled
		}
	}
}

// recallScope notes the scope that a CRD brings which was copied, and what an autoscaler scales.
func (b *Builder) recallScope(item Item, data []byte) error {
	if !isCRD(item.Group, item.Kind) && item.Kind != "HorizontalPodAutoscaler" {
		return nil
	}
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil {
		return fmt.Errorf("read %s: %w", item, err)
	}
	b.noteOwn(item.GVK(), content)
	b.noteScaled(&unstructured.Unstructured{Object: content})
	return nil
}

// putObject writes an object, and fills in its entry.
func (b *Builder) putObject(item Item, obj *unstructured.Unstructured) (Item, error) {
	item.Ref = object.RefOf(obj)
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return Item{}, fmt.Errorf("encode %s: %w", item, err)
	}
	item.Sum = object.SumOf(data)
	return b.writeContent(item, data)
}

// writeContent writes an object's bytes, and notes in its entry where they are.
func (b *Builder) writeContent(item Item, data []byte) (Item, error) {
	at := item.Position
	switch {
	case len(data) > maxObject:
		return Item{}, &kubeyaml.Error{
			Position: at, Line: at.Line,
			Problem: fmt.Sprintf("%s has %d bytes, more than the %d that any cluster takes", item.Key, len(data), maxObject),
		}
	case b.at+int64(len(data)) > MaxContent:
		return Item{}, &kubeyaml.Error{Position: at, Problem: fmt.Sprintf("the service's objects have more than %d bytes. Split it", MaxContent)}
	}
	item.at, item.size = b.at, int32(len(data))
	return item, b.writeBytes(data)
}

// placeObject gives an object a namespace, or takes it away.
func (b *Builder) placeObject(obj *unstructured.Unstructured, namespaced bool) {
	switch {
	case !namespaced:
		obj.SetNamespace("")
	case obj.GetNamespace() == "":
		obj.SetNamespace(b.Namespace)
	}
}

// findScope tells whether a kind lives in namespaces. An error may only mean that its CRD was not seen yet.
func (b *Builder) findScope(ctx context.Context, gvk schema.GroupVersionKind) (namespaced bool, err error) {
	if namespaced, ok := b.known[gvk]; ok {
		return namespaced, nil
	}
	err, asked := b.unserved[gvk]
	if !asked {
		namespaced, err = b.Scopes.Namespaced(ctx, gvk)
	}
	unknown := (*cluster.UnknownKindError)(nil)
	switch {
	case err == nil:
		b.known[gvk] = namespaced
		return namespaced, nil
	case !errors.As(err, &unknown):
		return false, err
	}
	b.unserved[gvk] = err
	if namespaced, ok := b.own[gvk.GroupKind()]; ok {
		return namespaced, nil
	}
	return false, err
}

// scopeOf is scope for an object whose kind may come later: it is taken for one of namespaces until it is served.
func (b *Builder) scopeOf(ctx context.Context, flags Flags, gvk schema.GroupVersionKind) (namespaced bool, err error) {
	namespaced, err = b.findScope(ctx, gvk)
	if _, unknown := errors.AsType[*cluster.UnknownKindError](err); unknown && flags&object.LateKind != 0 {
		return true, nil
	}
	return namespaced, err
}

// noteOwn reads the scope of the kind that a CRD of the set brings.
func (b *Builder) noteOwn(gvk schema.GroupVersionKind, content map[string]any) {
	if !isCRD(gvk.Group, gvk.Kind) {
		return
	}
	group, _, _ := unstructured.NestedString(content, "spec", "group")
	kind, _, _ := unstructured.NestedString(content, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(content, "spec", "scope")
	if scope != "" {
		b.own[schema.GroupKind{Group: group, Kind: kind}] = scope == "Namespaced"
	}
}

func isCRD(group, kind string) bool {
	return group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition"
}

// For says what the cluster can do, in few words, because the objects depend on it.
func (b *Builder) For(environment string) { b.environment = environment }

// ReleasedBy says what templates of a chart see as .Release.Service.
func (b *Builder) ReleasedBy(name string) { b.releaseService = name }

// Warn notes a sentence for whoever looks at the service.
func (b *Builder) Warn(text string) {
	if !slices.Contains(b.warnings, text) {
		b.warnings = append(b.warnings, text)
	}
}

// fewWarnings are the first of them, as lines.
func (b *Builder) fewWarnings() string {
	const most, longest = 5, 1000
	var lines []string
	for _, text := range b.warnings[:min(most, len(b.warnings))] {
		text = strings.Join(strings.Fields(text), " ")
		lines = append(lines, strings.ToValidUTF8(text[:min(longest, len(text))], ""))
	}
	if more := len(b.warnings) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("There are %d more such warnings.", more))
	}
	return strings.Join(lines, "\n")
}

// Commit finishes the set, and opens it. The error joins one per object.
func (b *Builder) Commit(ctx context.Context) (*Set, error) {
	defer b.Discard()
	clear(b.unserved) // a kind may be served by now
	if err := errors.Join(b.settleNamespaces(ctx), b.checkTwins(), b.checkBounds(ctx), b.foreign.Err()); err != nil {
		return nil, err
	}
	b.markScaled()
	end, err := b.writeIndex()
	if err != nil {
		return nil, err
	}
	if same := b.findSame(end); same != nil {
		return same, nil
	}
	if err := b.w.Flush(); err != nil {
		return nil, fmt.Errorf("write objects of %s: %w", b.Service, err)
	}
	if err := b.file.Sync(); err != nil {
		return nil, fmt.Errorf("write objects of %s: %w", b.Service, err)
	}
	if err := os.Rename(b.file.Name(), b.path); err != nil {
		return nil, fmt.Errorf("write objects of %s: %w", b.Service, err)
	}
	s := &Set{file: b.file, path: b.path, footer: end, made: time.Now()}
	b.file = nil
	if err := durable.SyncDir(filepath.Dir(b.path)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// findSame is the set that is there already, if it has the same index and so the sums of the same objects: then nothing
// has to get to the disk, but that it was made again now.
func (b *Builder) findSame(end footer) *Set {
	file, err := os.Open(b.path)
	if err != nil {
		return nil
	}
	now := time.Now()
	if s, err := openSet(file); err == nil && s.footer == end && os.Chtimes(b.path, now, now) == nil {
		s.made = now
		return s
	}
	_ = file.Close() // the file is replaced
	return nil
}

// settleNamespaces writes those objects again whose namespace is another one than was thought, now that all CRDs
// of the set are known.
func (b *Builder) settleNamespaces(ctx context.Context) error {
	var problems mistakes.List
	for i, item := range b.items {
		namespaced, err := b.scopeOf(ctx, item.Flags, item.GVK())
		if _, isUnknown := errors.AsType[*cluster.UnknownKindError](err); isUnknown {
			problems.Add(fmt.Errorf("%s: %w", item, err))
			continue
		}
		if err != nil { // of the API, which the others would meet, too
			return errors.Join(problems.Err(), fmt.Errorf("%s: %w", item, err))
		}
		if want := b.namespaceOf(item, namespaced); want != item.Namespace {
			if b.items[i], err = b.moveObject(item, want); err != nil {
				return err
			}
		}
	}
	return problems.Err()
}

func (b *Builder) namespaceOf(item Item, namespaced bool) string {
	switch {
	case !namespaced:
		return ""
	case item.bare:
		return b.Namespace
	}
	return item.Namespace
}

// moveObject writes an object again, into another namespace.
func (b *Builder) moveObject(item Item, namespace string) (Item, error) {
	if err := b.w.Flush(); err != nil {
		return Item{}, fmt.Errorf("write objects of %s: %w", b.Service, err)
	}
	written := &Set{file: b.file, path: b.file.Name(), footer: footer{index: b.at}}
	obj, _, err := written.Object(item)
	if err != nil {
		return Item{}, err
	}
	obj.SetNamespace(namespace)
	if namespace == "" && !item.bare {
		item.text = 0 // as in addObject
	}
	return b.putObject(item, obj)
}

// checkTwins finds objects that are there twice. A hook may have the name of others: it is run before or after them.
func (b *Builder) checkTwins() error {
	seen := make(map[object.Key]int, len(b.items))
	var problems mistakes.List
	for i, item := range b.items {
		if item.Hook != 0 {
			continue
		}
		first, twice := seen[item.Key]
		if !twice {
			seen[item.Key] = i
			continue
		}
		problems.Add(&kubeyaml.Error{Position: item.Position, Line: item.Position.Line, Problem: fmt.Sprintf(
			"%s is there twice, first in %s. Remove one", item.Key, b.items[first].Position)})
	}
	return problems.Err()
}

// writeIndex writes what follows the content.
func (b *Builder) writeIndex() (footer, error) {
	end := footer{index: b.at, count: uint32(len(b.items)), environment: b.environment, releaseService: b.releaseService, warnings: b.fewWarnings()}
	var index []byte
	type row struct {
		hash object.Sum
		at   uint32
	}
	rows := make([]row, len(b.items))
	for i, item := range b.items {
		rows[i] = row{hash: hashOf(item.Key), at: uint32(len(index))}
		index = appendItem(index, item)
	}
	end.table = end.index + int64(len(index))
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
	for _, row := range rows {
		index = binary.LittleEndian.AppendUint64(index, uint64(row.hash))
		index = binary.LittleEndian.AppendUint32(index, row.at)
	}
	end.sum = object.SumOf(index)
	return end, b.writeBytes(append(index, end.encodeBytes()...))
}
