package gitcache

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// CreateLarge makes a repository with folders^3 files below its service's folder and some tags, in one
// commit and one pack.
func (h *Host) CreateLarge(ctx context.Context, name string, folders, tags int) (*Repo, error) {
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test's content
	return h.imported(ctx, name, 1, func(w io.Writer) {
		begin(w, 0)
		file(w, Folder+"/"+Marker, fmt.Appendf(nil, "%s number 0\n", name))
		for i := range folders {
			for j := range folders {
				for k := range folders {
					file(w, fmt.Sprintf("apps/%02d/%02d/%02d.yaml", i, j, k), manifest(random, i*folders*folders+j*folders+k))
				}
			}
		}
		for i := range tags {
			fmt.Fprintf(w, "reset refs/tags/v1.%d.0\nfrom :1\n\n", i)
		}
		fmt.Fprint(w, "get-mark :1\n")
	})
}

// AddRefs gives a repository so many refs more, of its last commit: half of them branches, half tags, as a repository
// has them whose branches are never deleted and whose builds are tagged.
func (r *Repo) AddRefs(n int) error {
	var refs strings.Builder
	refs.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, name := range []string{"refs/heads/feature/ticket-", "refs/tags/build-"} {
		for i := range n / 2 {
			fmt.Fprintf(&refs, "%s %s%06d\n", r.Last().ID, name, i)
		}
	}
	return os.WriteFile(filepath.Join(r.dir, "packed-refs"), []byte(refs.String()), 0o600)
}

// CreateDefinitions makes a repository whose service's folder holds files that are like custom resource
// definitions, and changes one file with each commit.
func (h *Host) CreateDefinitions(ctx context.Context, name string, files, size, commits int) (*Repo, error) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's content
	return h.imported(ctx, name, commits, func(w io.Writer) {
		for c := range commits {
			begin(w, c)
			for i := range files {
				if c == 0 || c == i {
					file(w, fmt.Sprintf("%s/definition-%03d.yaml", Folder, i), definition(random, i, size/files))
				}
			}
		}
		for c := range commits {
			fmt.Fprintf(w, "get-mark :%d\n", c+1)
		}
	})
}

// begin writes a commit on top of the one before.
func begin(w io.Writer, number int) {
	message := fmt.Sprintf("number %d", number)
	fmt.Fprintf(w, "commit refs/heads/main\nmark :%d\ncommitter e2e <e2e@example.com> %d +0000\ndata %d\n%s\n",
		number+1, 1700000000+number, len(message), message)
}

func file(w io.Writer, path string, content []byte) {
	fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
}

// imported makes a repository of a stream that prints its commits.
func (h *Host) imported(ctx context.Context, name string, commits int, write func(io.Writer)) (*Repo, error) {
	r := &Repo{Name: name, dir: filepath.Join(h.dir, name+".git"), numbers: map[string]int{}}
	if _, err := r.Git(ctx, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", r.dir); err != nil {
		return nil, err
	}
	out, err := r.fastImport(ctx, write)
	if err != nil {
		return nil, err
	}
	for i, id := range strings.Fields(out) {
		r.commits = append(r.commits, Commit{ID: id, Number: i, Pushed: time.Now()})
		r.numbers[id] = i
	}
	if len(r.commits) != commits {
		return nil, fmt.Errorf("import %s: git said %q", name, out)
	}
	return r, nil
}

// manifest is a small one: 0.7 KB.
func manifest(random *rand.Rand, number int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app-%d\n  labels: {app: app-%d, team: team-%d}\n", number, number, random.IntN(50))
	fmt.Fprintf(&b, "spec:\n  replicas: %d\n  selector:\n    matchLabels: {app: app-%d}\n  template:\n    metadata:\n      labels: {app: app-%d}\n", random.IntN(9), number, number)
	fmt.Fprintf(&b, "    spec:\n      containers:\n        - name: app\n          image: registry.example.com/team/app-%d@sha256:%016x%016x%016x%016x\n          env:\n",
		number, random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64())
	for range 4 {
		fmt.Fprintf(&b, "            - {name: SETTING_%X, value: %q}\n", random.Uint32(), fmt.Sprintf("%x", random.Uint64()))
	}
	return b.Bytes()
}

// definition is YAML as generators of definitions write it: fields with prose, of which few are new and
// most stand in many places, as those of containers and selectors do.
func definition(random *rand.Rand, number, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: things%d.example.com\nspec:\n  schema:\n    openAPIV3Schema:\n      properties:\n", number)
	for b.Len() < size {
		id := random.Uint64() // of a new field
		if known := 1 + int(1000*random.ExpFloat64()); random.IntN(20) > 0 {
			id = uint64(known)
		}
		indent := strings.Repeat("  ", 4+random.IntN(3))
		field(&b, indent, rand.New(rand.NewPCG(id, 3))) //nolint:gosec // a test's content
	}
	return b.Bytes()
}

func field(b *bytes.Buffer, indent string, random *rand.Rand) {
	words := strings.Fields(`the field specifies whether a resource that is referenced by name must exist in same namespace
		as this object and which controller owns it when no value given default applies immutable once set optional
		list of containers volume mounts selector labels policy template secret key timeout interval replicas status`)
	types := []string{"string", "integer", "boolean", "object", "array"}
	word := func() string { return words[random.IntN(len(words))] }
	fmt.Fprintf(b, "%s%s%s%s:\n%s  description: |-\n", indent, word(), word(), word(), indent)
	for range 1 + random.IntN(4) {
		b.WriteString(indent + "    ")
		for range 6 + random.IntN(8) {
			b.WriteString(word() + " ")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "%s  type: %s\n", indent, types[random.IntN(len(types))])
}
