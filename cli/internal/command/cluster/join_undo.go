package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/yaml"

	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
	"fairlead.dev/deploy"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

const (
	// joiningLabel is on a cluster that a join has made, until its agent has joined. Its value is the id of the last
	// join that began: each changes the etag, and a join that fails deletes the cluster with the etag that it made it
	// with.
	joiningLabel = "fairlead.dev/joining"
	// joinSecret has the join tokens. A join whose tokens are not in it is not the last one that was applied.
	joinSecret = "fairlead-agent-join"
	// bindLabel is on the bindings of people's groups, with an id of group and role, and on the agent's own one, with
	// the mode of its rights.
	bindLabel = "fairlead.dev/bind"
	// agentBinding binds the agent to cluster-admin, leastBinding with rbac.mode least. Releases before bindLabel had
	// agentBinding for both.
	agentBinding, leastBinding = "fairlead-agent", "fairlead-agent-least"
	// agentObjects selects what the agent's chart makes.
	agentObjects = "app.kubernetes.io/name=fairlead,app.kubernetes.io/component=agent"
)

// readStatus reads the cluster's status, of one that is made if it is missing.
func (j *joining) readStatus(ctx context.Context, h *hubclient.Hub) (*consolev1.ClusterStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	got, err := h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: j.cluster})
	switch {
	case connect.CodeOf(err) == connect.CodeNotFound:
		return j.markCluster(ctx, h, &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: j.cluster}})
	case err == nil && got.GetCluster().GetMetadata().GetLabels()[joiningLabel] != "":
		return j.markCluster(ctx, h, got.GetCluster())
	}
	return got.GetCluster().GetStatus(), err
}

// markCluster writes the cluster with this join's id.
func (j *joining) markCluster(
	ctx context.Context, h *hubclient.Hub, cluster *consolev1.Cluster,
) (*consolev1.ClusterStatus, error) {
	labels := maps.Clone(cluster.GetMetadata().GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[joiningLabel] = j.id
	cluster.Metadata.Labels = labels
	written, err := h.Clusters.UpdateCluster(ctx, &consolev1.UpdateClusterRequest{Cluster: cluster, AllowMissing: true})
	if connect.CodeOf(err) == connect.CodeAborted {
		return nil, fmt.Errorf("another `fairlead cluster join %s` has just begun: wait for it, or try again", j.cluster)
	}
	if err != nil {
		return nil, err
	}
	j.marked, j.etag = true, written.GetCluster().GetMetadata().GetEtag()
	if j.made = written.GetOutcome() == consolev1.Outcome_OUTCOME_CREATED; !j.made {
		return written.GetCluster().GetStatus(), nil
	}
	return written.GetCluster().GetStatus(), j.app.Printf("cluster/%s created\n", j.cluster)
}

// unmarkCluster takes this join's id off the cluster.
func (j *joining) unmarkCluster(ctx context.Context, h *hubclient.Hub) error {
	if !j.marked {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	got, err := h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: j.cluster})
	if err != nil {
		return err
	}
	cluster := got.GetCluster()
	if cluster.GetMetadata().GetLabels()[joiningLabel] != j.id {
		return nil // another join's, which takes it off
	}
	delete(cluster.GetMetadata().GetLabels(), joiningLabel)
	_, err = h.Clusters.UpdateCluster(ctx, &consolev1.UpdateClusterRequest{Cluster: cluster})
	if connect.CodeOf(err) == connect.CodeAborted {
		return nil // a person has written the cluster, and the label is gone or another join's
	}
	return err
}

// mayHaveJoined is an error if the agent may have reached the hub, though no look at the hub showed it. It says what
// stays.
func (j *joining) mayHaveJoined(ctx context.Context, h *hubclient.Hub, before *timestamppb.Timestamp) error {
	if j.manifest == nil {
		return nil
	}
	now, err := j.readProgress(ctx, h)
	if err != nil {
		return fmt.Errorf("nothing is undone: whether the agent has reached the hub is not known (%w). "+
			"When the hub answers again see `fairlead get cluster %s`; if no agent has joined, `fairlead cluster join %s` again",
			err, j.cluster, j.cluster)
	}
	if listMilestones(before)[0].reached(now) != "" {
		return fmt.Errorf("nothing is undone: the agent has reached the hub meanwhile, and goes on by itself: "+
			"see `fairlead get cluster %s`", j.cluster)
	}
	return nil
}

// undoJoin takes back what a join that failed has made, and nothing that another join has taken over meanwhile.
func (j *joining) undoJoin(ctx context.Context, h *hubclient.Hub) error {
	return errors.Join(j.deleteManifest(ctx), j.deleteCluster(ctx, h), j.removeFile())
}

func (j *joining) deleteManifest(ctx context.Context) error {
	if !j.appliesManifest() || j.manifest == nil {
		return nil
	}
	if !j.clean {
		return fmt.Errorf("what was in the cluster before stays, with what was applied now: `fairlead cluster join %s` again, or delete the namespace %s", j.cluster, deploy.Namespace)
	}
	last, err := j.appliedLast(ctx)
	if err != nil {
		return fmt.Errorf("look whose join was applied last, to delete what this one applied: %w", err)
	}
	if !last {
		j.app.Notef("What was applied stays: another `fairlead cluster join` has applied its own since.\n")
		return nil
	}
	if _, err := j.runKubectl(ctx, j.manifest, undoTimeout, "delete", "--ignore-not-found", "--wait", "-f", "-"); err != nil {
		return fmt.Errorf("delete what was applied: %w", err)
	}
	j.app.Notef("What was applied is deleted again.\n")
	return nil
}

