// Package console is the console as the rest of a gitcache knows it: its messages become the domain's own
// types here, and nowhere else but in rpc.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/services/gitcache/internal/cloud"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// tokenUser goes with a token that came without a user name: GitHub, GitLab and Gitea take any.
const tokenUser = "x-access-token"

// Console is owner.Console over RPC.
type Console struct {
	heads   consolev1connect.HeadServiceClient
	secrets consolev1connect.SecretServiceClient
}

// NewConsole makes clients of the console at url.
func NewConsole(hc *http.Client, url string, opts ...connect.ClientOption) *Console {
	return &Console{
		heads:   consolev1connect.NewHeadServiceClient(hc, url, opts...),
		secrets: consolev1connect.NewSecretServiceClient(hc, url, opts...),
	}
}

// Claim takes the next epoch.
func (c *Console) Claim(ctx context.Context, name, uid, replica string) (owner.Claimed, error) {
	resp, err := c.heads.ClaimSource(ctx, &consolev1.ClaimSourceRequest{Source: name, Uid: uid, Owner: replica})
	if err != nil {
		return owner.Claimed{}, fmt.Errorf("claim source: %w", verdict(err))
	}
	return owner.Claimed{Epoch: resp.GetEpoch(), Heads: Heads(resp.GetHeads()), Problem: Problem(resp.GetProblem())}, nil
}

// Publish records heads.
func (c *Console) Publish(ctx context.Context, p owner.Publication) error {
	_, err := c.heads.PublishHeads(ctx, &consolev1.PublishHeadsRequest{
		Source: p.Source, Uid: p.UID, Epoch: p.Epoch, Heads: HeadMessages(p.Heads), Problem: ProblemMessage(p.Problem),
	})
	if err != nil {
		return fmt.Errorf("publish heads: %w", verdict(err))
	}
	return nil
}

func verdict(err error) error {
	switch connect.CodeOf(err) {
	case connect.CodeAborted:
		return errors.Join(owner.ErrStale, err)
	case connect.CodeNotFound:
		return errors.Join(owner.ErrGone, err)
	default:
		return err
	}
}

// Credentials reads a secret: a token, or a username and password.
func (c *Console) Credentials(ctx context.Context, secret string) (upstream.Credentials, error) {
	resp, err := c.secrets.AccessSecret(ctx, &consolev1.AccessSecretRequest{Name: secret})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return upstream.Credentials{}, fmt.Errorf("secret %q does not exist. Create it, or correct the name in the source", secret)
	}
	if err != nil {
		return upstream.Credentials{}, fmt.Errorf("secret %q can't be read: the console answers %s. Fairlead tries again", secret, connect.CodeOf(err))
	}
	data := resp.GetData()
	credentials := upstream.Credentials{
		Username: data["username"], Password: data["password"], CA: data["ca.crt"],
		GitHubApp: upstream.GitHubApp{
			ID: data["githubAppID"], InstallationID: data["githubAppInstallationID"], PrivateKey: data["githubAppPrivateKey"],
		},
		Identity: data["identity"], Passphrase: data["passphrase"], KnownHosts: data["known_hosts"],
		AccessKey: data["accesskey"], SecretKey: data["secretkey"],
		DockerConfig: data[".dockerconfigjson"], ProxyUsername: data["proxyUsername"], ProxyPassword: data["proxyPassword"],
	}
	if token := data["token"]; token != "" {
		credentials.Password = token
		if credentials.Username == "" {
			credentials.Username = tokenUser
		}
	}
	if credentials == (upstream.Credentials{}) {
		return credentials, fmt.Errorf("secret %q has neither a token nor a username and password, nor an identity, a GitHub App, a .dockerconfigjson, accesskey and secretkey, or a ca.crt. Add the keys", secret)
	}
	return credentials, nil
}

// Catalog is owner.Catalog and origin.Catalog over the hub's catalog.
type Catalog struct {
	catalog *catalog.Catalog
	changes *catalog.Subscription
}

// NewCatalog subscribes to changes; Close ends that.
func NewCatalog(c *catalog.Catalog) *Catalog { return &Catalog{c, c.Subscribe()} }

// Close ends the subscription.
func (c *Catalog) Close() { c.changes.Close() }

