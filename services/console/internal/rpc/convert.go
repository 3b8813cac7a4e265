package rpc

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/platform/version"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
)

func decodeSource(s *consolev1.Source) state.Source {
	return state.Source{Meta: descriptor.Meta(s.GetMetadata()), Spec: state.SourceSpec{
		Git: decodeGit(s.GetSpec().GetGit()), Helm: decodeHelm(s.GetSpec().GetHelm()), OCI: decodeOCI(s.GetSpec().GetOci()), Bucket: decodeBucket(s.GetSpec().GetBucket()),
	}}
}

func decodeHelm(helm *consolev1.HelmSource) state.HelmSource {
	return state.HelmSource{
		URL: helm.GetUrl(), Interval: helm.GetInterval().AsDuration(), Secret: helm.GetSecret(), Proxy: helm.GetProxy(),
		WebhookSecret: helm.GetWebhookSecret(), AllowReplaced: helm.GetAllowReplaced(),
		Registry: state.Registry{Insecure: helm.GetInsecure(), SkipTLSVerify: helm.GetInsecureSkipTlsVerify(), TokenHosts: helm.GetTokenHosts(), Mirrors: helm.GetMirrors(), Auth: clouds[helm.GetAuth()]},
		Verify:   decodeVerify(helm.GetVerify()),
	}
}

func decodeOCI(oci *consolev1.OCISource) state.OCISource {
	return state.OCISource{
		URL: oci.GetUrl(), Interval: oci.GetInterval().AsDuration(), Secret: oci.GetSecret(), Proxy: oci.GetProxy(),
		WebhookSecret: oci.GetWebhookSecret(), LayerType: oci.GetLayerSelector().GetMediaType(),
		Registry: state.Registry{Insecure: oci.GetInsecure(), SkipTLSVerify: oci.GetInsecureSkipTlsVerify(), TokenHosts: oci.GetTokenHosts(), Mirrors: oci.GetMirrors(), Auth: clouds[oci.GetAuth()]},
		Verify:   decodeVerify(oci.GetVerify()),
	}
}

func decodeBucket(b *consolev1.BucketSource) state.BucketSource {
	return state.BucketSource{
		Endpoint: b.GetEndpoint(), Name: b.GetBucketName(), Region: b.GetRegion(), Prefix: b.GetPrefix(), Versioned: b.GetVersioned(),
		Interval: b.GetInterval().AsDuration(), Secret: b.GetSecret(), Proxy: b.GetProxy(), WebhookSecret: b.GetWebhookSecret(),
		Insecure: b.GetInsecure(), SkipTLSVerify: b.GetInsecureSkipTlsVerify(), Auth: clouds[b.GetAuth()],
	}
}

// clouds by their names in the catalog.
var clouds = map[consolev1.CloudAuth]state.CloudAuth{ //nolint:gochecknoglobals // a table
	consolev1.CloudAuth_CLOUD_AUTH_AWS:   state.AuthAWS,
	consolev1.CloudAuth_CLOUD_AUTH_GCP:   state.AuthGCP,
	consolev1.CloudAuth_CLOUD_AUTH_AZURE: state.AuthAzure,
}

func encodeCloud(auth state.CloudAuth) consolev1.CloudAuth {
	for is, named := range clouds {
		if named == auth {
			return is
		}
	}
	return consolev1.CloudAuth_CLOUD_AUTH_UNSPECIFIED
}

// providers by their names in the catalog.
var providers = map[consolev1.VerifyProvider]state.VerifyProvider{ //nolint:gochecknoglobals // a table
	consolev1.VerifyProvider_VERIFY_PROVIDER_COSIGN:     state.VerifyCosign,
	consolev1.VerifyProvider_VERIFY_PROVIDER_PROVENANCE: state.VerifyProvenance,
	consolev1.VerifyProvider_VERIFY_PROVIDER_NOTATION:   state.VerifyNotation,
}

func decodeVerify(v *consolev1.Verify) *state.Verify {
	if v == nil {
		return nil
	}
	out := &state.Verify{
		Provider: providers[v.GetProvider()], Keys: v.GetKeys(), Repository: v.GetRepository(),
		Certificates: v.GetCertificates(), Identities: v.GetTrustedIdentities(), TrustedRoot: v.GetTrustedRoot(),
	}
	for _, is := range v.GetMatchOidcIdentity() {
		out.Signers = append(out.Signers, state.OIDCIdentity{Issuer: is.GetIssuer(), Subject: is.GetSubject()})
	}
	return out
}

