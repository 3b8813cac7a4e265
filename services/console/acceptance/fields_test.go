package acceptance

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"golang.org/x/crypto/ssh"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/keyless/keylesstest"
)

func pgpKey(t testing.TB, private bool) string {
	t.Helper()
	entity, err := openpgp.NewEntity("Ada", "", "ada@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	kind, serialize := openpgp.PublicKeyType, entity.Serialize
	if private {
		kind = openpgp.PrivateKeyType
	}
	var b strings.Builder
	w, err := armor.Encode(&b, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if private {
		err = entity.SerializePrivate(w, nil)
	} else {
		err = serialize(w)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sshKey(t testing.TB) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}

// fill sets every field of a message, at any depth: one that is added later, too. given are those that
// must be something sensible.
func fill(m protoreflect.Message, given map[protoreflect.FullName]any) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.IsMap():
			value, ok := given[fd.FullName()].(map[string]string)
			if !ok {
				continue // messages, of which each has a test of its own
			}
			for k, v := range value {
				m.Mutable(fd).Map().Set(protoreflect.ValueOfString(k).MapKey(), protoreflect.ValueOfString(v))
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			if fd.Kind() == protoreflect.MessageKind {
				fill(list.AppendMutable().Message(), given)
				continue
			}
			values, ok := given[fd.FullName()].([]string)
			if !ok {
				values = []string{"a-" + strings.ReplaceAll(string(fd.Name()), "_", "-")}
			}
			for _, v := range values {
				list.Append(protoreflect.ValueOfString(v))
			}
		case fd.Kind() == protoreflect.MessageKind:
			switch part := m.Mutable(fd).Message().Interface().(type) {
			case *durationpb.Duration:
				part.Seconds = 90
			case *timestamppb.Timestamp:
				part.Seconds = 1e9
			default:
				fill(part.ProtoReflect(), given)
			}
		case fd.Kind() == protoreflect.StringKind:
			value, ok := given[fd.FullName()].(string)
			if !ok {
				value = "a-" + strings.ReplaceAll(string(fd.Name()), "_", "-")
			}
			m.Set(fd, protoreflect.ValueOfString(value))
		case fd.Kind() == protoreflect.Int32Kind:
			m.Set(fd, protoreflect.ValueOfInt32(7))
		case fd.Kind() == protoreflect.BoolKind:
			m.Set(fd, protoreflect.ValueOfBool(true))
		case fd.Kind() == protoreflect.EnumKind:
			values := fd.Enum().Values()
			m.Set(fd, protoreflect.ValueOfEnum(values.Get(values.Len()-1).Number()))
		default:
			panic("say here how " + string(fd.FullName()) + " is filled")
		}
	}
}

const (
	verifyCosign     = consolev1.VerifyProvider_VERIFY_PROVIDER_COSIGN
	verifyProvenance = consolev1.VerifyProvider_VERIFY_PROVIDER_PROVENANCE
	verifyNotation   = consolev1.VerifyProvider_VERIFY_PROVIDER_NOTATION
	authority        = `-----BEGIN CERTIFICATE-----
MIIB/DCCAaGgAwIBAgIUK2prU1TEmWMo1wUJ2WJLLHU0XYcwCgYIKoZIzj0EAwIw
SzELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAldBMRAwDgYDVQQKDAdFeGFtcGxlMR0w
GwYDVQQDDBRFeGFtcGxlIHNpZ25pbmcgcm9vdDAeFw0yNjExMjIyMDUzNDJaFw00
NjExMTcyMDUzNDJaMEsxCzAJBgNVBAYTAlVTMQswCQYDVQQIDAJXQTEQMA4GA1UE
CgwHRXhhbXBsZTEdMBsGA1UEAwwURXhhbXBsZSBzaWduaW5nIHJvb3QwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAARhldTLShXIuHgJoUWz23yq3RlocE7DbScpQjjP
cWER7DkH9aPO+1QYglxdkBkLC5emRZTs7SaGtXDdZhDKB5oyo2MwYTAdBgNVHQ4E
FgQU+/rW/OVKhMk1Y1/427694yt4yWAwHwYDVR0jBBgwFoAU+/rW/OVKhMk1Y1/4
27694yt4yWAwDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZI
zj0EAwIDSQAwRgIhAJa01zV9FoMKw/U837sHjwO7N3x2cMqb460jewzBT9wZAiEA
xxdC1A2ORyU4DjxEh9l97/D4SFKJE98QyEuHTcr/vVE=
-----END CERTIFICATE-----
`
	cosignKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYgXNTqBkQnmvcwZwFSHRlUp7/rCw
tvzf2MUTbcqOYNqgcK1hC1MNhoA+++Yd/TGuusRwmWkvqHY4fPrjxkUguw==
-----END PUBLIC KEY-----
`
)

// Everything that can be written down is stored, and comes back by Get, List and Watch.
func TestEveryFieldIsCarried(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, gitcache := r.admin(t), r.service(t, identity.ServiceGitcache)
	spec := &consolev1.SourceSpec{}
	fill(spec.ProtoReflect(), map[protoreflect.FullName]any{
		"fairlead.console.v1.GitSource.url":    "https://git.example.com/shop",
		"fairlead.console.v1.GitSource.proxy":  "http://proxy.example.com:3128",
		"fairlead.console.v1.HelmSource.url":   "oci://registry.example.com:5000/charts",
		"fairlead.console.v1.HelmSource.proxy": "http://proxy.example.com:3128",
		"fairlead.console.v1.HelmSource.mirrors": []string{
			"mirror.example.com", "mirror.example.com:8443/docker.io",
		},
		"fairlead.console.v1.HelmSource.token_hosts":   []string{"auth.example.com", "auth.example.com:8443"},
		"fairlead.console.v1.OCISource.url":            "oci://registry.example.com/team/shop",
		"fairlead.console.v1.OCISource.proxy":          "http://proxy.example.com:3128",
		"fairlead.console.v1.OCISource.mirrors":        []string{"[::1]:8443/a/b"},
		"fairlead.console.v1.OCISource.token_hosts":    []string{"[::1]:8443"},
		"fairlead.console.v1.BucketSource.endpoint":    "s3.example.com:9000",
		"fairlead.console.v1.BucketSource.prefix":      "deploy/prod",
		"fairlead.console.v1.LayerSelector.media_type": "application/vnd.cncf.flux.content.v1.tar+gzip",
		"fairlead.console.v1.Verification.keys": []string{
			pgpKey(t, false) + "\n" + pgpKey(t, false), sshKey(t) + "# two\n" + sshKey(t),
		},
		"fairlead.console.v1.Verify.keys":               []string{cosignKey},
		"fairlead.console.v1.Verify.repository":         "registry.example.com/team/shop",
		"fairlead.console.v1.Verify.certificates":       []string{authority},
		"fairlead.console.v1.Verify.trusted_identities": []string{"*"},
		"fairlead.console.v1.Verify.trusted_root":       keylesstest.New(t).Root(),
	})
	keyless := &consolev1.Verify{
		Provider: verifyCosign, MatchOidcIdentity: spec.GetOci().GetVerify().GetMatchOidcIdentity(),
		TrustedRoot: spec.GetOci().GetVerify().GetTrustedRoot(),
	}
	for _, v := range []*consolev1.Verify{spec.GetHelm().GetVerify(), spec.GetOci().GetVerify()} {
		v.MatchOidcIdentity, v.TrustedRoot = nil, ""
	}
	spec.Helm.Verify.Provider, spec.Oci.Verify.Provider = verifyCosign, verifyNotation
	spec.Helm.Verify.Certificates, spec.Helm.Verify.TrustedIdentities = nil, nil
	spec.Oci.Verify.Keys, spec.Oci.Verify.Repository = nil, ""
	for _, name := range []string{spec.GetGit().GetSecret(), spec.GetGit().GetWebhookSecret()} {
		if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
			AllowMissing: true, Secret: &consolev1.Secret{
				Metadata: meta(name), Data: map[string]string{"token": "hunter2"},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{Metadata: meta("shop"), Spec: spec},
	})
	wantCode(t, err, connect.CodeInvalidArgument, "set exactly one of spec.git, spec.helm, spec.oci and spec.bucket")
	charts := &consolev1.SourceSpec{Helm: spec.GetHelm()}
	spec.Helm.Auth, spec.Oci.Auth = 0, 0 // which do not go with insecure
	azure := &consolev1.SourceSpec{
		Oci: &consolev1.OCISource{
			Url: "oci://team.azurecr.io/shop", Auth: consolev1.CloudAuth_CLOUD_AUTH_AZURE, Verify: keyless,
		},
	}
	kept, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{Metadata: meta("azure"), Spec: azure},
	})
	if err != nil || !proto.Equal(kept.GetSource().GetSpec(), azure) {
		t.Errorf("auth is kept as %v, %v", kept.GetSource().GetSpec(), err)
	}
	if _, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{Metadata: meta("charts"), Spec: charts},
	}); err != nil {
		t.Fatal(err)
	}
	spec.Git.ChartSources = []string{"charts"}
	artifacts := &consolev1.SourceSpec{Oci: spec.GetOci()}
	if _, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{Metadata: meta("artifacts"), Spec: artifacts},
	}); err != nil {
		t.Fatal(err)
	}
	spec.Bucket.Auth = 0
	spec.Bucket.Proxy = "http://proxy.example.com:3128"
	inBucket := &consolev1.SourceSpec{Bucket: spec.GetBucket()}
	_, err = admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{Metadata: meta("bucket"), Spec: inBucket},
	})
	wantCode(t, err, connect.CodeInvalidArgument, "spec.bucket: proxy and insecure do not go together")
	spec.Bucket.Insecure = false
	if _, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{Metadata: meta("bucket"), Spec: inBucket},
	}); err != nil {
		t.Fatal(err)
	}
	spec.Helm, spec.Oci, spec.Bucket = nil, nil, nil
	source, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{Metadata: meta("shop"), Spec: spec},
	})
	if err != nil {
		t.Fatal(err)
	}
	admin.putCluster(t, "edge-1")
	admin.putService(t, "a-depends-on", "edge-1")
	service := &consolev1.ServiceSpec{}
	fill(service.ProtoReflect(), map[protoreflect.FullName]any{
		"fairlead.console.v1.ServiceSpec.source": "shop", "fairlead.console.v1.ServiceSpec.cluster": "edge-1",
		"fairlead.console.v1.ServiceSpec.ref":        "semver:>=2.0.0 <3",
		"fairlead.delivery.v1.SyncSpec.pin":          strings.Repeat("a", 40),
		"fairlead.delivery.v1.SyncSpec.impersonate":  "shop/deployer",
		"fairlead.console.v1.ServiceSpec.include":    []string{"/deploy/**", "!*.md"},
		"fairlead.console.v1.ServiceSpec.ignore":     []string{"test/", `\#x`},
		"fairlead.console.v1.ServiceSource.source":   "shop",
		"fairlead.console.v1.ServiceSource.ref":      "semver:>=2.0.0 <3",
		"fairlead.console.v1.ServiceSource.include":  []string{"/deploy/**", "!*.md"},
		"fairlead.console.v1.ServiceSource.ignore":   []string{"test/", `\#x`},
		"fairlead.delivery.v1.IgnoreRule.pointers":   []string{"/spec/replicas"},
		"fairlead.delivery.v1.HelmSpec.values":       "a: 1",
		"fairlead.delivery.v1.HelmSpec.kube_version": "v1.36.3", "fairlead.delivery.v1.ValuesReference.kind": "Secret",
		"fairlead.delivery.v1.SyncWindow.schedule":   "0 3 * * *",
		"fairlead.delivery.v1.SyncWindow.time_zone":  "Europe/Berlin",
		"fairlead.delivery.v1.SyncWindow.overriders": []string{"group:sre"},
		"fairlead.delivery.v1.TestSpec.schedule":     "0 3 * * *",
		"fairlead.delivery.v1.TestSpec.time_zone":    "Europe/Berlin",
	})
	service.TestRequest = nil // which RunTests alone sets
	_, err = admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
		AllowMissing: true, Service: &consolev1.Service{Metadata: meta("web"), Spec: service},
	})
	wantCode(t, err, connect.CodeInvalidArgument, "set either spec.ref or spec.chart")
	service.Chart, service.Version = "", ""
	ofSeveral := &consolev1.ServiceSpec{
		Cluster: "edge-1",
		Sources: append(service.GetSources(), &consolev1.ServiceSource{
			Name: "chart", Source: "charts", Chart: "web", Version: "^1",
		}),
	}
	ofSeveral.Sources[0].Chart, ofSeveral.Sources[0].Version, service.Sources = "", "", nil
	if _, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
		AllowMissing: true, Service: &consolev1.Service{Metadata: meta("z-of-several"), Spec: ofSeveral},
	}); err != nil {
		t.Fatal(err)
	}
	_, err = admin.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{Name: "charts"})
	wantCode(t, err, connect.CodeFailedPrecondition, "z-of-several")
	ofChart := &consolev1.ServiceSpec{
		Source: "charts", Chart: "web", Version: ">=1.0.0-0 <2", Cluster: "edge-1", Path: "charts/sub",
	}
	if _, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
		AllowMissing: true, Service: &consolev1.Service{Metadata: meta("z-of-chart"), Spec: ofChart},
	}); err != nil {
		t.Fatal(err)
	}
	service.UnpinAfter = strings.Repeat("b", 40)
	_, err = admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
		AllowMissing: true, Service: &consolev1.Service{Metadata: meta("web"), Spec: service},
	})
	wantCode(t, err, connect.CodeInvalidArgument, "spec.catalog", "leave out spec.cluster")
	service.Catalog, service.ServiceAccount, service.Project = false, "", ""
	service.Config = settings{
		"text": textOf("x"), "number": {Value: &consolev1.ConfigSetting_Number{Number: 0.1}},
		"flag": {Value: &consolev1.ConfigSetting_Flag{Flag: true}},
		"json": {Value: &consolev1.ConfigSetting_Json{Json: `{"a": [1]}`}}, "ref": refTo("a-secret", "token"),
	}
	admin.must(t, newSet(service.GetConfigSets()[0], nil))
	if _, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
		AllowMissing: true, Service: &consolev1.Service{Metadata: meta("web"), Spec: service},
	}); err != nil {
		t.Fatal(err)
	}
	head := &consolev1.Head{}
	fill(head.ProtoReflect(), map[protoreflect.FullName]any{
		"fairlead.artifact.v1.Revision.commit": strings.Repeat("a", 40),
	})
	uid := source.GetSource().GetMetadata().GetUid()
	claim, err := gitcache.heads.ClaimSource(t.Context(), &consolev1.ClaimSourceRequest{
		Source: "shop", Uid: uid, Owner: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	publish := func() {
		t.Helper()
		if _, err := gitcache.heads.PublishHeads(t.Context(), &consolev1.PublishHeadsRequest{
			Source: "shop", Uid: uid, Epoch: claim.GetEpoch(), Heads: []*consolev1.Head{head},
		}); err != nil {
			t.Fatal(err)
		}
	}
	publish()

	f := newFollower()
	f.follow(t, gitcache, func() bool { return f.snapshots == 1 && !f.inside })
	one, err := admin.sources.GetSource(t.Context(), &consolev1.GetSourceRequest{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := admin.services.ListServices(t.Context(), &consolev1.ListServicesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// which RequestSync alone sets
	service.Sync.RequestTime, service.Sync.RequestOverride, service.Sync.RequestOverrides, service.Sync.RequestOnly = nil, false, nil, nil
	for _, c := range []struct{ got, want proto.Message }{
		{one.GetSource().GetSpec(), spec},
		{f.sources["shop"].GetSpec(), spec},
		{f.sources["charts"].GetSpec(), charts},
		{f.sources["bucket"].GetSpec(), inBucket},
		{all.GetServices()[2].GetSpec(), ofChart},
		{f.services["z-of-chart"].GetSpec(), ofChart},
		{all.GetServices()[3].GetSpec(), ofSeveral},
		{f.services["z-of-several"].GetSpec(), ofSeveral},
		{all.GetServices()[1].GetSpec(), service},
		{f.services["web"].GetSpec(), withoutConfig(service)},
		{one.GetSource().GetStatus().GetHeads()[0], head},
		{f.sources["shop"].GetStatus().GetHeads()[0], head},
	} {
		if !proto.Equal(c.got, c.want) {
			t.Errorf("got %v\nwant %v", c.got, c.want)
		}
	}

	// A tag that moves to a better name, or a key that came later, is news of the same commit.
	head.ResolvedRef, head.SignedBy = "refs/tags/v2.0.1", "SHA256:other"
	publish()
	if one, err = admin.sources.GetSource(t.Context(), &consolev1.GetSourceRequest{Name: "shop"}); err != nil ||
		!proto.Equal(one.GetSource().GetStatus().GetHeads()[0], head) {
		t.Errorf("got %v, %v", one, err)
	}
}

// withoutConfig is what followers are told: values come to clusters another way.
func withoutConfig(s *consolev1.ServiceSpec) *consolev1.ServiceSpec {
	out := proto.CloneOf(s)
	out.ConfigSets, out.Config = nil, nil
	return out
}

func TestBadFieldsOfSourcesAndServicesAreNamed(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	pgp := pgpKey(t, false)
	const repo = "https://git.example.com/x"
	keys := func(keys ...string) *consolev1.GitSource {
		return &consolev1.GitSource{Url: repo, Verification: &consolev1.Verification{Keys: keys}}
	}
	for name, c := range map[string]struct {
		git   *consolev1.GitSource
		words []string
	}{
		"ssh password": {
			&consolev1.GitSource{Url: "ssh://git:hunter2@git.example.com/x"}, []string{"spec.git.url", "password"},
		},
		"proxy scheme": {
			&consolev1.GitSource{Url: repo, Proxy: "socks5://proxy"}, []string{"spec.git.proxy", "http://"},
		},
		"proxy password": {
			&consolev1.GitSource{Url: repo, Proxy: "http://ada:hunter2@proxy:3128"},
			[]string{"spec.git.proxy", "proxyUsername"},
		},
		"proxy of ssh": {
			&consolev1.GitSource{Url: "git@git.example.com:x", Proxy: "http://proxy:3128"},
			[]string{"spec.git.proxy", "ssh"},
		},
		"webhook secret": {&consolev1.GitSource{Url: repo, WebhookSecret: "No"}, []string{"spec.git.webhookSecret"}},
		"no keys":        {keys(), []string{"keys"}},
		"no key": {
			keys("hunter2"),
			[]string{"spec.git.verification.keys[0]", "neither an OpenPGP public key", "nor an SSH public key"},
		},
		"only a comment": {keys("# hunter2"), []string{"keys[0]", "holds no key"}},
		"second is bad":  {keys(sshKey(t), "ssh-ed25519 hunter2"), []string{"keys[1]"}},
		"bad line":       {keys(sshKey(t) + "hunter2\n"), []string{"keys[0]"}},
		"damaged OpenPGP": {
			keys(pgp[:len(pgp)/2] + "\n-----END PGP PUBLIC KEY BLOCK-----\n"), []string{"keys[0]", "damaged"},
		},
		"private OpenPGP": {keys(pgpKey(t, true)), []string{"keys[0]", "private key"}},
		"private SSH": {
			keys("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----"),
			[]string{"keys[0]", "private key"},
		},
		"mode of tomorrow": {
			&consolev1.GitSource{Url: repo, Verification: &consolev1.Verification{Keys: []string{pgp}, Mode: 99}},
			[]string{"mode"},
		},
	} {
		_, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
			AllowMissing: true, Source: &consolev1.Source{
				Metadata: meta("bad"), Spec: &consolev1.SourceSpec{Git: c.git},
			},
		})
		if err == nil {
			t.Errorf("%s: was taken", name)
			continue
		}
		wantCode(t, err, connect.CodeInvalidArgument, c.words...)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error gives away what was written: %v", name, err)
		}
	}
	for word, helm := range map[string]*consolev1.HelmSource{
		"spec.helm.url: begins with http://": {Url: "http://charts.example.com"},
		"spec.helm.url: must begin with":     {Url: "ftp://charts.example.com/x"},
		"are for registries":                 {Url: "https://charts.example.com", Insecure: true},
		"names a repository that no":         {Url: "oci://charts.example.com/Team"},
		"spec.helm.mirrors": {
			Url: "oci://charts.example.com/x", Mirrors: []string{"https://mirror.example.com"},
		},
		"spec.helm.tokenHosts": {
			Url: "oci://charts.example.com/x", TokenHosts: []string{"https://auth.example.com"},
		},
		"must not hold a user or password": {Url: "https://ada:hunter2@charts.example.com"},
		"has a query":                      {Url: "https://charts.example.com?token=hunter2"},
		"spec.helm.proxy": {
			Url: "https://charts.example.com", Proxy: "socks5://ada:hunter2@proxy",
		},
		"spec.helm.secret":        {Url: "https://charts.example.com", Secret: "Hunter2"},
		"spec.helm.webhookSecret": {Url: "https://charts.example.com", WebhookSecret: "Hunter2"},
		"for this url it is provenance": {
			Url:    "https://charts.example.com",
			Verify: &consolev1.Verify{Provider: verifyCosign, Keys: []string{cosignKey}},
		},
		"value must be one of the defined": {
			Url: "oci://charts.example.com/x", Verify: &consolev1.Verify{Keys: []string{cosignKey}, Provider: 99},
		},
		"spec.helm.verify.keys[0]: is not an OpenPGP": {
			Url:    "https://charts.example.com",
			Verify: &consolev1.Verify{Provider: verifyProvenance, Keys: []string{cosignKey}},
		},
		"verify.repository: is for cosign": {
			Url: "https://charts.example.com",
			Verify: &consolev1.Verify{
				Provider: verifyProvenance, Keys: []string{pgp}, Repository: "registry.example.com/x",
			},
		},
	} {
		_, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
			AllowMissing: true,
			Source:       &consolev1.Source{Metadata: meta("bad"), Spec: &consolev1.SourceSpec{Helm: helm}},
		})
		wantCode(t, err, connect.CodeInvalidArgument, word)
		if strings.Contains(strings.ToLower(err.Error()), "hunter2") {
			t.Errorf("%s: the error gives away what was written: %v", word, err)
		}
	}
	for word, oci := range map[string]*consolev1.OCISource{
		"spec.oci.url: must begin with oci://": {Url: "https://registry.example.com/x"},
		"spec.oci.auth: goes to hosts of its": {
			Url: "oci://gcr.io/x/y", Auth: consolev1.CloudAuth_CLOUD_AUTH_GCP, TokenHosts: []string{"gcr.io"},
		},
		"spec.oci.auth: goes to verified": {
			Url: "oci://registry.example.com/x", Auth: consolev1.CloudAuth_CLOUD_AUTH_GCP, InsecureSkipTlsVerify: true,
		},
		"spec.oci.url: names no repository": {Url: "oci://registry.example.com"},
		"Tags and digests belong":           {Url: "oci://registry.example.com/x:1"},
		"must not hold a user or password":  {Url: "oci://ada:hunter2@registry.example.com/x"},
		"spec.oci.layerSelector.mediaType": {
			Url: "oci://registry.example.com/x", LayerSelector: &consolev1.LayerSelector{MediaType: "tar"},
		},
		"spec.oci.webhookSecret": {Url: "oci://registry.example.com/x", WebhookSecret: "Hunter2"},
		"for this url it is cosign": {
			Url:    "oci://registry.example.com/x",
			Verify: &consolev1.Verify{Provider: verifyProvenance, Keys: []string{cosignKey}},
		},
		"spec.oci.verify.keys: name at least": {
			Url: "oci://registry.example.com/x", Verify: &consolev1.Verify{Provider: verifyCosign},
		},
		"spec.oci.verify.keys[1]: is not one": {
			Url:    "oci://registry.example.com/x",
			Verify: &consolev1.Verify{Provider: verifyCosign, Keys: []string{cosignKey, "hunter2"}},
		},
		"spec.oci.verify.keys[0]: is a priv": {
			Url: "oci://registry.example.com/x",
			Verify: &consolev1.Verify{
				Provider: verifyCosign, Keys: []string{"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nhunter2"},
			},
		},
		"spec.oci.verify.repository": {
			Url: "oci://registry.example.com/x",
			Verify: &consolev1.Verify{
				Provider: verifyCosign, Keys: []string{cosignKey}, Repository: "https://hunter2.example.com/x",
			},
		},
	} {
		_, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
			AllowMissing: true, Source: &consolev1.Source{Metadata: meta("bad"), Spec: &consolev1.SourceSpec{Oci: oci}},
		})
		wantCode(t, err, connect.CodeInvalidArgument, word)
		if strings.Contains(strings.ToLower(err.Error()), "hunter2") {
			t.Errorf("%s: the error gives away what was written: %v", word, err)
		}
	}
	for word, bucket := range map[string]*consolev1.BucketSource{
		"spec.bucket.auth: is aws or gcp": {
			Endpoint: "s3.example.com", BucketName: "shop", Auth: consolev1.CloudAuth_CLOUD_AUTH_AZURE,
		},
		"spec.bucket.auth: goes to verified": {
			Endpoint: "s3.example.com", BucketName: "shop", Auth: consolev1.CloudAuth_CLOUD_AUTH_AWS, Insecure: true,
		},
		"spec.bucket.endpoint: must be a host":    {Endpoint: "https://s3.example.com", BucketName: "shop"},
		"without https://":                        {Endpoint: "ada:hunter2@s3.example.com", BucketName: "shop"},
		"spec.bucket.bucketName: is not a name":   {Endpoint: "s3.example.com", BucketName: "shop/hunter2"},
		"spec.bucket.region":                      {Endpoint: "s3.example.com", BucketName: "shop", Region: "eu/west"},
		"write the folder as \"deploy\"":          {Endpoint: "s3.example.com", BucketName: "shop", Prefix: "deploy/"},
		"spec.bucket.prefix \"a/../b\": must not": {Endpoint: "s3.example.com", BucketName: "shop", Prefix: "a/../b"},
		"spec.bucket.secret":                      {Endpoint: "s3.example.com", BucketName: "shop", Secret: "Hunter2"},
		"spec.bucket.proxy": {
			Endpoint: "s3.example.com", BucketName: "shop", Proxy: "http://ada:hunter2@proxy",
		},
	} {
		_, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
			AllowMissing: true,
			Source:       &consolev1.Source{Metadata: meta("bad"), Spec: &consolev1.SourceSpec{Bucket: bucket}},
		})
		wantCode(t, err, connect.CodeInvalidArgument, word)
		if strings.Contains(strings.ToLower(err.Error()), "hunter2") {
			t.Errorf("%s: the error gives away what was written: %v", word, err)
		}
	}
	root, identities := keylesstest.New(t).Root(), []*consolev1.OIDCIdentity{{Issuer: "x", Subject: "y"}}
	for word, verify := range map[string]*consolev1.Verify{
		"certificates: name at least one": {TrustedIdentities: []string{"*"}},
		"trustedIdentities: name who may": {Certificates: []string{authority}},
		"are not for notation": {
			Certificates: []string{authority}, TrustedIdentities: []string{"*"}, Keys: []string{cosignKey},
		},
		"certificates[1]: is not one": {
			Certificates: []string{authority, "hunter2"}, TrustedIdentities: []string{"*"},
		},
		"certificates[0]: holds a private key": {
			Certificates: []string{"-----BEGIN PRIVATE KEY-----\nhunter2"}, TrustedIdentities: []string{"*"},
		},
		"trustedIdentities[0]: must name C, ST": {
			Certificates: []string{authority}, TrustedIdentities: []string{"x509.subject: O=x"},
		},
		"are for notation only":           {Provider: verifyCosign, Keys: []string{cosignKey}, Certificates: []string{authority}},
		"matchOIDCIdentity: name who may": {Provider: verifyCosign, TrustedRoot: root},
		"trustedRoot: write what":         {Provider: verifyCosign, MatchOidcIdentity: identities},
		"trustedRoot: is not JSON": {
			Provider: verifyCosign, MatchOidcIdentity: identities, TrustedRoot: "hunter2",
		},
		"do not go together": {
			Provider: verifyCosign, MatchOidcIdentity: identities, TrustedRoot: root, Keys: []string{cosignKey},
		},
		"trustedRoot are for cosign only": {MatchOidcIdentity: identities, TrustedRoot: root},
		"matchOIDCIdentity[0]: has a subject": {
			Provider: verifyCosign, TrustedRoot: root,
			MatchOidcIdentity: []*consolev1.OIDCIdentity{{Issuer: "x", Subject: "(hunter2"}},
		},
	} {
		if verify.Provider == 0 {
			verify.Provider = verifyNotation
		}
		_, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
			AllowMissing: true, Source: &consolev1.Source{
				Metadata: meta("bad"), Spec: &consolev1.SourceSpec{
					Oci: &consolev1.OCISource{Url: "oci://registry.example.com/x", Verify: verify},
				},
			},
		})
		wantCode(t, err, connect.CodeInvalidArgument, "spec.oci.verify", word)
		if strings.Contains(strings.ToLower(err.Error()), "hunter2") {
			t.Errorf("%s: the error gives away what was written: %v", word, err)
		}
	}
	for word, change := range map[string]func(*consolev1.ServiceSpec){
		"is not a tag of a registry":    func(s *consolev1.ServiceSpec) { s.Ref = "tag:a/b" },
		"is not a digest":               func(s *consolev1.ServiceSpec) { s.Ref = "sha256:abc" },
		"spec.chart":                    func(s *consolev1.ServiceSpec) { s.Chart = "../x" },
		"spec.version":                  func(s *consolev1.ServiceSpec) { s.Chart, s.Version = "web", "newest" },
		"spec.version goes with":        func(s *consolev1.ServiceSpec) { s.Version = "1" },
		"neither a version nor a range": func(s *consolev1.ServiceSpec) { s.Chart, s.Version = "web", " " },
		"is not a name of a chart":      func(s *consolev1.ServiceSpec) { s.Ref = "chart:../x@1" },
		"spec.ref":                      func(s *consolev1.ServiceSpec) { s.Ref = "semver:newest" },
		"spec.include[1]":               func(s *consolev1.ServiceSpec) { s.Include = []string{"a", "  "} },
		"is a comment":                  func(s *consolev1.ServiceSpec) { s.Ignore = []string{"#a"} },
		"control characters":            func(s *consolev1.ServiceSpec) { s.Ignore = []string{"a\nb"} },
		"is not a range":                func(s *consolev1.ServiceSpec) { s.Ref = "semver:" },
		"semver:^1.4, semver":           func(s *consolev1.ServiceSpec) { s.Ref = "semver:^1.4 ||" },
	} {
		spec := &consolev1.ServiceSpec{Source: "shop", Cluster: "edge-1"}
		change(spec)
		_, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			AllowMissing: true, Service: &consolev1.Service{Metadata: meta("bad"), Spec: spec},
		})
		wantCode(t, err, connect.CodeInvalidArgument, word)
	}
}

func TestWebhookSecretsExistAndStay(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	put := func(secret, webhook string) error {
		_, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
			AllowMissing: true, Source: &consolev1.Source{
				Metadata: meta("shop"), Spec: &consolev1.SourceSpec{
					Git: &consolev1.GitSource{Url: "git@git.example.com:shop", Secret: secret, WebhookSecret: webhook},
				},
			},
		})
		return err
	}
	wantCode(t, put("", "hook"), connect.CodeFailedPrecondition,
		`source "shop": spec.git.webhookSecret: secret "hook" does not exist: create it first`)
	if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
		AllowMissing: true, Secret: &consolev1.Secret{
			Metadata: meta("hook"), Data: map[string]string{"token": "hunter2"},
		},
	}); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"", "hook"} { // one secret may be both
		if err := put(secret, "hook"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := admin.secrets.DeleteSecret(t.Context(), &consolev1.DeleteSecretRequest{Name: "hook"})
	wantCode(t, err, connect.CodeFailedPrecondition, `source "shop"`)
}
