package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/input"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/plural"
)

func deleteCommand(a *app.App) *cobra.Command {
	d := deletion{app: a}
	cmd := &cobra.Command{
		Use:         "delete KIND NAME... | delete KIND/NAME... | delete -f FILE|DIR|- | delete KIND -l LABELS",
		Annotations: map[string]string{resource.ReadsReferences: "yes"},
		Short:       "Delete resources",
		Long: `Delete resources.

Deleting a service removes its objects from the cluster. The command shows the objects, with CRDs and namespaces by name,
and asks first; a CRD or namespace with objects of others in it stays. --dry-run shows them and does nothing; --detach
leaves the objects in the cluster, without the service's mark. Deleting a cluster ends its agent's access; if an agent has
joined, the command asks first. A resource that another one names, and a service that others wait for (dependsOn), can't be
deleted. --yes goes on without asking. "fairlead undo" undoes a deletion for an hour.

With -f the resources in the files are deleted, those first that name others; only kind and name count. With --selector the
resources of a kind, or of several, with these labels are deleted: the command shows them and asks. If one can't be deleted, the command
goes on with the others.`,
		Example: `  fairlead delete service shop
  fairlead delete service/shop source/shop --yes
  fairlead delete service shop --dry-run
  fairlead delete globalservice logs --dry-run
  fairlead delete service shop --detach
  fairlead delete -f shop.yaml --yes
  fairlead delete services,clusters -l env=test
  fairlead delete cluster edge-1 --yes`,
	}
	cmd.Args = d.checkUsage
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "go on without asking")
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false,
		"of a service or global service: show what would go, and do nothing")
	cmd.Flags().BoolVar(&d.detach, "detach", false, "of a service: leave its objects in the cluster")
	cmd.Flags().StringArrayVarP(&d.files, "filename", "f", nil,
		"file, folder, or - for stdin, that names the resources; may be repeated")
	cmd.Flags().StringVarP(&d.selector, "selector", "l", "", "those with these labels, such as env=test,tier!=db")
	cmd.Flags().BoolVar(&d.ignoreMissing, "ignore-not-found", false, "a resource that is not there is no error")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "detach")
	cmd.MarkFlagsMutuallyExclusive("filename", "selector")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		refs, err := d.listNamed(cmd.Context(), args)
		if err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			d.hub = h
			return d.deleteAll(ctx, refs)
		})(cmd, nil)
	}
	return cmd
}

// checkUsage says how the command is used.
func (d *deletion) checkUsage(cmd *cobra.Command, args []string) error {
	slash := len(args) > 0 && strings.Contains(args[0], "/")
	switch {
	case len(d.files) > 0 && len(args) > 0:
		return fmt.Errorf("-f names the resources: leave %q out", args[0])
	case d.selector != "" && (len(args) != 1 || slash):
		return errors.New("--selector goes with kinds and no name: fairlead delete services,clusters -l env=test")
	case len(d.files) == 0 && d.selector == "" && len(args) < 2 && !slash:
		return app.UsageError(cmd)
	}
	return nil
}

