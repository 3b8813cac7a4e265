package object

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

const (
	// MostChildren bounds what is read of a kind in a namespace, childrenBytes how much of it.
	MostChildren, childrenBytes = 500, 8 << 20
	// tableOfMetadata is how an API server tells objects as kubectl shows them, and of each no more than its metadata.
	tableOfMetadata = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// child is an object that a controller made.
type child struct{ Kind, namespace, name, uid, state string }

// Children are those of each owner, by its UID.
type Children map[string][]child

// childPaths says where in the API of a cluster a kind's children are, and those of them.
func childPaths(kind string) []string {
	const replicaSets, jobs, pods = "apis/apps/v1/replicasets", "apis/batch/v1/jobs", "api/v1/pods"
	switch kind {
	case "Deployment":
		return []string{replicaSets, pods}
	case "CronJob":
		return []string{jobs, pods}
	case "ReplicaSet", "StatefulSet", "DaemonSet", "Job":
		return []string{pods}
	}
	return nil
}

// LiveChildren asks a cluster, through the tunnel, what was made for objects.
func LiveChildren(
	ctx context.Context, h *hubclient.Hub, cluster string, objects []*consolev1.ClusterObject,
) (Children, error) {
	if len(h.Context.Endpoints.Tunnels) == 0 {
		return nil, errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console, then run `fairlead login` again")
	}
	found, asked := Children{}, map[string]bool{}
	for _, o := range objects {
		for _, where := range childPaths(o.GetObject().GetKind()) {
			group, plural := where[:strings.LastIndexByte(where, '/')], where[strings.LastIndexByte(where, '/')+1:]
			path := fmt.Sprintf("%s/namespaces/%s/%s", group, o.GetObject().GetNamespace(), plural)
			if asked[path] {
				continue
			}
			asked[path] = true
			if err := found.readList(ctx, h, fmt.Sprintf("%s/clusters/%s/%s?limit=%d", h.Context.Endpoints.Tunnels[0], cluster, path, MostChildren)); err != nil {
				return nil, fmt.Errorf("read %s in namespace %s of cluster %s: %w", plural, o.GetObject().GetNamespace(), cluster, err)
			}
		}
	}
	return found, nil
}

// tableList is a table of an API server.
type tableList struct {
	Message  string `json:"message"` // of a refusal
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Columns []struct {
		Name string `json:"name"`
	} `json:"columnDefinitions"`
	Rows []struct {
		Cells  []any `json:"cells"`
		Object struct {
			Metadata struct {
				Name      string      `json:"name"`
				Namespace string      `json:"namespace"`
				UID       string      `json:"uid"`
				Owners    []reference `json:"ownerReferences"`
			} `json:"metadata"`
		} `json:"object"`
	} `json:"rows"`
}

type reference struct {
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// cellText is what a row says in a column, "" if there is no such.
func (l *tableList) cellText(row int, name string) string {
	for i, column := range l.Columns {
		if column.Name == name && i < len(l.Rows[row].Cells) {
			return fmt.Sprint(l.Rows[row].Cells[i])
		}
	}
	return ""
}

// readList takes the objects of a list whose controller is one of those that are shown.
func (c Children) readList(ctx context.Context, h *hubclient.Hub, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", tableOfMetadata)
	resp, err := h.HTTP.Do(req)
	if err != nil {
		return h.ExplainTunnel(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, childrenBytes))
	if err != nil {
		return h.ExplainTunnel(err)
	}
	var list tableList
	err = json.Unmarshal(body, &list)
	if resp.StatusCode != http.StatusOK {
		why := cmp.Or(list.Message, "the cluster gives no reason")
		return hubclient.TunnelRefusal(resp.StatusCode, resp.Status+": "+why)
	}
	if err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	c.addRows(url, list)
	return nil
}

// addRows sorts the rows of a list under their controllers.
func (c Children) addRows(url string, list tableList) {
	kind := "Pod"
	switch {
	case strings.Contains(url, "/replicasets?"):
		kind = "ReplicaSet"
	case strings.Contains(url, "/jobs?"):
		kind = "Job"
	}
	for i, row := range list.Rows {
		meta := row.Object.Metadata
		at := slices.IndexFunc(meta.Owners, func(owner reference) bool { return owner.Controller })
		if at < 0 {
			continue
		}
		one := child{Kind: kind, namespace: meta.Namespace, name: meta.Name, uid: meta.UID}
		switch kind {
		case "ReplicaSet":
			if list.cellText(i, "Desired") == "0" && list.cellText(i, "Current") == "0" { // of an earlier revision
				continue
			}
			one.state = fmt.Sprintf("%s of %s ready", list.cellText(i, "Ready"), list.cellText(i, "Desired"))
		case "Job":
			one.state = strings.TrimSpace(list.cellText(i, "Status") + " " + list.cellText(i, "Completions"))
		default:
			one.state = fmt.Sprintf("%s, %s ready", list.cellText(i, "Status"), list.cellText(i, "Ready"))
		}
		owner := meta.Owners[at].UID
		c[owner] = append(c[owner], one)
	}
	if list.Metadata.Continue != "" {
		c[Unlisted] = append(c[Unlisted], child{Kind: kind})
	}
}

// Unlisted is the owner of what was not read: there are too many.
const Unlisted = "unlisted"

// WriteBranches adds the branches below an owner.
func (c Children) WriteBranches(b *strings.Builder, indent, owner string) {
	below := slices.SortedFunc(slices.Values(c[owner]), func(a, b child) int { return cmp.Compare(a.name, b.name) })
	for i, one := range below {
		branch, next := "├── ", "│   "
		if i == len(below)-1 {
			branch, next = "└── ", "    "
		}
		fmt.Fprintf(b, "%s%s%s  %s\n", indent, branch, Title(one.Kind, one.namespace, one.name),
			table.CleanLine(one.state))
		c.WriteBranches(b, indent+next, one.uid)
	}
}