func encodeVerify(v *state.Verify) *consolev1.Verify {
	if v == nil {
		return nil
	}
	out := &consolev1.Verify{
		Keys: v.Keys, Repository: v.Repository, Certificates: v.Certificates, TrustedIdentities: v.Identities, TrustedRoot: v.TrustedRoot,
	}
	for _, is := range v.Signers {
		out.MatchOidcIdentity = append(out.MatchOidcIdentity, &consolev1.OIDCIdentity{Issuer: is.Issuer, Subject: is.Subject})
	}
	for is, provider := range providers {
		if provider == v.Provider {
			out.Provider = is
		}
	}
	return out
}

// encodeSourceSpec sets the one kind of a source.
func encodeSourceSpec(s state.SourceSpec) *consolev1.SourceSpec {
	switch {
	case s.Helm.URL != "":
		return &consolev1.SourceSpec{Helm: encodeHelm(s.Helm)}
	case s.OCI.URL != "":
		return &consolev1.SourceSpec{Oci: encodeOCI(s.OCI)}
	case s.Bucket.Endpoint != "":
		return &consolev1.SourceSpec{Bucket: encodeBucket(s.Bucket)}
	}
	return &consolev1.SourceSpec{Git: encodeGit(s.Git)}
}

func encodeHelm(h state.HelmSource) *consolev1.HelmSource {
	helm := &consolev1.HelmSource{
		Url: h.URL, Secret: h.Secret, Proxy: h.Proxy, WebhookSecret: h.WebhookSecret, AllowReplaced: h.AllowReplaced,
		Insecure: h.Insecure, InsecureSkipTlsVerify: h.SkipTLSVerify, TokenHosts: h.TokenHosts, Mirrors: h.Mirrors, Auth: encodeCloud(h.Auth), Verify: encodeVerify(h.Verify),
	}
	if h.Interval != 0 {
		helm.Interval = durationpb.New(h.Interval)
	}
	return helm
}

func encodeOCI(o state.OCISource) *consolev1.OCISource {
	oci := &consolev1.OCISource{
		Url: o.URL, Secret: o.Secret, Proxy: o.Proxy, WebhookSecret: o.WebhookSecret,
		Insecure: o.Insecure, InsecureSkipTlsVerify: o.SkipTLSVerify, TokenHosts: o.TokenHosts, Mirrors: o.Mirrors, Auth: encodeCloud(o.Auth), Verify: encodeVerify(o.Verify),
	}
	if o.Interval != 0 {
		oci.Interval = durationpb.New(o.Interval)
	}
	if o.LayerType != "" {
		oci.LayerSelector = &consolev1.LayerSelector{MediaType: o.LayerType}
	}
	return oci
}

func encodeBucket(b state.BucketSource) *consolev1.BucketSource {
	bucket := &consolev1.BucketSource{
		Endpoint: b.Endpoint, BucketName: b.Name, Region: b.Region, Prefix: b.Prefix, Versioned: b.Versioned,
		Secret: b.Secret, Proxy: b.Proxy, WebhookSecret: b.WebhookSecret, Insecure: b.Insecure, InsecureSkipTlsVerify: b.SkipTLSVerify, Auth: encodeCloud(b.Auth),
	}
	if b.Interval != 0 {
		bucket.Interval = durationpb.New(b.Interval)
	}
	return bucket
}

func decodeGit(git *consolev1.GitSource) state.GitSource {
	return state.GitSource{
		URL: git.GetUrl(), Interval: git.GetInterval().AsDuration(), Secret: git.GetSecret(), Proxy: git.GetProxy(),
		Submodules: git.GetSubmodules(), Verification: decodeVerification(git.GetVerification()), WebhookSecret: git.GetWebhookSecret(),
		SubmoduleRepositories: git.GetSubmoduleRepositories(), Allow: git.GetAllow(), ChartSources: git.GetChartSources(),
	}
}