// Changed receives after changes.
func (c *Catalog) Changed() <-chan struct{} { return c.changes.C() }

// Sources returns all sources with what their services want.
func (c *Catalog) Sources() (sources []source.Source, known, live bool) {
	c.changes.Take() // first: what changes from here on is told again
	if c.catalog.Ready() != nil {
		return nil, false, false
	}
	_, stale := c.catalog.Stale()
	for _, s := range c.catalog.Sources() {
		sources = append(sources, c.plan(s))
	}
	return sources, true, !stale
}

// registry is how the registry of a source may be asked; the zero value: it is in none.
func registry(u catalog.Upstream) upstream.Registry {
	if !giturl.IsRegistry(u.URL) {
		return upstream.Registry{}
	}
	return upstream.Registry{
		Is: true, Insecure: u.Registry.Insecure, Unverified: u.Registry.SkipTLSVerify,
		TokenHosts: strings.Join(u.Registry.TokenHosts, " "), Mirrors: strings.Join(u.Registry.Mirrors, " "),
	}
}

// clouds by their names in the catalog.
var clouds = map[consolev1.CloudAuth]cloud.Name{ //nolint:gochecknoglobals // a table
	consolev1.CloudAuth_CLOUD_AUTH_AWS: cloud.AWS, consolev1.CloudAuth_CLOUD_AUTH_GCP: cloud.GCP, consolev1.CloudAuth_CLOUD_AUTH_AZURE: cloud.Azure,
}

// cloudOf is where a gitcache logs in as itself; empty: nowhere. A name that is not in clouds is of a later release:
// package cloud refuses it.
func cloudOf(a consolev1.CloudAuth) cloud.Name {
	if a == consolev1.CloudAuth_CLOUD_AUTH_UNSPECIFIED {
		return ""
	}
	return cmp.Or(clouds[a], cloud.Name(a.String()))
}

// defaultRegion is what hosts that have no regions take.
const defaultRegion = "us-east-1"

// bucket is which bucket a source is; the zero value: it is none.
func bucket(b *consolev1.BucketSource) upstream.Bucket {
	if b == nil {
		return upstream.Bucket{}
	}
	return upstream.Bucket{
		Is: true, Name: b.GetBucketName(), Prefix: b.GetPrefix(), Region: cmp.Or(b.GetRegion(), defaultRegion), Versioned: b.GetVersioned(),
		Insecure: b.GetInsecure(), Unverified: b.GetInsecureSkipTlsVerify(),
	}
}

func (c *Catalog) plan(s *consolev1.Source) source.Source {
	repo, name := s.GetSpec().GetGit(), s.GetMetadata().GetName()
	plan := c.upstream(s)
	plan.Wants = c.catalog.RefsOf(name)
	plan.Combinations, plan.IsCurrent = c.combinations(s, plan.Wants), c.catalog.Current()
	plan.LeftOut = boundRefs(plan.Wants, s.GetStatus().GetHeads(), maxRefs)
	if catalog.HasDependencies(s.GetSpec()) {
		plan.HasDependencies, plan.Allow, plan.ChartSources, plan.Folders = true, repo.GetAllow(), c.chartSources(repo), c.foldersOf(name)
	}
	plan.Users = func() func(string) []string { return c.users(name) }
	return plan
}

// maxRefs of a source are followed: the console takes 10,000 heads in a publication, and some are of what charts and
// kustomizations need.
const maxRefs = 9000

// boundRefs takes out what is beyond a limit, and tells how many refs that are. What was published stays.
func boundRefs(refs map[string]int, published []*consolev1.Head, most int) (leftOut int) {
	if len(refs) <= most {
		return 0
	}
	known := make(map[string]bool, len(published))
	for _, h := range published {
		known[h.GetRef()] = true
	}
	all := slices.SortedFunc(maps.Keys(refs), func(a, b string) int {
		switch {
		case known[a] == known[b]:
			return cmp.Compare(a, b)
		case known[a]:
			return -1
		}
		return 1
	})
	for _, ref := range all[most:] {
		delete(refs, ref)
	}
	return len(all) - most
}