// appliedLast tells whether the cluster has the join tokens of this join, or none: its manifest may have been applied
// in part.
func (j *joining) appliedLast(ctx context.Context) (bool, error) {
	out, err := j.runKubectl(ctx, nil, kubectl.Timeout, "get", "secret", joinSecret, "--namespace", deploy.Namespace, "--ignore-not-found", "-o", "json")
	if err != nil || strings.TrimSpace(out) == "" {
		return err == nil, err
	}
	var there struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(out), &there); err != nil {
		return false, fmt.Errorf("read secret %s: %w", joinSecret, err)
	}
	objects, err := agentManifest(j.manifest)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(objects, func(o agentObject) bool { return o.Kind == "Secret" && o.Metadata.Name == joinSecret })
	if i < 0 {
		return false, nil
	}
	for name, token := range objects[i].StringData {
		if there.Data[name] != base64.StdEncoding.EncodeToString([]byte(token)) {
			return false, nil
		}
	}
	return true, nil
}

// deleteCluster deletes the cluster with its join tokens, if this join made it and no other has begun since.
func (j *joining) deleteCluster(ctx context.Context, h *hubclient.Hub) error {
	if !j.made {
		return j.unmarkCluster(ctx, h)
	}
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	_, err := h.Clusters.DeleteCluster(ctx, &consolev1.DeleteClusterRequest{Name: j.cluster, Etag: j.etag})
	switch {
	case connect.CodeOf(err) == connect.CodeAborted:
		j.app.Notef("cluster/%s stays: it was written since this command made it, by another `fairlead cluster join` or by hand.\n", j.cluster)
		return nil
	case err != nil:
		return fmt.Errorf("delete cluster %s, which this command made: %w", j.cluster, err)
	}
	j.app.Notef("cluster/%s is deleted again.\n", j.cluster)
	return nil
}

// removeFile removes the manifest's file if its token is void: that of a cluster that was there is still good.
func (j *joining) removeFile() error {
	if !j.made || j.file == "" {
		return nil
	}
	text, err := os.ReadFile(j.file)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, j.manifest) { // another join's
		return nil
	}
	if err := os.Remove(j.file); err != nil {
		return err
	}
	j.app.Notef("%s is removed. If it was applied: kubectl delete namespace %s\n", j.file, deploy.Namespace)
	return nil
}

// deleteBindings deletes the bindings of people's groups, and of the agent, that an earlier join gave and this one does
// not.
func (j *joining) deleteBindings(ctx context.Context) (string, error) {
	out, err := j.runKubectl(ctx, nil, kubectl.Timeout, "get", "clusterrolebindings", "-l", agentObjects, "-o", "name")
	if err != nil {
		return "", err
	}
	objects, err := agentManifest(j.manifest)
	if err != nil {
		return "", err
	}
	names := takenBack(objects, strings.Fields(out))
	if len(names) == 0 {
		return "", nil
	}
	return j.runKubectl(ctx, nil, kubectl.Timeout, append([]string{"delete", "--ignore-not-found"}, names...)...)
}

// agentObject is one of the agent's manifest.
type agentObject struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	StringData map[string]string
}

func agentManifest(manifest []byte) ([]agentObject, error) {
	var all []agentObject
	for document := range strings.SplitSeq("\n"+string(manifest), "\n---\n") {
		var o agentObject
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, fmt.Errorf("read the agent's manifest: %w", err)
		}
		if o.Kind != "" {
			all = append(all, o)
		}
	}
	return all, nil
}

// takenBack returns those of a cluster's bindings, as kubectl names them, that bind people's groups or the agent and
// that a manifest does not have.
func takenBack(objects []agentObject, there []string) []string {
	return slices.DeleteFunc(slices.Clone(there), func(full string) bool {
		_, name, _ := strings.Cut(full, "/")
		if !slices.Contains([]string{"fairlead-admins", agentBinding, leastBinding}, name) &&
			!strings.HasPrefix(name, "fairlead-bind-") {
			return true
		}
		return slices.ContainsFunc(objects,
			func(o agentObject) bool { return o.Kind == "ClusterRoleBinding" && o.Metadata.Name == name })
	})
}

// unbindLines are the commands that delete the same by hand, where this command does not reach the cluster. Releases
// before bindLabel bound the agent without it, so that binding is deleted by its name; but for a manifest that does not
// bind the agent: there it may be somebody's own.
func unbindLines(manifest []byte) (lines []string) {
	lines = []string{fmt.Sprintf("kubectl delete clusterrolebindings -l '%s'", boundBefore(manifest))}
	objects, _ := agentManifest(manifest) // of the console
	if slices.ContainsFunc(objects, func(o agentObject) bool { return o.Kind == "ClusterRoleBinding" && o.Metadata.Name == leastBinding }) {
		lines = append(lines, "kubectl delete clusterrolebinding "+agentBinding+" --ignore-not-found")
	}
	return lines
}

// boundBefore selects bindings that a manifest does not have for kubectl, by label.
func boundBefore(manifest []byte) string {
	objects, _ := agentManifest(manifest) // of the console
	var bound []string
	for _, o := range objects {
		if id := o.Metadata.Labels[bindLabel]; id != "" {
			bound = append(bound, id)
		}
	}
	if len(bound) == 0 {
		return bindLabel
	}
	slices.Sort(bound)
	return fmt.Sprintf("%s,%s notin (%s)", bindLabel, bindLabel, strings.Join(bound, ","))
}