func encodeGit(g state.GitSource) *consolev1.GitSource {
	git := &consolev1.GitSource{
		Url: g.URL, Secret: g.Secret, Proxy: g.Proxy,
		Submodules: g.Submodules, Verification: encodeVerification(g.Verification), WebhookSecret: g.WebhookSecret,
		SubmoduleRepositories: g.SubmoduleRepositories, Allow: g.Allow, ChartSources: g.ChartSources,
	}
	if g.Interval != 0 {
		git.Interval = durationpb.New(g.Interval)
	}
	return git
}

func decodeVerification(v *consolev1.Verification) *state.Verification {
	if v == nil {
		return nil
	}
	out := &state.Verification{Keys: v.GetKeys()}
	switch v.GetMode() {
	case consolev1.VerificationMode_VERIFICATION_MODE_COMMIT:
		out.Mode = state.VerifyCommit
	case consolev1.VerificationMode_VERIFICATION_MODE_TAG:
		out.Mode = state.VerifyTag
	case consolev1.VerificationMode_VERIFICATION_MODE_TAG_AND_COMMIT:
		out.Mode = state.VerifyTagAndCommit
	}
	return out
}

func encodeVerification(v *state.Verification) *consolev1.Verification {
	if v == nil {
		return nil
	}
	out := &consolev1.Verification{Keys: v.Keys}
	switch v.Mode {
	case state.VerifyCommit:
		out.Mode = consolev1.VerificationMode_VERIFICATION_MODE_COMMIT
	case state.VerifyTag:
		out.Mode = consolev1.VerificationMode_VERIFICATION_MODE_TAG
	case state.VerifyTagAndCommit:
		out.Mode = consolev1.VerificationMode_VERIFICATION_MODE_TAG_AND_COMMIT
	}
	return out
}

func encodeSource(s state.Source) *consolev1.Source {
	return &consolev1.Source{
		Metadata: descriptor.Metadata(s.Meta),
		Spec:     encodeSourceSpec(s.Spec),
		Status: &consolev1.SourceStatus{
			Heads: descriptor.Each(s.Status.Heads, encodeHead), Epoch: s.Status.Epoch, Owner: s.Status.Owner, Problem: encodeProblem(s.Status.Problem),
		},
	}
}

func decodeHead(h *consolev1.Head) state.Head {
	return state.Head{
		Ref: h.GetRef(), Revision: decodeRevision(h.GetRevision()), FetchTime: descriptor.Moment(h.GetFetchTime()),
		Resolved: h.GetResolvedRef(), SignedBy: h.GetSignedBy(), NewerVersion: h.GetNewerVersion(),
	}
}

func encodeHead(h state.Head) *consolev1.Head {
	return &consolev1.Head{
		Ref: h.Ref, Revision: encodeRevision(h.Revision), FetchTime: descriptor.Stamp(h.FetchTime), ResolvedRef: h.Resolved, SignedBy: h.SignedBy,
		NewerVersion: h.NewerVersion,
	}
}

func decodeRevision(r *artifactv1.Revision) state.Revision {
	return state.Revision{
		Commit: r.GetCommit(), CommitTime: descriptor.Moment(r.GetCommitTime()), Subject: r.GetSubject(), Author: r.GetAuthor(), Traceparent: r.GetTraceparent(),
	}
}

func encodeRevision(r state.Revision) *artifactv1.Revision {
	if r == (state.Revision{}) {
		return nil
	}
	return &artifactv1.Revision{Commit: r.Commit, CommitTime: descriptor.Stamp(r.CommitTime), Subject: r.Subject, Author: r.Author, Traceparent: r.Traceparent}
}

func decodeProblem(p *consolev1.Problem) *state.Problem {
	if p == nil {
		return nil
	}
	return &state.Problem{
		Message: p.GetMessage(), Since: descriptor.Moment(p.GetSince()), Refs: p.GetRefs(),
		Single: descriptor.Each(p.GetRefProblems(), func(one *consolev1.RefProblem) state.RefProblem {
			return state.RefProblem{Ref: one.GetRef(), Message: one.GetMessage(), Since: descriptor.Moment(one.GetSince()), Missing: one.GetMissing()}
		}),
	}
}