// upstream is what a source says of where it is, whoever wants something of it.
func (c *Catalog) upstream(s *consolev1.Source) source.Source {
	spec := s.GetSpec()
	repo, is := spec.GetGit(), catalog.UpstreamOf(spec)
	out := source.Source{
		UID: s.GetMetadata().GetUid(), Name: s.GetMetadata().GetName(), URL: is.URL, Interval: is.Interval,
		Charts: catalog.IsCharts(spec), Artifacts: catalog.IsArtifacts(spec), Registry: registry(is),
		Bucket: bucket(spec.GetBucket()), Cloud: cloudOf(is.Registry.Auth),
		LayerType: spec.GetOci().GetLayerSelector().GetMediaType(), AllowReplaced: spec.GetHelm().GetAllowReplaced(),
		Secret: is.Secret, Proxy: is.Proxy, Submodules: repo.GetSubmodules(), SubmoduleRepositories: repo.GetSubmoduleRepositories(),
		Verification: verification(repo.GetVerification()), Verify: policy(spec),
	}
	if secret, ok := c.catalog.Secret(out.Secret); ok {
		out.SecretRevision = secret.GetMetadata().GetRevision()
	}
	return out
}

// chartSources are the sources of charts that charts of a repository in Git may depend on. One that is none is left
// out, as if it was not named.
func (c *Catalog) chartSources(repo *consolev1.GitSource) (sources []source.Source) {
	for _, name := range repo.GetChartSources() {
		if s, ok := c.catalog.Source(name); ok && catalog.IsCharts(s.GetSpec()) {
			sources = append(sources, c.upstream(s))
		}
	}
	return sources
}

// foldersOf are the folders that services want of each ref of a source, in order. What rules that are wrong leave out
// is not known: their services get nothing.
func (c *Catalog) foldersOf(name string) map[string][]source.Folder {
	folders := map[string][]source.Folder{}
	for id := range c.catalog.FoldersOf(name) {
		f := id.Value()
		rules, err := pathrules.Parse(f.Include.Lines(), f.Ignore.Lines())
		if err != nil {
			continue
		}
		ref := catalog.CanonicalRef(f.Ref)
		if catalog.IsCombination(ref) { // each of its sources has what its charts depend on
			continue
		}
		folders[ref] = append(folders[ref], source.Folder{Path: f.Path, Rules: rules.Canonical()})
	}
	for ref, all := range folders {
		slices.SortFunc(all, func(a, b source.Folder) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rules, b.Rules))
		})
		folders[ref] = slices.Compact(all)
	}
	return folders
}

// users looks at the services of a source once, and then gives those that want a ref, in the order of names.
func (c *Catalog) users(source string) func(ref string) []string {
	names := map[string][]string{} // by ref
	for _, s := range c.catalog.ServicesOf(source) {
		for _, ref := range s.RefsOf(source) {
			names[ref] = append(names[ref], s.Name)
		}
	}
	return func(ref string) []string { return names[ref] }
}

func verification(v *consolev1.Verification) source.Verification {
	if v == nil {
		return source.Verification{}
	}
	tag := v.GetMode() == consolev1.VerificationMode_VERIFICATION_MODE_TAG
	both := v.GetMode() == consolev1.VerificationMode_VERIFICATION_MODE_TAG_AND_COMMIT
	return source.Verification{Commit: !tag, Tag: tag || both, Keys: v.GetKeys()}
}

// providers by their names in the catalog. One that is not here is of a later release: package signed refuses it.
var providers = map[consolev1.VerifyProvider]signed.Provider{ //nolint:gochecknoglobals // a table
	consolev1.VerifyProvider_VERIFY_PROVIDER_COSIGN:     signed.Cosign,
	consolev1.VerifyProvider_VERIFY_PROVIDER_PROVENANCE: signed.Provenance,
	consolev1.VerifyProvider_VERIFY_PROVIDER_NOTATION:   signed.Notation,
}