// listNamed returns the resources that arguments or files name; with a selector kinds without a name.
func (d *deletion) listNamed(ctx context.Context, args []string) ([]resource.Reference, error) {
	var refs []resource.Reference
	if len(d.files) > 0 {
		objects, err := input.ReadObjects(ctx, d.app, d.files, nil)
		if err != nil {
			return nil, err
		}
		for _, o := range slices.Backward(objects) {
			refs = append(refs, resource.Reference{Kind: string(o.Kind()), Name: o.Name()})
		}
	} else {
		var err error
		if refs, err = resource.ParseReferences(args); err != nil {
			return nil, err
		}
	}
	for _, r := range refs {
		k, err := resource.FindKind(r.Kind)
		if err != nil {
			return nil, err
		}
		if err := d.checkKind(k); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// checkKind refuses flags about what is in clusters for kinds that have nothing there.
func (d *deletion) checkKind(k resource.Kind) error {
	switch {
	case !d.dryRun && !d.detach, k.ID == catalogyaml.Service, k.ID == catalogyaml.Global && d.dryRun:
		return nil
	case k.ID == catalogyaml.Global:
		return errors.New("--detach is for services: " +
			"with spec.onLeave: detach the services of a global service stay when it is deleted")
	}
	return fmt.Errorf("--dry-run and --detach are for services and global services: "+
		"%s have no objects in clusters", k.Plural())
}

// deleteAll deletes one resource after the other.
func (d *deletion) deleteAll(ctx context.Context, refs []resource.Reference) error {
	if d.selector != "" {
		var err error
		if refs, err = d.listChosen(ctx, refs); err != nil || len(refs) == 0 {
			return err
		}
	}
	runs := make([][]string, len(refs))
	for i, r := range refs {
		runs[i] = []string{strings.ToLower(r.Kind), r.Name}
	}
	return resource.RunEach(runs, func(args []string) error {
		k, err := resource.FindKind(args[0])
		if err != nil {
			return err
		}
		return d.deleteOne(ctx, k, args[1])
	}, func(args []string, err error) { d.app.Notef("%s: %v\n", strings.Join(args, "/"), err) })
}

// listChosen returns the resources of kinds that the selector fits, if the person agrees.
func (d *deletion) listChosen(ctx context.Context, kinds []resource.Reference) ([]resource.Reference, error) {
	filter, err := resource.SelectorFilter(d.selector)
	if err != nil {
		return nil, err
	}
	var refs []resource.Reference
	for _, of := range kinds {
		k, err := resource.FindKind(of.Kind)
		if err != nil {
			return nil, err
		}
		found, err := k.ReadMatching(ctx, d.hub, resource.Question{Filter: filter})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			d.app.Notef("no %s have these labels\n", k.Plural())
		}
		for _, m := range found {
			refs = append(refs, resource.Reference{Kind: k.Singular(), Name: m.GetMetadata().GetName()})
			d.app.Notef("%s/%s\n", k.Singular(), m.GetMetadata().GetName())
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	if !d.yes && !d.dryRun && !d.app.AskAgreement(ctx) {
		return nil, errors.New("nothing was done: say --yes to go on")
	}
	return refs, nil
}

// deleteOne deletes a resource, after what the person has to know and agree to.
func (d *deletion) deleteOne(ctx context.Context, k resource.Kind, name string) error {
	if k.ID == catalogyaml.Cluster && !d.yes {
		if goOn, err := d.app.AskToPart(ctx, d.hub, name, app.Parting{}); err != nil || !goOn {
			return d.unlessMissing(k, name, err)
		}
	}
	if k.ID == catalogyaml.Global && d.dryRun {
		return d.showGlobal(ctx, name)
	}
	if k.ID == catalogyaml.Service {
		if goOn, err := d.prepareService(ctx, name); err != nil || !goOn {
			return d.unlessMissing(k, name, err)
		}
	}
	err := d.app.ConfirmAndDo(ctx, d.yes, func(ctx context.Context, confirmation string) error {
		return k.RemoveResource(ctx, d.hub, name, confirmation)
	})
	if err != nil {
		return d.unlessMissing(k, name, err)
	}
	return d.app.Printf("%s/%s deleted\n", k.Singular(), name)
}

// unlessMissing says where to look for what is not there, or nothing where that is no error.
func (d *deletion) unlessMissing(k resource.Kind, name string, err error) error {
	if d.ignoreMissing && resource.IsMissing(err) {
		return nil
	}
	return k.ExplainMissing(name, err)
}

// deletion is what a person wants to delete, and how.
type deletion struct {
	app                                *app.App
	hub                                *hubclient.Hub
	yes, dryRun, detach, ignoreMissing bool
	files                              []string
	selector                           string
}

// prepareService shows what goes with a service, and asks, or has the objects left behind. The result says whether to
// go on.
func (d *deletion) prepareService(ctx context.Context, name string) (bool, error) {
	got, err := d.hub.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		return false, err
	}
	return d.prepareRead(ctx, got.GetService())
}

// showGlobal shows what would become of the services of a global service.
func (d *deletion) showGlobal(ctx context.Context, name string) error {
	m, err := resource.GlobalServiceKind().ReadOne(ctx, d.hub, name)
	if err != nil {
		return d.unlessMissing(resource.GlobalServiceKind(), name, err)
	}
	services, err := object.ServicesOf(ctx, d.hub, name)
	if err != nil {
		return err
	}
	if len(services) == 0 {
		return d.app.Printf("global service %q has no services\n", name)
	}
	stays := m.(*consolev1.GlobalService).GetSpec().GetOnLeave() == consolev1.OnLeave_ON_LEAVE_DETACH
	for _, s := range services {
		if stays {
			name, cluster := s.GetMetadata().GetName(), s.GetSpec().GetCluster()
			err = d.app.Printf("service %q stays in cluster %q, on its own\n", name, cluster)
		} else {
			_, err = d.prepareRead(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// showDeclared shows what would become of what the folder of a service declares, and of what comes of that.
func (d *deletion) showDeclared(ctx context.Context, s *consolev1.Service) error {
	name := s.GetMetadata().GetName()
	declared, err := resource.ReadDeclared(ctx, d.hub, name)
	if err != nil {
		return err
	}
	if len(declared) == 0 {
		return d.app.Printf("service %q has declared nothing that you may view\n", name)
	}
	stays := isOrphan(s)
	fate := "is deleted"
	if stays {
		fate = "stays, on its own"
	}
	for _, of := range declared {
		if err := d.app.Printf("%s %q %s\n", of.Kind.Singular(), of.GetMetadata().GetName(), fate); err != nil {
			return err
		}
	}
	if stays {
		return nil
	}
	for _, of := range declared {
		switch m := of.Message.(type) {
		case *consolev1.Service:
			_, err = d.prepareRead(ctx, m)
		case *consolev1.GlobalService:
			err = d.showGlobal(ctx, m.GetMetadata().GetName())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepareRead is prepareService of a service that was read.
func (d *deletion) prepareRead(ctx context.Context, s *consolev1.Service) (bool, error) {
	name := s.GetMetadata().GetName()
	if s.GetSpec().GetCatalog() {
		switch {
		case d.detach:
			return false, fmt.Errorf("the folder of service %q goes to the catalog: to leave there what it declares, "+
				"set spec.sync.onDelete: orphan, and delete the service then", name)
		case d.dryRun:
			return false, d.showDeclared(ctx, s)
		}
		return true, nil
	}
	objects, err := d.listObjects(ctx, name)
	if err != nil {
		return false, err
	}
	unheard := false // the spec leaves the objects in the cluster, and the cluster may not know
	if isOrphan(s) {
		known, err := d.clusterKeeps(ctx, s)
		if err != nil {
			return false, err
		}
		if known {
			d.app.Notef("cluster %q keeps %s of service %q (spec.sync.onDelete)\n", s.GetSpec().GetCluster(),
				plural.Of(len(objects), "object"), name)
			return !d.dryRun, nil
		}
		unheard = true
	}
	switch {
	case d.yes && !d.dryRun && !d.detach && !unheard:
		return true, nil
	case len(objects) == 0 && !d.mayHaveObjects(ctx, s):
		if d.dryRun {
			return false, d.app.Printf("service %q has no objects in cluster %q\n", name, s.GetSpec().GetCluster())
		}
		return true, nil
	case d.detach:
		return true, d.letGo(ctx, s)
	}
	text := d.lossText(ctx, s, objects)
	if d.dryRun {
		return false, d.app.Printf("%s", text)
	}
	d.app.Notef("%s", text)
	if !d.yes && !d.app.AskAgreement(ctx) {
		return false, errors.New("nothing was done: say --yes to go on, or --detach to leave the objects in the cluster")
	}
	return true, nil
}

// mayHaveObjects says whether a cluster of which no objects are known may have some: the hub has handed the service out,
// to a cluster that an agent has joined. The list is empty during the first apply, and after a move. A cluster that the
// person may not view may have some.
func (d *deletion) mayHaveObjects(ctx context.Context, s *consolev1.Service) bool {
	if s.GetStatus().GetHub().GetDigest() == "" {
		return false
	}
	m, err := resource.ClusterKind().ReadOne(ctx, d.hub, s.GetSpec().GetCluster())
	return err != nil || view.IsSet(m.(*consolev1.Cluster).GetStatus().GetJoinTime())
}

// lossText says what a cluster loses with a service, and when: a cluster that has left keeps the objects until an agent
// joins again. The text does not say so of a cluster that the person may not view.
func (d *deletion) lossText(ctx context.Context, s *consolev1.Service, objects []*deliveryv1.ManagedObject) string {
	cluster, left, again := s.GetSpec().GetCluster(), "", ""
	m, err := resource.ClusterKind().ReadOne(ctx, d.hub, cluster)
	if err == nil && view.IsSet(m.(*consolev1.Cluster).GetStatus().GetLeaveTime()) {
		left, again = ", which has left,", " when an agent joins again"
	}
	name, unheard := s.GetMetadata().GetName(), ""
	if isOrphan(s) {
		unheard = fmt.Sprintf("service %q has spec.sync.onDelete: orphan, and cluster %q has not reported yet that it knows\n",
			name, cluster)
	}
	if len(objects) == 0 {
		return unheard + fmt.Sprintf("cluster %q%s has told of no objects of service %q yet, and may have some: it loses them%s\n",
			cluster, left, name, again)
	}
	return unheard + fmt.Sprintf("with service %q cluster %q%s loses %s%s:\n%s",
		name, cluster, left, plural.Of(len(objects), "object"), again, goingText(objects))
}

// listObjects returns the objects that the cluster reported last.
func (d *deletion) listObjects(ctx context.Context, service string) (all []*deliveryv1.ManagedObject, err error) {
	for req := (&consolev1.ListObjectsRequest{Service: service, PageSize: 1000}); ; {
		page, err := d.hub.Objects.ListObjects(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, o := range page.GetObjects() {
			all = append(all, o.GetObject())
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

// goingText lists objects that go: CRDs and namespaces, which stay while something of others is in them, by name, and
// the others as a count of each kind.
func goingText(objects []*deliveryv1.ManagedObject) string {
	var b strings.Builder
	counts := map[string]int{}
	for _, o := range objects {
		switch {
		case o.GetKind() == "CustomResourceDefinition" && o.GetGroup() == "apiextensions.k8s.io":
			fmt.Fprintf(&b, "  CustomResourceDefinition %s, unless others have resources of that kind\n", o.GetName())
		case o.GetKind() == "Namespace" && o.GetGroup() == "":
			fmt.Fprintf(&b, "  Namespace %s, unless something of others is in it\n", o.GetName())
		default:
			counts[o.GetKind()]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "  %d %s\n", counts[kind], kind)
	}
	return b.String()
}

// letGo waits until the agent knows that the objects stay.
func (d *deletion) letGo(ctx context.Context, s *consolev1.Service) error {
	name := s.GetMetadata().GetName()
	resource.OfFiles(s)
	if s.Spec.Sync == nil {
		s.Spec.Sync = &deliveryv1.SyncSpec{}
	}
	s.Spec.Sync.OnDelete = deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN
	out, err := d.hub.Services.UpdateService(ctx, &consolev1.UpdateServiceRequest{Service: s})
	if err != nil {
		return err
	}
	if !isOrphan(out.GetService()) {
		return fmt.Errorf("service %q is rolled back, and onDelete waits behind that: end the rollback first (`fairlead pin service %s --release`)", name, name)
	}
	d.app.Notef("waiting until cluster %q knows that the objects stay\n", s.GetSpec().GetCluster())
	if err := d.awaitReport(ctx, name); err != nil {
		return fmt.Errorf("service %q was not deleted: %w. It has spec.sync.onDelete: orphan now", name, err)
	}
	return nil
}

// awaitReport waits until the cluster has reported content that leaves the objects there, however they are.
func (d *deletion) awaitReport(ctx context.Context, service string) error {
	ctx, cancel := context.WithTimeout(ctx, detachPatience)
	defer cancel()
	pause := time.NewTicker(app.WaitPause)
	defer pause.Stop()
	for {
		now, err := d.hub.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: service})
		known := false
		if err == nil {
			known, err = d.clusterKeeps(ctx, now.GetService())
		}
		switch {
		case known:
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("its cluster has not reported that it knows: %s", now.GetService().GetStatus().GetStateMessage())
		case <-pause.C:
		}
	}
}

// detachPatience is how long a cluster may take to learn that objects stay.
const detachPatience = 2 * time.Minute

func isOrphan(s *consolev1.Service) bool {
	return s.GetSpec().GetSync().GetOnDelete() == deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN
}

// clusterKeeps says whether the content that the cluster reported last leaves the objects there: that is what the agent
// goes by when the service is gone. The spec of now may be one that the hub does not hand out yet, or that the agent has
// not heard of.
func (d *deletion) clusterKeeps(ctx context.Context, s *consolev1.Service) (bool, error) {
	name, reported := s.GetMetadata().GetName(), s.GetStatus().GetCluster().GetReport().GetDigest()
	if reported == "" {
		return false, nil
	}
	got, err := d.hub.History.ListDeployments(ctx, &consolev1.ListDeploymentsRequest{Service: name, PageSize: historyPage})
	if err != nil {
		return false, err
	}
	all := got.GetDeployments()
	i := slices.IndexFunc(all, func(of *consolev1.Deployment) bool { return of.GetDigest() == reported })
	if i < 0 {
		return false, nil
	}
	if made := all[i].GetSpecRevision(); made != s.GetMetadata().GetRevision() {
		s, err = d.readRevision(ctx, name, made)
	}
	return isOrphan(s), err
}

// historyPage is how many deployments or revisions are read at once.
const historyPage = 100

// readRevision returns a service as it was written once; nil: it is not kept.
func (d *deletion) readRevision(ctx context.Context, name string, revision int64) (*consolev1.Service, error) {
	for req := (&consolev1.ListRevisionsRequest{Kind: consolev1.Kind_KIND_SERVICE, Name: name, PageSize: historyPage}); ; {
		page, err := d.hub.History.ListRevisions(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, r := range page.GetRevisions() {
			if r.GetRevision() <= revision {
				if r.GetRevision() < revision {
					return nil, nil //nolint:nilnil // nil has a meaning
				}
				return r.GetResource().GetService(), nil
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return nil, nil //nolint:nilnil // nil has a meaning
		}
	}
}