func encodeProblem(p *state.Problem) *consolev1.Problem {
	if p == nil {
		return nil
	}
	return &consolev1.Problem{
		Message: p.Message, Since: descriptor.Stamp(p.Since), Refs: p.Refs,
		RefProblems: descriptor.Each(p.Single, func(one state.RefProblem) *consolev1.RefProblem {
			return &consolev1.RefProblem{Ref: one.Ref, Message: one.Message, Since: descriptor.Stamp(one.Since), Missing: one.Missing}
		}),
	}
}

func decodeCluster(c *consolev1.Cluster) state.Cluster {
	return state.Cluster{Meta: descriptor.Meta(c.GetMetadata()), Spec: state.ClusterSpec{
		Description: c.GetSpec().GetDescription(), Config: descriptor.Settings(c.GetSpec().GetConfig()), Windows: c.GetSpec().GetWindows(),
	}}
}

func encodeCluster(c state.Cluster) *consolev1.Cluster {
	return &consolev1.Cluster{
		Metadata: descriptor.Metadata(c.Meta),
		Spec:     &consolev1.ClusterSpec{Description: c.Spec.Description, Config: descriptor.ConfigSettings(c.Spec.Config), Windows: c.Spec.Windows},
		Freeze:   c.Spec.Freeze.Encode(),
		Status: &consolev1.ClusterStatus{
			JoinTime: descriptor.Stamp(c.Status.JoinTime), LastSeenTime: descriptor.Stamp(c.Status.LastSeen),
			AgentVersion: c.Status.Agent.Version, KubernetesVersion: c.Status.Agent.KubernetesVersion, Connected: c.Status.Connected,
			NextPollTime: descriptor.Stamp(c.Status.Agent.NextPoll), LeaveTime: descriptor.Stamp(c.Status.LeaveTime),
			Skew:           skew(c.Status.Agent.Version, version.String()),
			TokenReuseTime: descriptor.Stamp(c.Status.ReuseTime), TokenReuse: c.Status.Reuse, TokenUnbound: c.Status.Agent.Unbound,

			ClockSkew: encodeSkew(c.Status.Agent.ClockSkew), HoldsWindows: c.Status.Agent.Windows,
			ClusterProblem: c.Status.Agent.ClusterProblem,
		},
	}
}