// policy says who must have signed charts and artifacts of a source.
func policy(spec *consolev1.SourceSpec) signed.Policy {
	v := cmp.Or(spec.GetHelm().GetVerify(), spec.GetOci().GetVerify())
	if v == nil {
		return signed.Policy{}
	}
	out := signed.Policy{
		Provider: cmp.Or(providers[v.GetProvider()], signed.Provider(v.GetProvider().String())), Keys: v.GetKeys(),
		Repository: v.GetRepository(), Certificates: v.GetCertificates(), Identities: v.GetTrustedIdentities(), Root: v.GetTrustedRoot(),
	}
	for _, is := range v.GetMatchOidcIdentity() {
		out.Signers = append(out.Signers, signed.Signer{Issuer: is.GetIssuer(), Subject: is.GetSubject()})
	}
	return out
}

// Source returns one source as it was published last.
func (c *Catalog) Source(name string) (origin.Source, bool) {
	s, ok := c.catalog.Source(name)
	if !ok {
		return origin.Source{}, false
	}
	return originSource(s), true
}

// Published are all sources that have heads, for the origin.
func (c *Catalog) Published() []origin.Source {
	var sources []origin.Source
	for _, s := range c.catalog.Sources() {
		if len(s.GetStatus().GetHeads()) > 0 {
			sources = append(sources, originSource(s))
		}
	}
	return sources
}

func originSource(s *consolev1.Source) origin.Source {
	return origin.Source{
		UID: s.GetMetadata().GetUid(), Epoch: s.GetStatus().GetEpoch(), Submodules: s.GetSpec().GetGit().GetSubmodules(),
		Dependencies: catalog.HasDependencies(s.GetSpec()), Heads: Heads(s.GetStatus().GetHeads()), Problem: s.GetStatus().GetProblem().GetMessage(),
	}
}

// Heads are heads as they were published. Object stays zero: what upstream listed is not recorded.
func Heads(messages []*consolev1.Head) []mirror.Head {
	heads := make([]mirror.Head, 0, len(messages))
	for _, m := range messages {
		r := m.GetRevision()
		h := mirror.Head{
			Ref: m.GetRef(), Commit: git.HashOf(r.GetCommit()), CommitTime: Time(r.GetCommitTime()),
			Subject: r.GetSubject(), Author: r.GetAuthor(), Traceparent: r.GetTraceparent(), FetchTime: Time(m.GetFetchTime()),
			Resolved: m.GetResolvedRef(), SignedBy: m.GetSignedBy(), Newer: m.GetNewerVersion(),
		}
		if h.Ref != "" && !h.Commit.IsZero() {
			heads = append(heads, h)
		}
	}
	return heads
}

// HeadMessages are heads as they are published.
func HeadMessages(heads []mirror.Head) []*consolev1.Head {
	messages := make([]*consolev1.Head, 0, len(heads))
	for _, h := range heads {
		messages = append(messages, &consolev1.Head{
			Ref: h.Ref, Revision: RevisionMessage(h), FetchTime: Timestamp(h.FetchTime), ResolvedRef: h.Resolved, SignedBy: h.SignedBy,
			NewerVersion: h.Newer,
		})
	}
	return messages
}

// RevisionMessage is the commit of a head.
func RevisionMessage(h mirror.Head) *artifactv1.Revision {
	return &artifactv1.Revision{
		Commit: h.Commit.String(), CommitTime: Timestamp(h.CommitTime), Subject: h.Subject, Author: h.Author, Traceparent: h.Traceparent,
	}
}

// ProblemMessage is nil for no problem.
func ProblemMessage(p source.Problem) *consolev1.Problem {
	if p.Message == "" {
		return nil
	}
	out := &consolev1.Problem{Message: p.Message, Since: Timestamp(p.Since), Refs: p.Refs}
	for _, one := range p.Single {
		out.RefProblems = append(out.RefProblems, &consolev1.RefProblem{Ref: one.Ref, Message: one.Message, Since: Timestamp(one.Since), Missing: one.Missing})
	}
	return out
}

// Problem is the zero value for none.
func Problem(m *consolev1.Problem) source.Problem {
	out := source.Problem{Message: m.GetMessage(), Since: Time(m.GetSince()), Refs: m.GetRefs()}
	for _, one := range m.GetRefProblems() {
		out.Single = append(out.Single, source.RefProblem{Ref: one.GetRef(), Message: one.GetMessage(), Since: Time(one.GetSince()), Missing: one.GetMissing()})
	}
	return out
}

// Time is the zero time for no timestamp.
func Time(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// Timestamp is nil for the zero time.
func Timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
