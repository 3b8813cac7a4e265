// Package child is the process that renders one folder: it reads a job and a tar, tells objects, and
// ends. See package render for the other side, and for what is said between them.
//
// The child opens no file and no connection, has no environment, and little time and memory. A fetch or a run that the
// libraries would make is refused before, in words; the limits are there for what was missed.
package child

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sjson "k8s.io/apimachinery/pkg/util/json"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/render"
)

const (
	// memoryTarget is where the collector begins to work hard, in bytes.
	memoryTarget = 384 << 20
	// maxStack ends a recursion before it has eaten the memory, in bytes.
	maxStack = 64 << 20
)

// Main renders what it is told on in, and returns the exit code.
func Main(in io.Reader, out io.Writer, answers io.Reader) int {
	debug.SetMemoryLimit(memoryTarget)
	debug.SetMaxStack(maxStack)
	http.DefaultTransport = noNetwork{}
	w := bufio.NewWriterSize(out, 64<<10)
	j := &job{out: w, answers: bufio.NewReader(answers), beside: map[string]string{}}
	j.kept = newAnswers(j.recallAnswers)
	err := j.run(in)
	if err != nil && !errors.Is(err, errGone) {
		var payload []byte
		if payload, err = json.Marshal(render.FailureOf(err)); err == nil {
			err = render.WriteFrame(w, render.FrameFailed, payload)
		}
	} else if err == nil {
		var payload []byte
		if payload, err = json.Marshal(render.Done{Depends: j.depends, Warnings: j.warnings, Notes: j.notes, Answers: j.kept.used}); err == nil {
			err = render.WriteFrame(w, render.FrameDone, payload)
		}
	}
	if err != nil || w.Flush() != nil {
		return 1
	}
	return 0
}

type noNetwork struct{}

func (noNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is not fetched: what is rendered comes from the service's folder", r.URL.Redacted())
}

// errGone: nobody listens any more.
var errGone = errors.New("the agent is gone")

// job is what is rendered.
type job struct {
	render.Job

	spec   *deliveryv1.RenderSpec
	folder *render.Folder
	// depends: a template reads what the cluster can do.
	depends  bool
	warnings []string
	notes    string
	// beside are the folders of dependencies that are not in charts/, by where they would be there.
	beside map[string]string
	// unanswered: the cluster did not answer a lookup, or refused it.
	unanswered bool
	// kept are the answers of random functions.
	kept    *answers
	out     *bufio.Writer
	answers io.Reader
}

func (j *job) run(in io.Reader) error {
	input := bufio.NewReader(in)
	kind, payload, err := render.ReadFrame(input)
	if err != nil || kind != render.FrameJob {
		return fmt.Errorf("read job: %w", errors.Join(err, errGone))
	}
	if err := json.Unmarshal(payload, &j.Job); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	if err := confineProcess(j.Seconds); err != nil {
		return err
	}
	if j.spec, err = j.Spec(); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	tar, err := io.ReadAll(io.LimitReader(input, artifact.DefaultBytes+1))
	if err != nil {
		return fmt.Errorf("read folder: %w", err)
	}
	service := desired.Service{Name: j.Name, Namespace: j.Namespace, Path: j.Path, Render: j.spec, Tests: &deliveryv1.TestSpec{Path: j.Tests}}
	if j.folder, err = render.Scan(service, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(tar)), nil }); err != nil {
		return err
	}
	switch j.folder.Renderer {
	case deliveryv1.Renderer_RENDERER_RAW:
		return render.Plain(j.folder, j.tellObject, nil, j.noteWarning)
	case deliveryv1.Renderer_RENDERER_KUSTOMIZE:
		return j.renderKustomize()
	case deliveryv1.Renderer_RENDERER_HELM:
		return j.renderHelm()
	case deliveryv1.Renderer_RENDERER_TEMPLATE:
		return j.renderTemplates()
	}
	return fmt.Errorf("this agent knows no renderer %d. Update the agent", j.folder.Renderer)
}

// tellObject passes an object on.
func (j *job) tellObject(obj *unstructured.Unstructured, at kubeyaml.Position) error {
	payload, err := render.EncodeObject(obj, at)
	if none, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
		return &kubeyaml.Error{Position: at, Problem: fmt.Sprintf("%s %s holds %s: infinity and NaN are no values in Kubernetes", obj.GetKind(), obj.GetName(), none.Str)}
	}
	if err != nil {
		return err
	}
	err = render.WriteFrame(j.out, render.FrameObject, payload)
	switch {
	case errors.Is(err, render.ErrTooLarge):
		return &kubeyaml.Error{Position: at, Problem: fmt.Sprintf("%s %s is larger than any cluster takes: %v", obj.GetKind(), obj.GetName(), err)}
	case err != nil:
		return errors.Join(errGone, err)
	}
	return nil
}

// lookUp asks the agent for an object of the cluster; without a name for a list.
func (j *job) lookUp(apiVersion, kind, namespace, name string) (map[string]any, error) {
	payload, err := json.Marshal(render.LookupRequest{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	if payload, err = j.askAgent(render.FrameLookup, payload); err != nil {
		return nil, err
	}
	var answer render.LookupAnswer
	if err := json.Unmarshal(payload, &answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		j.unanswered = j.unanswered || !answer.Refused
		return nil, errors.New(answer.Error)
	}
	found := map[string]any{}
	if len(answer.Object) > 0 {
		err = k8sjson.Unmarshal(answer.Object, &found) // integers are int64
	}
	return found, err
}

// noteWarning notes something for the end.
func (j *job) noteWarning(text string) {
	const most = 100
	if len(j.warnings) < most {
		j.warnings = append(j.warnings, text)
	}
}

// askAgent sends a frame to the agent, and reads its answer.
func (j *job) askAgent(kind byte, payload []byte) ([]byte, error) {
	if err := errors.Join(render.WriteFrame(j.out, kind, payload), j.out.Flush()); err != nil {
		return nil, errors.Join(errGone, err)
	}
	_, answer, err := render.ReadFrame(j.answers)
	if err != nil {
		return nil, errors.Join(errGone, err)
	}
	return answer, nil
}

// mistakeAt is an error at a file of the folder, or of the folder itself.
func (j *job) mistakeAt(file, problem string) error { return j.folder.Mistake(file, problem) }

// readContents reads all files of the artifact, by path.
func (j *job) readContents() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := j.folder.Walk(func(entry artifact.Entry, content io.Reader) error {
		if entry.Link != "" {
			return nil
		}
		data, err := io.ReadAll(content)
		files[entry.Path] = data
		return err
	})
	return files, err
}

// readManifests reads rendered text as manifests.
func (j *job) readManifests(texts []text) error {
	var dialect kubeyaml.Dialect
	reader := kubeyaml.NewReader(func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
		at.CRD = dialect == kubeyaml.HelmCRD
		return j.tellObject(obj, at)
	}, nil)
	reader.Warn = j.noteWarning
	for _, one := range texts {
		dialect = one.dialect
		if !reader.ReadAs(one.dialect, j.folder.Shown(one.file), []byte(one.text)) {
			break
		}
	}
	return reader.Err()
}

// text is what a file was rendered to.
type text struct {
	file, text string
	dialect    kubeyaml.Dialect
}
