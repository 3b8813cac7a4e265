package catalog

import (
	"slices"
	"strings"
	"unique"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// Service is what followers need of a service. There may be hundreds of thousands, most of them for one of
// few folders, so what many have in common is kept once. A Service is never changed once it is made.
type Service struct {
	Name, UID string
	// Revision of its spec.
	Revision int64

	cluster, namespace, project unique.Handle[string]
	options, config             unique.Handle[string]
	folder                      FolderID
	parts                       unique.Handle[string] // as writeParts writes them; empty: one source
	pinned                      *pinned
}

// pinned is the ref of a service with a pin, which is fetched all the same: people want to know what waits there, and a
// pin may end when it points to another commit than after. nil: there is no pin.
type pinned struct{ ref, after string }

// Folder is which files are delivered. Services with equal folders get equal content.
type Folder struct {
	Source          string // name
	Ref, Path       string // as people write them; a pin takes the place of the ref
	Include, Ignore Rules
}

// FolderID stands for a folder: equal folders have equal ids.
type FolderID = unique.Handle[Folder]

// Rules are lines as in .gitignore, in one string: so a Folder can be compared. The console takes no rule
// of more than one line.
type Rules string

// NewRules puts rules together.
func NewRules(lines []string) Rules { return Rules(strings.Join(lines, "\n")) }

// Lines takes rules apart.
func (r Rules) Lines() []string {
	if r == "" {
		return nil
	}
	return strings.Split(string(r), "\n")
}

// NewService takes over what is kept of a service.
func NewService(s *consolev1.Service) *Service {
	spec, name := s.GetSpec(), s.GetMetadata().GetName()
	ref := RefOf(spec)
	both := name + s.GetMetadata().GetUid() // one piece of memory rather than two
	is := &Service{
		Name: both[:len(name)], UID: both[len(name):], Revision: s.GetMetadata().GetRevision(),
		cluster: unique.Make(spec.GetCluster()), namespace: unique.Make(spec.GetNamespace()), project: unique.Make(spec.GetProject()),
		options: unique.Make(optionsOf(spec)), config: unique.Make(s.GetStatus().GetConfigRevision()),
		folder: unique.Make(Folder{
			Source: SourceOf(spec), Ref: PinnedRef(ref, spec.GetSync().GetPin()), Path: spec.GetPath(),
			Include: NewRules(spec.GetInclude()), Ignore: NewRules(spec.GetIgnore()),
		}),
		parts: unique.Make(writeParts(PartsOf(spec))),
	}
	if spec.GetSync().GetPin() != "" {
		is.pinned = &pinned{ref, spec.GetUnpinAfter()}
	}
	return is
}

// Cluster is the name of the one that the service is for.
func (s *Service) Cluster() string { return s.cluster.Value() }

// Namespace is for objects that name none; it may be empty.
func (s *Service) Namespace() string { return s.namespace.Value() }

// Project is the name of the one that the service belongs to; it may be empty.
func (s *Service) Project() string { return s.project.Value() }

// Config is the revision of its configuration; empty: it has none.
func (s *Service) Config() string { return s.config.Value() }

// Folder says which files are delivered.
func (s *Service) Folder() Folder { return s.folder.Value() }

// FolderID is the id of Folder.
func (s *Service) FolderID() FolderID { return s.folder }

// Follows says whether the service is made of a ref of a source, or would be without its pin. The ref is a canonical
// one.
func (s *Service) Follows(source, ref string) bool { return slices.Contains(s.RefsOf(source), ref) }

// RefsOf returns the canonical refs of a source that the service is made of, or would be without its pin: each once.
func (s *Service) RefsOf(source string) (refs []string) {
	add := func(f Folder, ref string) {
		if ref = CanonicalRef(ref); f.Source == source && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	if s.pinned != nil {
		add(s.Folder(), s.pinned.ref)
	}
	for _, id := range s.folders() {
		add(id.Value(), id.Value().Ref)
	}
	return refs
}

// message is the service as a stream would bring it.
func (s *Service) message() *consolev1.Service {
	f, options := s.Folder(), readOptions(s.options.Value())
	out := &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: s.Name, Uid: s.UID, Revision: s.Revision},
		Spec: &consolev1.ServiceSpec{
			Source: f.Source, Path: f.Path, Cluster: s.Cluster(), Namespace: s.Namespace(), Project: s.Project(),
			Include: f.Include.Lines(), Ignore: f.Ignore.Lines(), Render: options.GetRender(), Sync: options.GetSync(),
			Tests: options.GetTests(), TestRequest: options.GetTestRequest(),
		},
	}
	ref := f.Ref
	if s.pinned != nil {
		ref = s.pinned.ref
	}
	if out.Spec.Sources = sources(s.Parts()); out.Spec.Sources != nil {
		out.Spec.Source = ""
	} else {
		SetRef(out.Spec, ref)
	}
	if options.GetManual() {
		out.Spec.Sync.Mode = deliveryv1.SyncMode_SYNC_MODE_MANUAL
	}
	for _, set := range options.GetWindowSets() {
		if out.Spec.Sync == nil {
			out.Spec.Sync = &deliveryv1.SyncSpec{}
		}
		out.Spec.Sync.Windows = set.GetWindows()
	}
	if s.pinned != nil {
		if out.Spec.Sync == nil {
			out.Spec.Sync = &deliveryv1.SyncSpec{}
		}
		out.Spec.Sync.Pin, out.Spec.UnpinAfter = f.Ref, s.pinned.after
		if _, pin, ok := ParseCombinationRef(f.Ref); ok {
			out.Spec.Sync.Pin = pin
		}
	}
	if s.Config() != "" {
		out.Status = &consolev1.ServiceStatus{ConfigRevision: s.Config()}
	}
	return out
}