// encodeSkew is nil for a clock that goes right.
func encodeSkew(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// encodeWindows is nil for a service without windows.
func encodeWindows(w window.State, fault string) *consolev1.WindowStatus {
	if !w.Any && fault == "" {
		return nil
	}
	return &consolev1.WindowStatus{
		Closed: w.Closed, ManualSync: w.Closed && w.Manual, Message: w.Words(), ChangeTime: descriptor.Stamp(w.Change),
		Fault: fault,
	}
}

// skew says how far an agent is behind the hub. Builds that are no release are not compared.
func skew(agent, hub string) string {
	is, err := semver.StrictNewVersion(strings.TrimPrefix(agent, "v"))
	if err != nil {
		return ""
	}
	latest, err := semver.StrictNewVersion(strings.TrimPrefix(hub, "v"))
	if err != nil {
		return ""
	}
	behind := func(less, most uint64, one, many string) string {
		if less > most {
			return ""
		}
		if most-less > 1 {
			one = many
		}
		return fmt.Sprintf("%d %s behind %s", most-less, one, hub)
	}
	switch {
	case is.Major() != latest.Major():
		return behind(is.Major(), latest.Major(), "major version", "major versions")
	case is.Minor() != latest.Minor():
		return behind(is.Minor(), latest.Minor(), "minor version", "minor versions")
	case is.Patch() != latest.Patch():
		return behind(is.Patch(), latest.Patch(), "patch", "patches")
	}
	return ""
}

func decodeService(s *consolev1.Service) state.Service {
	return state.Service{Meta: descriptor.Meta(s.GetMetadata()), Spec: decodeServiceSpec(s.GetSpec())}
}

func decodeServiceSpec(spec *consolev1.ServiceSpec) state.ServiceSpec {
	return state.ServiceSpec{
		Source: platform.SourceOf(spec), Ref: platform.RefOf(spec), Path: spec.GetPath(), Cluster: spec.GetCluster(), Namespace: spec.GetNamespace(),
		Sources: decodeServiceSources(spec.GetSources()),
		Include: spec.GetInclude(), Ignore: spec.GetIgnore(), Render: optionText(spec.GetRender()), Sync: optionText(spec.GetSync()),
		Project: spec.GetProject(), ConfigSets: spec.GetConfigSets(), Config: descriptor.Settings(spec.GetConfig()),
		UnpinAfter: spec.GetUnpinAfter(), Catalog: spec.GetCatalog(), ServiceAccount: spec.GetServiceAccount(),
		Tests: optionText(spec.GetTests()),
	}
}

func decodeServiceSources(in []*consolev1.ServiceSource) (out []state.ServiceSource) {
	for _, s := range in {
		out = append(out, state.ServiceSource{
			Name: s.GetName(), Source: s.GetSource(), Ref: platform.RefOfPart(s), Path: s.GetPath(), Include: s.GetInclude(), Ignore: s.GetIgnore(),
		})
	}
	return out
}

func encodeServiceSources(in []state.ServiceSource) (out []*consolev1.ServiceSource) {
	for _, s := range in {
		is := &consolev1.ServiceSource{Name: s.Name, Source: s.Source, Path: s.Path, Include: s.Include, Ignore: s.Ignore}
		platform.SetRefOfPart(is, s.Ref)
		out = append(out, is)
	}
	return out
}

func encodeServiceSpec(s state.ServiceSpec) *consolev1.ServiceSpec {
	out := &consolev1.ServiceSpec{
		Source: s.Source, Path: s.Path, Cluster: s.Cluster, Namespace: s.Namespace, Include: s.Include, Ignore: s.Ignore,
		Render: option(s.Render, &deliveryv1.RenderSpec{}), Sync: option(s.Sync, &deliveryv1.SyncSpec{}),
		Project: s.Project, ConfigSets: s.ConfigSets, Config: descriptor.ConfigSettings(s.Config),
		UnpinAfter: s.UnpinAfter, Catalog: s.Catalog, ServiceAccount: s.ServiceAccount,
		Tests: option(s.Tests, &deliveryv1.TestSpec{}), TestRequest: option(s.TestRequest, &deliveryv1.TestRequest{}),
	}
	if len(s.Sources) > 0 {
		out.Source, out.Sources = "", encodeServiceSources(s.Sources)
		return out
	}
	platform.SetRef(out, s.Ref)
	return out
}

// optionText is a part of a spec that the catalog keeps as it is; nil: unset. A message that has passed validation can
// be written. protojson varies its spacing, which does not get into the store: encoding a spec takes spaces out.
func optionText(m proto.Message) json.RawMessage {
	text, err := protojson.Marshal(m)
	if err != nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	return text
}

// option reads it back. Text that a newer console has written is read as far as this one knows it.
func option[M proto.Message](text json.RawMessage, m M) M {
	var unset M
	if text == nil || (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m) != nil {
		return unset
	}
	return m
}

func encodeService(s state.Service) *consolev1.Service {
	status := s.Status
	out := &consolev1.ServiceStatus{
		State: encodeState(status.State), StateMessage: status.Message, StateSince: descriptor.Stamp(status.Since),
		Git:     &consolev1.GitTruth{Problem: encodeProblem(status.Git.Problem)},
		Hub:     encodeHub(status.Hub),
		Cluster: &consolev1.ClusterTruth{Report: encodeReport(status.Cluster.Report), ReceiveTime: descriptor.Stamp(status.Cluster.ReceiveTime)},

		ConfigRevision: status.ConfigRevision, ConfigProblem: encodeProblem(status.ConfigProblem),
		Windows: encodeWindows(status.Windows, status.WindowFault),
	}
	if head := status.Git.Head; head != nil {
		out.Git.Revision, out.Git.FetchTime = encodeRevision(head.Revision), descriptor.Stamp(head.FetchTime)
	}
	return &consolev1.Service{Metadata: descriptor.Metadata(s.Meta), Spec: encodeServiceSpec(s.Spec), Status: out, Levers: encodeLevers(state.LeversOf(&s))}
}

func encodeState(s state.State) consolev1.ServiceState {
	switch s {
	case state.Pending:
		return consolev1.ServiceState_SERVICE_STATE_PENDING
	case state.Progressing:
		return consolev1.ServiceState_SERVICE_STATE_PROGRESSING
	case state.Healthy:
		return consolev1.ServiceState_SERVICE_STATE_HEALTHY
	case state.Degraded:
		return consolev1.ServiceState_SERVICE_STATE_DEGRADED
	case state.Failed:
		return consolev1.ServiceState_SERVICE_STATE_FAILED
	case state.Unknown:
		return consolev1.ServiceState_SERVICE_STATE_UNKNOWN
	case state.Held:
		return consolev1.ServiceState_SERVICE_STATE_HELD
	case state.Waiting:
		return consolev1.ServiceState_SERVICE_STATE_WAITING
	case state.Differs:
		return consolev1.ServiceState_SERVICE_STATE_DIFFERS
	}
	return consolev1.ServiceState_SERVICE_STATE_UNSPECIFIED
}

func decodeHub(h *consolev1.HubTruth) state.HubTruth {
	return state.HubTruth{
		Digest: h.GetDigest(), Content: h.GetContentDigest(), Revision: decodeRevision(h.GetRevision()),
		Artifact:    state.Artifact{Digest: h.GetArtifact().GetDigest(), Size: h.GetArtifact().GetSize(), Files: h.GetArtifact().GetFiles()},
		ResolveTime: descriptor.Moment(h.GetResolveTime()), Problem: decodeProblem(h.GetProblem()),
	}
}

func encodeHub(h state.HubTruth) *consolev1.HubTruth {
	out := &consolev1.HubTruth{
		Digest: h.Digest, ContentDigest: h.Content, Revision: encodeRevision(h.Revision), ResolveTime: descriptor.Stamp(h.ResolveTime), Problem: encodeProblem(h.Problem),
	}
	if h.Artifact != (state.Artifact{}) {
		out.Artifact = &artifactv1.Artifact{Digest: h.Artifact.Digest, Size: h.Artifact.Size, Files: h.Artifact.Files}
	}
	return out
}

func encodeSecret(s resource.Secret) *consolev1.Secret {
	return &consolev1.Secret{Metadata: descriptor.Metadata(s.Meta), Data: s.Data}
}

func decodeReport(r *deliveryv1.ServiceReport) state.Report {
	out := state.Report{
		Service: r.GetService(), Sequence: r.GetSequence(), Phase: decodePhase(r.GetPhase()),
		Digest: r.GetDigest(), Commit: r.GetCommit(), AppliedDigest: r.GetAppliedDigest(), AppliedCommit: r.GetAppliedCommit(),
		AppliedTime: descriptor.Moment(r.GetAppliedTime()), ObservedTime: descriptor.Moment(r.GetObservedTime()), Message: r.GetMessage(),
		ObjectsTotal: r.GetObjectsTotal(), ObjectsHealthy: r.GetObjectsHealthy(), Traceparent: r.GetTraceparent(),
		Objects: descriptor.Each(r.GetObjects(), decodeObjectReport), Guard: decodeGuard(r.GetGuard()), ObjectsDrifted: r.GetObjectsDrifted(),
		Repairs: r.GetRepairs(), RepairTime: descriptor.Moment(r.GetRepairTime()), Tests: decodeTestSummary(r.GetTests()), SyncProblem: r.GetSyncProblem(),
	}
	if r.GetRepaired() != nil {
		repaired := decodeObjectReport(r.GetRepaired())
		out.Repaired = &repaired
	}
	return out
}

func encodeReport(r *state.Report) *deliveryv1.ServiceReport {
	if r == nil {
		return nil
	}
	out := &deliveryv1.ServiceReport{
		Service: r.Service, Sequence: r.Sequence, Phase: encodePhase(r.Phase),
		Digest: r.Digest, Commit: r.Commit, AppliedDigest: r.AppliedDigest, AppliedCommit: r.AppliedCommit,
		AppliedTime: descriptor.Stamp(r.AppliedTime), ObservedTime: descriptor.Stamp(r.ObservedTime), Message: r.Message,
		ObjectsTotal: r.ObjectsTotal, ObjectsHealthy: r.ObjectsHealthy, Traceparent: r.Traceparent,
		Objects: descriptor.Each(r.Objects, encodeObjectReport), Guard: encodeGuard(r.Guard), ObjectsDrifted: r.ObjectsDrifted,
		Repairs: r.Repairs, RepairTime: descriptor.Stamp(r.RepairTime), Tests: encodeTestSummary(r.Tests), SyncProblem: r.SyncProblem,
	}
	if r.Repaired != nil {
		out.Repaired = encodeObjectReport(*r.Repaired)
	}
	return out
}

func decodeObjectReport(o *deliveryv1.ObjectReport) state.ObjectReport {
	return state.ObjectReport{
		Group: o.GetGroup(), Version: o.GetVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
		Health: o.GetHealth(), Message: o.GetMessage(), Rival: o.GetRival(), Fields: o.GetFields(),
		NextAttempt: descriptor.Moment(o.GetNextAttemptTime()), Drifted: descriptor.Moment(o.GetDriftTime()),
	}
}

func encodeObjectReport(o state.ObjectReport) *deliveryv1.ObjectReport {
	return &deliveryv1.ObjectReport{
		Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
		Health: o.Health, Message: o.Message, Rival: o.Rival, Fields: o.Fields,
		NextAttemptTime: descriptor.Stamp(o.NextAttempt), DriftTime: descriptor.Stamp(o.Drifted),
	}
}

func decodeGuard(g *deliveryv1.Guard) *state.Guard {
	if g == nil {
		return nil
	}
	return &state.Guard{
		ID: g.GetId(), Removing: g.GetRemoving(), ObjectsTotal: g.GetObjectsTotal(),
		Sample: descriptor.Each(g.GetSample(), func(o *deliveryv1.ManagedObject) state.ManagedObject {
			return state.ManagedObject{
				Group: o.GetGroup(), Version: o.GetVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
				UID: o.GetUid(), Wave: o.GetWave(), Leaving: o.GetLeaving(),
			}
		}),
	}
}

func encodeGuard(g *state.Guard) *deliveryv1.Guard {
	if g == nil {
		return nil
	}
	return &deliveryv1.Guard{
		Id: g.ID, Removing: g.Removing, ObjectsTotal: g.ObjectsTotal,
		Sample: descriptor.Each(g.Sample, func(o state.ManagedObject) *deliveryv1.ManagedObject {
			return &deliveryv1.ManagedObject{
				Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Uid: o.UID, Wave: o.Wave, Leaving: o.Leaving,
			}
		}),
	}
}

func decodePhase(p deliveryv1.Phase) state.Phase {
	switch p {
	case deliveryv1.Phase_PHASE_APPLYING:
		return state.PhaseApplying
	case deliveryv1.Phase_PHASE_PROGRESSING:
		return state.PhaseProgressing
	case deliveryv1.Phase_PHASE_HEALTHY:
		return state.PhaseHealthy
	case deliveryv1.Phase_PHASE_DEGRADED:
		return state.PhaseDegraded
	case deliveryv1.Phase_PHASE_FAILED:
		return state.PhaseFailed
	case deliveryv1.Phase_PHASE_REMOVED:
		return state.PhaseRemoved
	case deliveryv1.Phase_PHASE_HELD:
		return state.PhaseHeld
	case deliveryv1.Phase_PHASE_WAITING:
		return state.PhaseWaiting
	case deliveryv1.Phase_PHASE_DIFFERS:
		return state.PhaseDiffers
	}
	return ""
}

func encodePhase(p state.Phase) deliveryv1.Phase {
	switch p {
	case state.PhaseApplying:
		return deliveryv1.Phase_PHASE_APPLYING
	case state.PhaseProgressing:
		return deliveryv1.Phase_PHASE_PROGRESSING
	case state.PhaseHealthy:
		return deliveryv1.Phase_PHASE_HEALTHY
	case state.PhaseDegraded:
		return deliveryv1.Phase_PHASE_DEGRADED
	case state.PhaseFailed:
		return deliveryv1.Phase_PHASE_FAILED
	case state.PhaseRemoved:
		return deliveryv1.Phase_PHASE_REMOVED
	case state.PhaseHeld:
		return deliveryv1.Phase_PHASE_HELD
	case state.PhaseWaiting:
		return deliveryv1.Phase_PHASE_WAITING
	case state.PhaseDiffers:
		return deliveryv1.Phase_PHASE_DIFFERS
	}
	return deliveryv1.Phase_PHASE_UNSPECIFIED
}
