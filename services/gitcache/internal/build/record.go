package build

import (
	"context"
	"slices"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/tree"
)

// Record says which artifact a content became: enough to build it again. Between replicas it goes
// without Alone, and without Submodules where source_id tells.
type Record struct {
	SourceID   string `json:"id"`
	Tree       string `json:"tree"`
	Filter     string `json:"filter,omitempty"`
	Submodules bool   `json:"submodules,omitempty"`
	// Dependencies of its charts on charts of repositories are part of it.
	Dependencies bool `json:"dependencies,omitempty"`
	// Root and Folder are the tree of a commit and a path in it, of a folder that refers to something beyond itself.
	Root   string `json:"root,omitempty"`
	Folder string `json:"folder,omitempty"`
	// Alone: nothing in the folder leads out of it, in whatever commit. Earlier releases wrote `alone` and
	// `standsAlone`, and did not follow dependencies of charts, or not those on repositories: they are looked at once
	// more.
	Alone  bool            `json:"needsNothing,omitempty"`
	Digest artifact.Digest `json:"digest"`
	Size   int64           `json:"size"`
	Files  int             `json:"files"`
}

// record is one of a source.
type record struct {
	Source string `json:"source"` // uid
	Record
}

func (c content) recordOf(id key, sum artifact.Summary) record {
	r := record{Source: c.source, Record: Record{
		SourceID: id.String(), Tree: c.tree.String(), Filter: c.filter, Submodules: c.submodules,
		Digest: sum.Digest, Size: sum.Size, Files: sum.Files, Alone: c.alone,
	}}
	if c.reach.hasRoot() {
		r.Root, r.Folder, r.Dependencies = c.reach.root.String(), c.reach.folder, c.dependencies
	}
	return r
}

func (r record) contentOf() content {
	c := content{source: r.Source, tree: git.HashOf(r.Tree), filter: r.Filter, submodules: r.Submodules}
	if r.Root != "" {
		c.reach.root, c.reach.folder, c.dependencies = git.HashOf(r.Root), r.Folder, r.Dependencies
		c.reach.id, _ = parseKey(r.SourceID)
	}
	return c
}

func (r record) summaryOf() artifact.Summary {
	return artifact.Summary{Digest: r.Digest, Size: r.Size, Files: r.Files}
}

// Known are the contents of a source that were built, for a replica that takes it over.
func (b *Builder) Known(uid string) []Record { return b.memo.recordsOf(uid) }

// Learn takes what another replica knows of a source. A record that does not fit together is left out: a source_id says
// all but the artifact, and should that be wrong, it shows when it is built again.
func (b *Builder) Learn(ctx context.Context, uid string, records []Record) {
	for _, r := range slices.Backward(records) { // the record that was used last comes first
		known, ok := fitRecord(record{Source: uid, Record: r})
		if !ok || r.Root != "" && !b.refersAsSaid(ctx, known) {
			continue
		}
		if err := b.memo.learnRecord(known); err != nil {
			b.deps.Log.Warn("memo is not written; after a restart the artifact is built again", "digest", r.Digest, "err", err)
		}
		b.pinBuilt(uid, known.contentOf().sourceID())
	}
}

// refersAsSaid looks up what the folder of a record refers to, as only that tells whether the source_id is of this
// source and this folder. A record whose commit is not here is of no use.
func (b *Builder) refersAsSaid(ctx context.Context, r record) bool {
	id, ok := parseKey(r.SourceID)
	if !ok || b.memo.knowsContent(id) { // the record is not taken, or is here already
		return false
	}
	m, ok := b.deps.Mirrors.Lookup(r.Source)
	if !ok {
		return false
	}
	leave, err := b.looks.takeTurn(ctx, r.Source)
	if err != nil {
		return false
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, b.lookTime)
	defer cancel()
	objects := m.Objects()
	defer objects.Close()
	c := r.contentOf()
	folder, err := tree.Find(objects, c.reach.root, c.reach.folder, c.submodules)
	if err != nil || folder != c.tree {
		return false
	}
	parts, _, err := reachOf(ctx, m, objects, c.reach.root, c.reach.folder, c)
	return err == nil && len(parts) > 0 && c.idWith(c.reach.folder, parts) == id
}

// fitRecord checks a record, and finds out about its submodules.
func fitRecord(r record) (record, bool) {
	_, badDigest := artifact.ParseDigest(string(r.Digest))
	_, badFilter := pathrules.ParseCanonical(r.Filter)
	if badDigest != nil || badFilter != nil || !git.IsHash(r.Tree) || r.Size < 0 || r.Files < 0 {
		return r, false
	}
	r.Alone = false // every replica looks itself
	if r.Root != "" {
		return r, git.IsHash(r.Root) && (r.Folder != "" || r.Dependencies) && len(r.Folder) <= artifact.DefaultPathBytes
	}
	for _, r.Submodules = range []bool{false, true} {
		if r.contentOf().sourceID().String() == r.SourceID {
			return r, true
		}
	}
	return r, false
}
