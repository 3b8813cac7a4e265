// Package seeded runs a real console whose catalog looks like that of a large fleet: clusters, sources and services in
// every state, a service with many objects, history and events. The package reports what the hub's other services would
// report.
package seeded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/localca"
)

// batch is how many resources go into one request.
const batch = 1000

// Size is how large the fleet is.
type Size struct {
	Clusters, Services, Sources int
	// Objects of the service Large.
	Objects int
}

// Large is the service with many objects, and Failing one that a person has to look at.
const (
	Large   = "storefront"
	Failing = "checkout"
)

// Configured is the service that has the configuration set "regions".
const Configured = 6

// pinned is the service that somebody pinned, and held are those that somebody holds.
const pinned = 5

func held() []int { return []int{4, 25, 36} }

// Console is a running console.
type Console struct {
	URL  string
	size Size

	process *process.Process
	alerts  net.Listener // of what pretends to be Prometheus
	http    *http.Client
	secret  string
	admin   []connect.ClientOption
	gitcache,
	distributor []connect.ClientOption
	uids     map[string]string // of services
	sequence uint64
	views    map[int]uint64 // by cluster
	change   int
}

// Start starts a console of the built binaries below a folder, and fills it. Stop ends it.
func Start(ctx context.Context, bins stack.Binaries, dir string, size Size) (c *Console, err error) {
	if size.Clusters < 3 || size.Services < 40 || size.Sources < 1 {
		return nil, errors.New("a fleet has 3 clusters, 40 services and a source at least")
	}
	if c, err = StartEmpty(ctx, bins, dir); err != nil {
		return nil, err
	}
	c.size = size
	if err := c.seed(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// StartEmpty starts a console that has nothing in it.
func StartEmpty(ctx context.Context, bins stack.Binaries, dir string) (c *Console, err error) {
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	files, err := localca.Ensure(filepath.Join(dir, "tls"), "127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	c = &Console{URL: "https://" + addresses[0], uids: map[string]string{}, views: map[int]uint64{}}
	if c.alerts, err = firing(); err != nil {
		return nil, err
	}
	c.process = process.New(dir, "console", filepath.Join(bins.Dir, "console"), "--listen", addresses[0], "--data-dir", data, "--tls-cert", files.CertFile, "--tls-key", files.KeyFile,
		"--trace-url", "https://traces.example.com/trace/{trace}", "--prometheus-url", "http://"+c.alerts.Addr().String())
	if err := c.process.Start(); err != nil {
		return nil, errors.Join(err, c.alerts.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.http, err = client.New(client.Config{CAFile: files.CAFile}); err != nil {
		return c, err
	}
	return c, c.login(ctx, filepath.Join(data, "hub.secret"))
}

// Away ends the console's process, and Back starts it again at the same address and with the same data.
func (c *Console) Away() error {
	return errors.Join(c.process.Signal(syscall.SIGTERM), c.process.Stop(time.Minute))
}

// Back is the other half of Away.
func (c *Console) Back() error { return c.process.Start() }

// Stop ends the console.
func (c *Console) Stop() error {
	return errors.Join(c.Away(), c.alerts.Close())
}

// Pid is the console's process.
func (c *Console) Pid() int { return c.process.Pid() }

func (c *Console) login(ctx context.Context, secretFile string) error {
	return process.Await(ctx, "the console", func(ctx context.Context) (err error) {
		secret, err := os.ReadFile(secretFile)
		if err != nil {
			return err
		}
		c.secret = strings.TrimSpace(string(secret))
		if c.admin, err = c.as(ctx, &consolev1.ExchangeHubSecretRequest{Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "ada"}}); err != nil {
			return err
		}
		for name, options := range map[string]*[]connect.ClientOption{identity.ServiceGitcache: &c.gitcache, identity.ServiceDistributor: &c.distributor} {
			if *options, err = c.as(ctx, &consolev1.ExchangeHubSecretRequest{Subject: &consolev1.ExchangeHubSecretRequest_Service{Service: name}}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Console) as(ctx context.Context, who *consolev1.ExchangeHubSecretRequest) ([]connect.ClientOption, error) {
	who.HubSecret = c.secret
	got, err := consolev1connect.NewIdentityServiceClient(c.http, c.URL, client.Options()...).ExchangeHubSecret(ctx, who)
	if err != nil {
		return nil, err
	}
	return append(client.Options(), client.WithToken(identity.SendTo(identity.ServiceConsole,
		identity.StaticToken(got.GetToken().GetToken()), hubsecret.Text(c.secret)))), nil
}

// Person is a client of an administrator with a name.
func (c *Console) Person(ctx context.Context, name string) (consolev1connect.LiveServiceClient, error) {
	options, err := c.as(ctx, &consolev1.ExchangeHubSecretRequest{Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: name}})
	if err != nil {
		return nil, err
	}
	return consolev1connect.NewLiveServiceClient(c.http, c.URL, options...), nil
}

// APIToken makes an API token of the administrator that login links are for.
func (c *Console) APIToken(ctx context.Context) (string, error) {
	got, err := consolev1connect.NewTokenServiceClient(c.http, c.URL, c.admin...).CreateToken(ctx, &consolev1.CreateTokenRequest{
		Description: "deploys <b>shop</b>", Limits: &consolev1.TokenLimits{Role: "deployer", Projects: []string{"shop"}},
	})
	return got.GetToken(), err
}

// Counts says whether an API token counts for something.
func (c *Console) Counts(ctx context.Context, token string) error {
	_, err := consolev1connect.NewTokenServiceClient(c.http, c.URL, client.Options()...).ExchangeToken(ctx, &consolev1.ExchangeTokenRequest{Token: token})
	return err
}

// LoginLink is an address that logs a browser in, once.
func (c *Console) LoginLink(ctx context.Context) (string, error) { return c.LoginLinkOf(ctx, "ada") }

// LoginLinkOf is LoginLink for an administrator with a name.
func (c *Console) LoginLinkOf(ctx context.Context, user string) (string, error) {
	got, err := consolev1connect.NewLoginServiceClient(c.http, c.URL, c.admin...).CreateLoginLink(ctx,
		&consolev1.CreateLoginLinkRequest{User: user, Groups: []string{identity.AdminsGroup}})
	return got.GetLink(), err
}

// firing pretends to be a Prometheus in which an alert of the hub fires, until the listener is closed.
func firing() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status": "success", "data": {"alerts": [{"labels": {"alertname": "FairleadDown", "severity": "critical", "job": "fairlead-tunnel", "instance": "tunnel-0:7480"},
			"annotations": {"summary": "<b>tunnel-0</b> is not there", "description": "Prometheus could not ask it for its metrics for 5 minutes."}, "state": "firing", "activeAt": "2026-11-22T10:00:00Z"}]}}`)
	})}
	go func() { _ = s.Serve(l) }() // it ends with the listener
	return l, nil
}

// CopyToken has the agent of the i-th cluster join, and its token renewed on two machines: somebody has copied it.
func (c *Console) CopyToken(ctx context.Context, i int) error {
	api := consolev1connect.NewIdentityServiceClient(c.http, c.URL, c.admin...)
	made, err := api.CreateJoinToken(ctx, &consolev1.CreateJoinTokenRequest{Cluster: c.Cluster(i)})
	if err != nil {
		return err
	}
	key, err := identity.NewAgentKey()
	if err != nil {
		return err
	}
	joined, err := consolev1connect.NewIdentityServiceClient(c.http, c.URL, client.Options()...).JoinCluster(ctx, &consolev1.JoinClusterRequest{
		JoinToken: made.GetJoinToken(), Key: key.ForJoin(made.GetJoinToken()),
	})
	if err != nil {
		return err
	}
	token := joined.GetToken().GetToken()
	prover := &identity.Prover{
		TokenSource: identity.StaticToken(token), Key: func() *identity.AgentKey { return key },
		Audience: identity.ServiceConsole, Clock: new(identity.HubClock),
	}
	agent := consolev1connect.NewIdentityServiceClient(c.http, c.URL, append(client.Options(), client.WithToken(prover))...)
	for _, machine := range []string{"the request of the agent itself", "the request of the copy of it"} {
		_, err = agent.RenewToken(ctx, &consolev1.RenewTokenRequest{Key: key.ForRenewal(token, []byte(machine))})
	}
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		return fmt.Errorf("a token that was copied is renewed twice: %w", err)
	}
	return nil
}

// Cluster, Service and Source are the names of the i-th.
func (c *Console) Cluster(i int) string { return fmt.Sprintf("edge-%04d", i%c.size.Clusters) }

// Service is the name of the i-th service.
func (c *Console) Service(i int) string {
	switch i {
	case 0:
		return Large
	case 1:
		return Failing
	}
	return fmt.Sprintf("%s-%05d", []string{"api", "web", "worker", "cart", "search"}[i%5], i)
}

func (c *Console) source(i int) string {
	if i%c.size.Sources == 0 {
		return "shop"
	}
	return fmt.Sprintf("team-%03d", i%c.size.Sources)
}

func commit(n int) string { return strings.Repeat(fmt.Sprintf("%04x", 0x9a1b+n), 10) }

func revision(n int) *artifactv1.Revision {
	subjects := []string{"Raise the limits of the checkout", "v11", "Fix the totals of the cart", "Take out the old banner"}
	trace := fmt.Sprintf("00-%032x-%016x-01", 0x9a1b0001+n, 0x51+n)
	return &artifactv1.Revision{
		Traceparent: trace, Commit: commit(n), Subject: subjects[n%len(subjects)],
		Author: []string{"bob", "carol", "dan"}[n%3], CommitTime: timestamppb.New(time.Now().Add(-time.Duration(n+2) * time.Minute)),
	}
}

func (c *Console) seed(ctx context.Context) error {
	for _, step := range []func(context.Context) error{c.seedSources, c.seedClusters, c.seedConfiguration, c.seedServices, c.seedLevers, c.seedStates, c.seedDetails, c.seedViews} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Console) seedSources(ctx context.Context) error {
	sources := consolev1connect.NewSourceServiceClient(c.http, c.URL, c.admin...)
	heads := consolev1connect.NewHeadServiceClient(c.http, c.URL, c.gitcache...)
	for i := range c.size.Sources {
		name := c.source(i)
		made, err := sources.UpdateSource(ctx, &consolev1.UpdateSourceRequest{AllowMissing: true, Source: &consolev1.Source{
			Metadata: &consolev1.Metadata{Name: name}, Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: "https://git.example.com/" + name}},
		}})
		if err != nil {
			return err
		}
		uid := made.GetSource().GetMetadata().GetUid()
		claim, err := heads.ClaimSource(ctx, &consolev1.ClaimSourceRequest{Source: name, Uid: uid, Owner: fmt.Sprint("gitcache-", i%3)})
		if err != nil {
			return err
		}
		publish := &consolev1.PublishHeadsRequest{
			Source: name, Uid: uid, Epoch: claim.GetEpoch(),
			Heads: []*consolev1.Head{{Ref: "HEAD", Revision: revision(0), FetchTime: timestamppb.Now()}},
		}
		if i == 3 {
			publish.Problem = &consolev1.Problem{Message: "fetch refs: 401 from git.example.com. Check the token in secret \"team-git\".", Since: timestamppb.New(time.Now().Add(-12 * time.Minute))}
		}
		if _, err := heads.PublishHeads(ctx, publish); err != nil {
			return err
		}
	}
	return c.seedCharts(ctx)
}

// Charts is a repository of charts in which a newer version is than the range of a service takes.
const Charts = "charts"

func (c *Console) seedCharts(ctx context.Context) error {
	made, err := consolev1connect.NewSourceServiceClient(c.http, c.URL, c.admin...).UpdateSource(ctx, &consolev1.UpdateSourceRequest{AllowMissing: true, Source: &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: Charts}, Spec: &consolev1.SourceSpec{Helm: &consolev1.HelmSource{Url: "https://charts.example.com"}},
	}})
	if err != nil {
		return err
	}
	heads, uid := consolev1connect.NewHeadServiceClient(c.http, c.URL, c.gitcache...), made.GetSource().GetMetadata().GetUid()
	claim, err := heads.ClaimSource(ctx, &consolev1.ClaimSourceRequest{Source: Charts, Uid: uid, Owner: "gitcache-0"})
	if err != nil {
		return err
	}
	_, err = heads.PublishHeads(ctx, &consolev1.PublishHeadsRequest{Source: Charts, Uid: uid, Epoch: claim.GetEpoch(), Heads: []*consolev1.Head{
		{Ref: "chart:redis@^19.1", ResolvedRef: "chart:redis@19.1.5", NewerVersion: "20.1.0", Revision: revision(1), FetchTime: timestamppb.Now()},
		{Ref: "chart:web@1.0.0", ResolvedRef: "chart:web@1.0.0", Revision: revision(2), FetchTime: timestamppb.Now()},
	}})
	return err
}

func (c *Console) seedClusters(ctx context.Context) error {
	api := consolev1connect.NewClusterServiceClient(c.http, c.URL, c.admin...)
	status := consolev1connect.NewStatusServiceClient(c.http, c.URL, c.distributor...)
	for from := 0; from < c.size.Clusters; from += batch {
		clusters, seen := &consolev1.BatchUpdateClustersRequest{}, &consolev1.RecordSeenRequest{}
		for i := from; i < min(from+batch, c.size.Clusters); i++ {
			labels := map[string]string{"region": []string{"eu", "us", "ap"}[i%3], "tier": []string{"prod", "test"}[i%2]}
			clusters.Requests = append(clusters.Requests, &consolev1.UpdateClusterRequest{
				AllowMissing: true,
				Cluster:      &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: c.Cluster(i), Labels: labels}},
			})
			at := time.Now().Add(24 * time.Hour) // A day ahead: the fleet of a picture stays connected.
			if i%400 == 13 {
				at = time.Now().Add(-13 * time.Minute)
			}
			seen.Clusters = append(seen.Clusters, &consolev1.ClusterSeen{
				Cluster: c.Cluster(i),
				Time:    timestamppb.New(at), Agent: &deliveryv1.AgentInfo{
					Version: "0.9.1", KubernetesVersion: "v1.36.3",
					Capabilities: []deliveryv1.AgentCapability{deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS},
				},
			})
		}
		if _, err := api.BatchUpdateClusters(ctx, clusters); err != nil {
			return err
		}
		if _, err := status.RecordSeen(ctx, seen); err != nil {
			return err
		}
	}
	return nil
}

func (c *Console) spec(i int) *consolev1.Service {
	s := &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: c.Service(i), Labels: map[string]string{"env": []string{"prod", "test"}[i%2], "team": c.source(i)}},
		Spec:     &consolev1.ServiceSpec{Source: c.source(i), Cluster: c.Cluster(i), Path: "deploy/" + c.Service(i), Namespace: "shop"},
	}
	if i == Configured {
		s.Spec.ConfigSets = []string{"regions"}
	}
	return s
}

func (c *Console) seedConfiguration(ctx context.Context) error {
	_, err := consolev1connect.NewConfigSetServiceClient(c.http, c.URL, c.admin...).UpdateConfigSet(ctx, &consolev1.UpdateConfigSetRequest{AllowMissing: true, ConfigSet: &consolev1.ConfigSet{
		Metadata: &consolev1.Metadata{Name: "regions", Labels: map[string]string{"fairlead.dev/set": "seeded"}},
		Spec: &consolev1.ConfigSetSpec{Entries: map[string]*consolev1.ConfigSetting{
			"endpoint": {Value: &consolev1.ConfigSetting_Text{Text: "https://eu.example.com"}}, "level": {Value: &consolev1.ConfigSetting_Text{Text: "info"}},
		}},
	}})
	return err
}

func (c *Console) seedServices(ctx context.Context) error {
	api := consolev1connect.NewServiceServiceClient(c.http, c.URL, c.admin...)
	for from := 0; from < c.size.Services; from += batch {
		req := &consolev1.BatchUpdateServicesRequest{}
		for i := from; i < min(from+batch, c.size.Services); i++ {
			req.Requests = append(req.Requests, &consolev1.UpdateServiceRequest{AllowMissing: true, Service: c.spec(i)})
		}
		got, err := api.BatchUpdateServices(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range got.GetResponses() {
			c.uids[r.GetService().GetMetadata().GetName()] = r.GetService().GetMetadata().GetUid()
		}
	}
	return nil
}

// seedStates reports three deliveries of the first services, and one of the others.
func (c *Console) seedStates(ctx context.Context) error {
	for _, n := range []int{2, 1} {
		if err := c.deliver(ctx, n, min(c.size.Services, 40), false); err != nil {
			return err
		}
	}
	return c.deliver(ctx, 0, c.size.Services, true)
}

// deliver reports that the hub hands out a commit to the first services, and how their clusters are with it.
func (c *Console) deliver(ctx context.Context, n, count int, troubled bool) error {
	status := consolev1connect.NewStatusServiceClient(c.http, c.URL, c.distributor...)
	for from := 0; from < count; from += batch {
		hub, reports := &consolev1.RecordHubRequest{}, &consolev1.RecordReportsRequest{}
		for i := from; i < min(from+batch, count); i++ {
			name := c.Service(i)
			hub.Services = append(hub.Services, &consolev1.ServiceHub{Service: name, Uid: c.uids[name], Hub: &consolev1.HubTruth{
				Digest: fmt.Sprintf("sha256:%064x", 0xd0+n), Revision: revision(n), ResolveTime: timestamppb.Now(),
			}})
		}
		if _, err := status.RecordHub(ctx, hub); err != nil {
			return err
		}
		byCluster := map[string]*consolev1.ClusterReports{}
		for i := from; i < min(from+batch, count); i++ {
			r := c.report(i, n)
			if troubled {
				trouble(i, r)
			}
			at := byCluster[c.Cluster(i)]
			if at == nil {
				at = &consolev1.ClusterReports{Cluster: c.Cluster(i)}
				byCluster[c.Cluster(i)] = at
				reports.Clusters = append(reports.Clusters, at)
			}
			at.Reports = append(at.Reports, r)
		}
		if _, err := status.RecordReports(ctx, reports); err != nil {
			return err
		}
	}
	return nil
}

func (c *Console) report(i, n int) *deliveryv1.ServiceReport {
	c.sequence++
	total := int32(12)
	if i == 0 {
		total = int32(c.size.Objects)
	}
	return &deliveryv1.ServiceReport{
		Service: c.Service(i), Sequence: c.sequence, Phase: deliveryv1.Phase_PHASE_HEALTHY,
		Digest: fmt.Sprintf("sha256:%064x", 0xd0+n), AppliedDigest: fmt.Sprintf("sha256:%064x", 0xd0+n),
		Commit: commit(n), AppliedCommit: commit(n), AppliedTime: timestamppb.Now(), ObservedTime: timestamppb.Now(),
		ObjectsTotal: total, ObjectsHealthy: total,
	}
}

// trouble has some services be as a fleet's are on a bad day.
func trouble(i int, r *deliveryv1.ServiceReport) {
	pod := &deliveryv1.ObjectReport{
		Version: "v1", Kind: "Pod", Namespace: "shop", Name: r.GetService() + "-7d9c6b5f4-x2klm", Health: "Degraded",
		Message: "container app: CrashLoopBackOff, exit code 1, 14 restarts: panic: dial tcp 10.0.0.9:5432: connect: connection refused",
	}
	switch {
	case i == pinned || slices.Contains(held(), i):
		r.Phase = deliveryv1.Phase_PHASE_HELD
		r.Digest, r.AppliedDigest, r.Commit, r.AppliedCommit = fmt.Sprintf("sha256:%064x", 0xd1), fmt.Sprintf("sha256:%064x", 0xd1), commit(1), commit(1)
	case i == 1 || i%1500 == 7:
		r.Phase, r.Message = deliveryv1.Phase_PHASE_FAILED, "deploy/"+r.GetService()+
			"/deployment.yaml:31: image web:v11 was not found. Push the tag, or roll back."
		r.AppliedDigest, r.AppliedCommit = fmt.Sprintf("sha256:%064x", 0xd1), commit(1)
		r.AppliedTime = timestamppb.New(time.Now().Add(-2 * time.Hour))
		r.Objects, r.ObjectsHealthy = []*deliveryv1.ObjectReport{pod}, r.GetObjectsTotal()-1
	case i == 0 || i%900 == 11:
		r.Phase, r.Message = deliveryv1.Phase_PHASE_DEGRADED, "2 objects are not healthy"
		r.Objects, r.ObjectsHealthy = []*deliveryv1.ObjectReport{pod, {
			Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: r.GetService(), Health: "Degraded", Message: "2 of 3 pods are ready",
			Rival: "kubectl-edit", Fields: []string{"/spec/replicas"},
		}}, r.GetObjectsTotal()-2
		r.ObjectsDrifted = 1
	case i%2500 == 17:
		r.Phase, r.Message = deliveryv1.Phase_PHASE_WAITING, "removes 31 of 40 objects"
		r.Guard = &deliveryv1.Guard{
			Id: "sha256:guard", Removing: 31, ObjectsTotal: 40,
			Sample: []*deliveryv1.ManagedObject{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "old-cart"}},
		}
	case i%300 == 19:
		r.Phase, r.Message = deliveryv1.Phase_PHASE_PROGRESSING, "2 of 3 pods are ready"
	}
}

// seedDetails reports the objects of the large service, and what a sync would change.
func (c *Console) seedDetails(ctx context.Context) error {
	objects := &deliveryv1.ObjectList{}
	for i := range c.size.Objects {
		kind := []string{"ConfigMap", "Deployment", "Service", "Secret", "Ingress"}[i%5]
		group := map[string]string{"Deployment": "apps", "Ingress": "networking.k8s.io"}[kind]
		objects.Objects = append(objects.Objects, &deliveryv1.ManagedObject{
			Group: group, Version: "v1", Kind: kind,
			Namespace: "shop", Name: fmt.Sprintf("%s-%04d", Large, i), Uid: fmt.Sprint("uid-", i), Wave: int32(i % 3),
		})
	}
	diff := &deliveryv1.Diff{Changed: 2, Removed: 1, Created: 1, Unchanged: 14, Objects: []*deliveryv1.ObjectDiff{
		{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: Failing, Change: deliveryv1.Change_CHANGE_UPDATE, Fields: []*deliveryv1.FieldDiff{
			{Pointer: "/spec/replicas", Live: "5", Wanted: "3", Manager: "horizontal-pod-autoscaler"},
			{Pointer: "/spec/template/spec/containers/0/image", Live: `"web:v10"`, Wanted: `"web:v11"`, Manager: "fairlead"},
		}},
		{Version: "v1", Kind: "Secret", Namespace: "shop", Name: "db", Change: deliveryv1.Change_CHANGE_UPDATE, Fields: []*deliveryv1.FieldDiff{{Pointer: "/data/password"}}},
		{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "flags", Change: deliveryv1.Change_CHANGE_CREATE},
		{Version: "v1", Kind: "Service", Namespace: "shop", Name: "old-cart", Change: deliveryv1.Change_CHANGE_REMOVE},
	}}
	api := consolev1connect.NewObjectServiceClient(c.http, c.URL, c.distributor...)
	for _, d := range []struct {
		i      int
		detail *deliveryv1.ServiceDetail
	}{
		{0, &deliveryv1.ServiceDetail{Detail: &deliveryv1.ServiceDetail_Objects{Objects: objects}}},
		{1, &deliveryv1.ServiceDetail{Detail: &deliveryv1.ServiceDetail_Objects{Objects: &deliveryv1.ObjectList{Objects: objects.GetObjects()[:min(len(objects.GetObjects()), 18)]}}}},
		{1, &deliveryv1.ServiceDetail{Detail: &deliveryv1.ServiceDetail_Diff{Diff: diff}}},
	} {
		d.detail.Service, d.detail.Digest, d.detail.ObservedTime = c.Service(d.i), fmt.Sprintf("sha256:%064x", 0xd0), timestamppb.Now()
		if _, err := api.RecordDetails(ctx, &consolev1.RecordDetailsRequest{Cluster: c.Cluster(d.i), Detail: d.detail}); err != nil {
			return err
		}
	}
	return nil
}

// seedLevers has people hold and pin some services, and writes what they may do.
func (c *Console) seedLevers(ctx context.Context) error {
	sync := consolev1connect.NewSyncServiceClient(c.http, c.URL, c.admin...)
	for _, i := range held() {
		if _, err := sync.HoldService(ctx, &consolev1.HoldServiceRequest{Name: c.Service(i), Reason: "black friday, ask the shop team"}); err != nil {
			return err
		}
	}
	if _, err := sync.PinService(ctx, &consolev1.PinServiceRequest{Name: c.Service(pinned), Commit: commit(1), Reason: "v11 is bad", UntilTime: timestamppb.New(time.Now().Add(24 * time.Hour))}); err != nil {
		return err
	}
	apply := &consolev1.ApplyRequest{Set: "seeded", Resources: []*consolev1.Resource{
		{Resource: &consolev1.Resource_Project{Project: &consolev1.Project{Metadata: &consolev1.Metadata{Name: "shop"}, Spec: &consolev1.ProjectSpec{Description: "The shop and all that it needs"}}}},
		{Resource: &consolev1.Resource_Grant{Grant: &consolev1.Grant{Metadata: &consolev1.Metadata{Name: "web-team"}, Spec: &consolev1.GrantSpec{
			Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_Group{Group: "web-team"}}},
			Role:     "viewer", Clusters: &consolev1.GrantClusters{Labels: map[string]string{"tier": "test"}},
		}}}},
		{Resource: &consolev1.Resource_GlobalService{GlobalService: &consolev1.GlobalService{Metadata: &consolev1.Metadata{Name: "node-exporter"}, Spec: &consolev1.GlobalServiceSpec{
			Clusters: &consolev1.ClusterSelector{Names: []string{c.Cluster(0), c.Cluster(1), c.Cluster(2)}},
			Template: &consolev1.ServiceSpec{Source: "shop", Path: "platform/node-exporter", Namespace: "monitoring"},
		}}}},
	}}
	_, err := consolev1connect.NewApplyServiceClient(c.http, c.URL, c.admin...).Apply(ctx, apply)
	return err
}

// Change has the cluster of some service report another state, and returns the service.
func (c *Console) Change(ctx context.Context) (string, error) {
	c.change++
	first := min(100, c.size.Services/2) // those before are held, pinned, or looked at by name
	i := first + c.change*37%(c.size.Services-first)
	r := c.report(i, 0)
	if c.change%2 == 0 {
		r.Phase, r.Message = deliveryv1.Phase_PHASE_DEGRADED, fmt.Sprintf("pod %d is not ready", c.change)
		r.ObjectsHealthy--
	}
	return r.GetService(), c.Report(ctx, i, r)
}

// Report has a cluster report about the i-th service.
func (c *Console) Report(ctx context.Context, i int, r *deliveryv1.ServiceReport) error {
	_, err := consolev1connect.NewStatusServiceClient(c.http, c.URL, c.distributor...).RecordReports(ctx, &consolev1.RecordReportsRequest{
		Clusters: []*consolev1.ClusterReports{{Cluster: c.Cluster(i), Reports: []*deliveryv1.ServiceReport{r}}},
	})
	return err
}

// Break has the i-th service fail with a message.
func (c *Console) Break(ctx context.Context, i int, message string) error {
	r := c.report(i, 0)
	r.Phase, r.Message = deliveryv1.Phase_PHASE_FAILED, message
	return c.Report(ctx, i, r)
}
