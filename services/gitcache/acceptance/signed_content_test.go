package acceptance

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/charttest"
	"fairlead.dev/platform/keyless/keylesstest"
	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/registrytest"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/signed/signedtest"
)

const (
	payloadType = "application/vnd.dev.cosign.simplesigning.v1+json"
	bundleType  = "application/vnd.dev.sigstore.bundle.v0.3+json"
	indexType   = "application/vnd.oci.image.index.v1+json"
	provType    = "application/vnd.cncf.helm.chart.provenance.v1.prov"
	chartType   = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// cosigner signs as cosign does.
type cosigner struct {
	t                   *testing.T
	key                 crypto.Signer
	public, fingerprint string
}

func newCosigner(t *testing.T, kind string) *cosigner {
	t.Helper()
	s := &cosigner{t: t}
	var err error
	switch kind {
	case "ecdsa":
		s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		s.key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ed25519":
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	s.public = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	s.fingerprint = digestOf(der)
	return s
}

func (s *cosigner) sign(message []byte) string {
	s.t.Helper()
	sum := sha256.Sum256(message)
	input, options := sum[:], crypto.SignerOpts(crypto.SHA256)
	if _, is := s.key.(ed25519.PrivateKey); is {
		input, options = message, crypto.Hash(0)
	}
	sig, err := s.key.Sign(rand.Reader, input, options)
	if err != nil {
		s.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sig)
}

// payload says that an artifact of a repository is signed.
func payload(repository, digest string) []byte {
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, repository, digest)
}

func toJSON(is any) []byte {
	text, err := json.Marshal(is)
	if err != nil {
		panic(err)
	}
	return text
}

// signatures is the manifest of signatures of payloads, with the signature of each.
func signatures(payloads [][]byte, signed []string) []byte {
	layers := make([]any, len(payloads))
	for i, p := range payloads {
		layers[i] = map[string]any{
			"mediaType": payloadType, "digest": digestOf(p), "size": len(p),
			"annotations": map[string]string{"dev.cosignproject.cosign/signature": signed[i]},
		}
	}
	config := map[string]any{
		"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digestOf([]byte("{}")),
		"size": 2,
	}
	return toJSON(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": layers})
}

func signatureTag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

// cosign signs an artifact in its repository.
func (f *registryFixture) cosign(s *cosigner, repository, digest string) {
	f.t.Helper()
	p := payload(f.registry.Host+"/"+repository, digest)
	f.registry.PushManifest(f.t, repository, signatureTag(digest), manifestType,
		signatures([][]byte{p}, []string{s.sign(p)}), p, []byte("{}"))
}

// bundle is what cosign 3 makes of a signature.
func (s *cosigner) bundle(digest, predicate string) []byte {
	statement := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`, strings.TrimPrefix(digest, "sha256:"), predicate)
	const kind = "application/vnd.in-toto+json"
	return toJSON(map[string]any{
		"mediaType":            bundleType,
		"verificationMaterial": map[string]any{"publicKey": map[string]string{"hint": "x"}},
		"dsseEnvelope": map[string]any{
			"payload": statement, "payloadType": kind,
			"signatures": []any{map[string]string{"sig": s.sign(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(statement), statement))}},
		},
	})
}

const signPredicate = "https://sigstore.dev/cosign/sign/v1"

// bundleManifest holds a bundle of an artifact.
func bundleManifest(bundle []byte) []byte {
	empty := map[string]any{
		"mediaType": "application/vnd.oci.empty.v1+json", "digest": digestOf([]byte("{}")),
		"size": 2,
	}
	layer := map[string]any{"mediaType": bundleType, "digest": digestOf(bundle), "size": len(bundle)}
	return toJSON(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "artifactType": bundleType,
		"config": empty, "layers": []any{layer},
	})
}

// referrers is a list of what refers to an artifact.
func referrers(artifactType string, manifests ...[]byte) []byte {
	list := []any{}
	for _, m := range manifests {
		entry := map[string]any{"mediaType": manifestType, "digest": digestOf(m), "size": len(m)}
		if artifactType != "" {
			entry["artifactType"] = artifactType
		}
		list = append(list, entry)
	}
	return toJSON(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": list})
}

func cosignKeys(keys ...string) *consolev1.Verify {
	return &consolev1.Verify{Provider: consolev1.VerifyProvider_VERIFY_PROVIDER_COSIGN, Keys: keys}
}

func provenanceKeys(keys ...string) *consolev1.Verify {
	return &consolev1.Verify{Provider: consolev1.VerifyProvider_VERIFY_PROVIDER_PROVENANCE, Keys: keys}
}

// signedBy waits until a head is published as what begins so, and signed by a key.
func (f *registryFixture) signedBy(ref, want, fingerprint string) {
	f.t.Helper()
	if is := f.resolved(ref, want); is.GetSignedBy() != fingerprint {
		f.t.Errorf("%s is signed by %q, and not by %q", ref, is.GetSignedBy(), fingerprint)
	}
}

// TestOnlySignedArtifactsArePublished with cosign's keys of all kinds, in both forms.
func TestOnlySignedArtifactsArePublished(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ecdsa", "rsa", "ed25519"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ada, eve := newCosigner(t, kind), newCosigner(t, kind)
			f := newRegistry(t, "-auth", "basic")
			push := func(text string) string {
				return f.registry.OrasPush(t, "team/shop:1.0.0", fluxConfig, registrytest.File{
					Name:      "shop.tgz",
					MediaType: fluxContent, Content: tgz(map[string]string{"a": text}),
				})
			}
			unsigned := push("unsigned")
			f.console.setService("web", "tag:1.0.0")
			f.artifacts(&consolev1.OCISource{Secret: "login", Verify: cosignKeys(ada.public)})
			dir := t.TempDir()
			n := f.start(dir, nil)
			f.problem("1.0.0 (sha256:", `service "web" is not signed`, "Nothing of it is published", "Sign it")
			if heads := f.console.status().GetHeads(); len(heads) != 0 {
				t.Fatalf("published %v", heads)
			}
			if got := f.registry.Count(t, "GET /v2/team/shop/blobs/"); got != 0 {
				t.Errorf("%d blobs of something unsigned were downloaded", got)
			}

			// A signature comes after its artifact.
			f.cosign(ada, "team/shop", unsigned)
			n.refresh()
			f.signedBy("tag:1.0.0", "tag:1.0.0@"+unsigned, ada.fingerprint)
			f.problem()
			if got := f.polledCosts(n); len(got) != 1 || !strings.HasPrefix(got[0], "HEAD ") {
				t.Errorf("a poll without news asked for\n%s", strings.Join(got, "\n"))
			}

			strange := push("by somebody else")
			f.cosign(eve, "team/shop", strange)
			n.refresh()
			f.problem("by none of the source's verification keys", "stays published")
			f.signedBy("tag:1.0.0", "tag:1.0.0@"+unsigned, ada.fingerprint)
			if files := n.filesOf("tag:1.0.0", ""); files["a"] != "unsigned" {
				t.Errorf("served %v", files)
			}

			// A restart does not forget what may be published.
			n.stop()
			n = f.start(dir, nil)
			n.polled()
			f.problem("by none of the source's verification keys")
			f.signedBy("tag:1.0.0", "tag:1.0.0@"+unsigned, ada.fingerprint)

			f.artifacts(&consolev1.OCISource{Secret: "login", Verify: cosignKeys(ada.public, eve.public)})
			f.signedBy("tag:1.0.0", "tag:1.0.0@"+strange, eve.fingerprint)
			f.problem()

			// A bundle, at a registry without the API for referrers and with a list that names no types.
			bundled := push("bundled")
			bundle := ada.bundle(bundled, signPredicate)
			manifest := bundleManifest(bundle)
			f.registry.PushManifest(t, "team/shop", digestOf(manifest), manifestType, manifest, bundle, []byte("{}"))
			f.registry.PushManifest(t, "team/shop", strings.Replace(bundled, ":", "-", 1), indexType,
				referrers("", manifest))
			n.refresh()
			f.signedBy("tag:1.0.0", "tag:1.0.0@"+bundled, ada.fingerprint)
			f.problem()
		})
	}
}

// notarize signs an artifact as notation does, where a registry has no API for referrers.
func (f *registryFixture) notarize(repository, digest string, envelopes ...[]byte) {
	f.t.Helper()
	var manifests [][]byte
	for _, e := range envelopes {
		m := notationManifest("application/jose+json", e)
		f.registry.PushManifest(f.t, repository, digestOf(m), manifestType, m, e, []byte("{}"))
		manifests = append(manifests, m)
	}
	list := referrers(notationType, manifests...)
	f.registry.PushManifest(f.t, repository, strings.Replace(digest, ":", "-", 1), indexType, list)
}

const notationType = "application/vnd.cncf.notary.signature"

// notationManifest holds a signature of notation.
func notationManifest(kind string, envelope []byte) []byte {
	none := map[string]any{"mediaType": notationType, "digest": digestOf([]byte("{}")), "size": 2}
	layer := map[string]any{"mediaType": kind, "digest": digestOf(envelope), "size": len(envelope)}
	return toJSON(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": none, "layers": []any{layer}})
}

// TestOnlyArtifactsSignedByNotationArePublished by an authority and identity of the source, in a registry with the API
// for referrers and without.
func TestOnlyArtifactsSignedByNotationArePublished(t *testing.T) {
	t.Parallel()
	root := signedtest.Authority(t, "root")
	ada, eve := root.Signer(t, "P-256", "Build", "ada", nil), root.Signer(t, "P-256", "Sales", "eve", nil)
	policy := func(identities ...string) *consolev1.Verify {
		return &consolev1.Verify{
			Provider: consolev1.VerifyProvider_VERIFY_PROVIDER_NOTATION, Certificates: []string{root.PEM()},
			TrustedIdentities: identities,
		}
	}
	const builders, sellers = "x509.subject: C=US, ST=WA, O=Build", "x509.subject: C=US, ST=WA, O=Sales"
	f := newRegistry(t, "-auth", "basic")
	push := func(text string) string {
		return f.registry.OrasPush(t, "team/shop:1.0.0", fluxConfig, registrytest.File{
			Name: "shop.tgz", MediaType: fluxContent, Content: tgz(map[string]string{"a": text}),
		})
	}
	first := push("first")
	f.console.setService("web", "tag:1.0.0")
	f.artifacts(&consolev1.OCISource{Secret: "login", Verify: policy(builders)})
	n := f.one()
	f.problem("1.0.0 (sha256:", `service "web" is not signed`, "Nothing of it is published",
		"as one of its trusted identities")
	if got := f.registry.Count(t, "GET /v2/team/shop/blobs/"); got != 0 {
		t.Errorf("%d blobs of something unsigned were downloaded", got)
	}
	f.notarize("team/shop", first, eve.Envelope(t, first), ada.Envelope(t, first))
	n.refresh()
	by := f.resolved("tag:1.0.0", "tag:1.0.0@"+first).GetSignedBy()
	if !strings.HasPrefix(by, "C=US, ST=WA, O=Build, CN=ada (authority sha256:") {
		t.Errorf("signed by %q", by)
	}
	f.problem()
	if got := f.polledCosts(n); len(got) != 1 || !strings.HasPrefix(got[0], "HEAD ") {
		t.Errorf("a poll without news asked for\n%s", strings.Join(got, "\n"))
	}

	second := push("second")
	f.notarize("team/shop", second, eve.Envelope(t, second))
	n.refresh()
	f.problem("none of the source's trusted identities", "stays published")
	f.artifacts(&consolev1.OCISource{Secret: "login", Verify: policy(builders, sellers)})
	f.resolved("tag:1.0.0", "tag:1.0.0@"+second)
	f.problem()

	third := push("third")
	envelope := ada.COSE(t, third)
	cose := notationManifest("application/cose", envelope)
	f.registry.PushManifest(t, "team/shop", digestOf(cose), manifestType, cose, envelope, []byte("{}"))
	f.registry.PushManifest(t, "team/shop", strings.Replace(third, ":", "-", 1), indexType,
		referrers(notationType, cose))
	n.refresh()
	if by := f.resolved("tag:1.0.0", "tag:1.0.0@"+third).GetSignedBy(); !strings.HasPrefix(by, "C=US, ST=WA, O=Build, CN=ada (authority sha256:") {
		t.Errorf("signed in COSE by %q", by)
	}
	f.problem()
}

// TestSignaturesOfOtherThingsAreRefused: each has its words at the source, and nothing of it is published.
func TestSignaturesOfOtherThingsAreRefused(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a commit for each kind of signature")
	ada := newCosigner(t, "ecdsa")
	f, l := newLiarFixture(t)
	host := strings.TrimPrefix(l.URL, "http://")
	spec := func(v *consolev1.Verify) {
		f.setSpec(&consolev1.SourceSpec{Oci: &consolev1.OCISource{
			Url:      "oci://" + host + "/team/shop",
			Interval: durationpb.New(seldom), Insecure: true, Verify: v,
		}})
	}
	put := func(tag, kind string, manifest []byte, blobs ...[]byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tags[tag], l.tags[digestOf(manifest)] = tagged{manifest, kind}, tagged{manifest, kind}
		for _, b := range blobs {
			l.blobs[digestOf(b)] = b
		}
	}
	digestOfTag := func(tag string) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return digestOf(l.tags[tag].manifest)
	}
	sign := func(tag string, payloads ...[]byte) {
		signed := make([]string, len(payloads))
		for i, p := range payloads {
			signed[i] = ada.sign(p)
		}
		put(signatureTag(digestOfTag(tag)), manifestType, signatures(payloads, signed), payloads...)
	}
	good := digestOfTag("good")
	sign("good", payload(host+"/team/shop", good))
	spec(cosignKeys(ada.public))
	n := f.one()
	f.signedBy("tag:good", "tag:good@"+good, ada.fingerprint)
	f.problem()

	cases := map[string]struct {
		make  func(digest string)
		words []string
	}{
		"another-digest":     {func(string) { sign("bad", payload(host+"/team/shop", good)) }, []string{"for another artifact, " + good}},
		"another-repository": {func(d string) { sign("bad", payload(host+"/team/other", d)) }, []string{`for the repository "` + host + `/team/other"`}},
		"another-kind":       {func(string) { sign("bad", []byte(`{"critical": {"type": "atomic container signature"}}`)) }, []string{"not for an artifact"}},
		"changed-payload": {func(d string) {
			p := payload(host+"/team/shop", d)
			put(signatureTag(d), manifestType, signatures([][]byte{p}, []string{ada.sign([]byte("something else"))}), p)
		}, []string{"by none of the source's verification keys, or does not fit"}},
		"not-base64": {func(d string) {
			p := payload(host+"/team/shop", d)
			put(signatureTag(d), manifestType, signatures([][]byte{p}, []string{"%%%"}), p)
		}, []string{"not base64"}},
		"huge": {func(d string) {
			p := []byte(strings.Repeat("x", 300<<10))
			put(signatureTag(d), manifestType, signatures([][]byte{p}, []string{ada.sign(p)}), p)
		}, []string{"has 307200 bytes, and the limit is 256 KiB"}},
		"endless": {func(d string) {
			p := payload(host+"/team/shop", d)
			payloads, signed := make([][]byte, 40), make([]string, 40)
			for i := range payloads {
				payloads[i], signed[i] = p, "%%%"
			}
			put(signatureTag(d), manifestType, signatures(payloads, signed), p)
		}, []string{"more than the limit of 32 signatures"}},
		"lied-payload": {func(d string) {
			p := payload(host+"/team/shop", d)
			put(signatureTag(d), manifestType, signatures([][]byte{p}, []string{ada.sign(p)}), p)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.blobs[digestOf(p)] = []byte(strings.ToUpper(string(p)))
		}, []string{"came with the digest"}},
		"no-json": {func(d string) { put(signatureTag(d), manifestType, []byte("no json")) }, []string{"not JSON that can be read"}},
		"attestation": {func(d string) {
			bundle := ada.bundle(d, "https://spdx.dev/Document")
			manifest := bundleManifest(bundle)
			put(strings.Replace(d, ":", "-", 1), indexType, referrers(bundleType, manifest), bundle)
			put("x", manifestType, manifest)
		}, []string{"a statement by key " + ada.fingerprint + " of another kind (https://spdx.dev/Document)"}},
		"bundle-of-another": {func(d string) {
			bundle := ada.bundle(good, signPredicate)
			manifest := bundleManifest(bundle)
			put(strings.Replace(d, ":", "-", 1), indexType, referrers(bundleType, manifest), bundle)
			put("x", manifestType, manifest)
		}, []string{"for another artifact"}},
	}
	for name, is := range cases {
		l.push("bad", tgz(map[string]string{"a": name}), nil)
		is.make(digestOfTag("bad"))
		f.console.setService("bad", "tag:bad")
		n.refresh()
		f.problem(append([]string{"bad (sha256:", "service \"bad\"", "Nothing of it is published"}, is.words...)...)
		if head := headOf(f.console.status(), "tag:bad"); head != nil {
			t.Errorf("%s: published %v", name, head)
		}
		f.console.setService("bad", "tag:good")
		n.polled()
	}

	// A good signature counts among old ones, huge ones and damaged ones, if it is among the last.
	l.push("many", tgz(map[string]string{"a": "many"}), nil)
	many := digestOfTag("many")
	huge, lost, last := []byte(strings.Repeat("x", 300<<10)), []byte("lost"), payload(host+"/team/shop", many)
	payloads, signed := [][]byte{huge, lost}, []string{"%%%", "%%%"}
	for range 40 {
		payloads, signed = append(payloads, last), append(signed, "%%%")
	}
	payloads, signed = append(payloads, huge, lost, last), append(signed, "%%%", "%%%", ada.sign(last))
	put(signatureTag(many), manifestType, signatures(payloads, signed), huge, last)
	f.console.setService("many", "tag:many")
	n.refresh()
	f.signedBy("tag:many", "tag:many@"+many, ada.fingerprint)

	// A registry that wants to be left alone for a while says nothing of signatures: what is published stays.
	l.push("good", tgz(map[string]string{"a": "moved"}), nil)
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	n.refresh()
	f.problem("429")
	f.signedBy("tag:good", "tag:good@"+good, ada.fingerprint)
	l.setFault(nil)

	// The tag moves between the check and the download: what was checked is published.
	checked := digestOfTag("good")
	moved := tgz(map[string]string{"a": "moved in between"})
	sign("good", payload(host+"/team/shop", checked))
	l.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".sig") {
			l.push("good", moved, nil)
		}
		return false
	})
	n.refresh()
	f.signedBy("tag:good", "tag:good@"+checked, ada.fingerprint)
	if files := n.filesOf("tag:good", ""); files["a"] != "moved" {
		t.Errorf("served %v", files)
	}
	l.setFault(nil)
}

// TestSignaturesOfACopiedRepositoryNameTheOriginal and count where the source says so.
func TestSignaturesOfACopiedRepositoryNameTheOriginal(t *testing.T) {
	t.Parallel()
	ada := newCosigner(t, "ecdsa")
	f := newRegistry(t, "-auth", "basic")
	digest := f.registry.HelmPush(t, chartTag+"1.0.0", charttest.Package("web", "1.0.0", template("one")))
	p := payload("index.docker.io/team/charts/web:1.0.0", digest)
	f.registry.PushManifest(t, "team/charts/web", signatureTag(digest), manifestType,
		signatures([][]byte{p}, []string{ada.sign(p)}), p, []byte("{}"))
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	verify := cosignKeys(ada.public)
	f.charts(&consolev1.HelmSource{Secret: "login", Verify: verify})
	f.one()
	f.problem(`for the repository "index.docker.io/team/charts/web:1.0.0", and not for "` + f.registry.Host +
		`/team/charts/web"`)
	copied := cosignKeys(ada.public)
	copied.Repository = "docker.io/team/charts"
	f.charts(&consolev1.HelmSource{Secret: "login", Verify: copied})
	f.signedBy(catalog.ChartRef("web", "^1"), catalog.ChartRef("web", "1.0.0"), ada.fingerprint)
	f.problem()
}

// provenance is the provenance file that Helm makes of a package of the chart web.
func provenance(t *testing.T, s *gittest.Signer, version string, tgz []byte) []byte {
	t.Helper()
	text := fmt.Sprintf("apiVersion: v2\nname: web\nversion: %s\n\n...\nfiles:\n  web-%s.tgz: %s\n", version, version,
		digestOf(tgz))
	return []byte(s.Clearsign(t, text))
}

// TestOnlyChartsWithProvenanceArePublished: a .prov beside the package, by one of the keys.
func TestOnlyChartsWithProvenanceArePublished(t *testing.T) {
	t.Parallel()
	longform.Only(t, "signed content in many forms")
	ada, eve := gittest.NewOpenPGP(t, "ed25519"), gittest.NewOpenPGP(t, "rsa2048")
	f := newCharts(t)
	push := func(version, text string, by *gittest.Signer) []byte {
		pkg := charttest.Package("web", version, template(text))
		f.repo.PushPackage("web", version, pkg)
		if by != nil {
			f.repo.PushFile("web-"+version+".tgz.prov", provenance(t, by, version, pkg))
		}
		return pkg
	}
	first := push("1.0.0", "one", nil)
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	f.setSource(&consolev1.HelmSource{Verify: provenanceKeys(ada.Public)})
	n := f.one()
	f.problem("web 1.0.0", `service "web" has no provenance file (.prov)`, "Nothing of it is published")
	if n := f.repo.Downloads(); n != 0 {
		t.Errorf("%d downloads of unsigned packages", n)
	}
	f.repo.PushFile("web-1.0.0.tgz.prov", provenance(t, ada, "1.0.0", first))
	n.refresh()
	if head := f.chart("web", "^1", "1.0.0"); head.GetSignedBy() != ada.Fingerprint {
		t.Errorf("signed by %q", head.GetSignedBy())
	}
	f.problem()

	push("1.0.1", "two", eve)
	n.refresh()
	f.problem("web 1.0.1", eve.Fingerprint, "not among the source's verification keys", "web 1.0.0 stays published")
	second := push("1.0.2", "three", nil)
	refused := func(prov []byte, words ...string) {
		t.Helper()
		f.repo.PushFile("web-1.0.2.tgz.prov", prov)
		n.refresh()
		f.problem(append(words, "web 1.0.0 stays published")...)
	}
	refused(provenance(t, ada, "1.0.2", first), "of another package")
	refused(provenance(t, ada, "1.0.1", second), "does not name web-1.0.2.tgz")
	refused([]byte("not signed at all"), "not signed in clear")
	refused([]byte(ada.Clearsign(t, "a text\n")), "not of a chart")
	altered := strings.Replace(string(provenance(t, ada, "1.0.2", first)), digestOf(first), digestOf(second), 1)
	refused([]byte(altered), "does not fit")
	refused([]byte(strings.Repeat("x", 3<<20)), "larger than the limit of 2 MiB")
	f.chart("web", "^1", "1.0.0")

	f.repo.PushFile("web-1.0.2.tgz.prov", provenance(t, ada, "1.0.2", second))
	n.refresh()
	f.chart("web", "^1", "1.0.2")
	f.problem()

	// Without a digest in the index the provenance file says which package it is.
	third := charttest.Package("web", "1.0.3", template("four"))
	f.repo.PushPackage("web", "1.0.3", charttest.Package("web", "1.0.3", template("not what was signed")))
	f.repo.List("web", "1.0.3", "web-1.0.3.tgz", "")
	f.repo.PushFile("web-1.0.3.tgz.prov", provenance(t, ada, "1.0.3", third))
	n.refresh()
	f.problem("the package has the digest", "web 1.0.2 stays published")
	fourth := charttest.Package("web", "1.0.4", template("five"))
	f.repo.PushPackage("web", "1.0.4", fourth)
	f.repo.List("web", "1.0.4", "web-1.0.4.tgz", "")
	f.repo.PushFile("web-1.0.4.tgz.prov", provenance(t, ada, "1.0.4", fourth))
	n.refresh()
	f.chart("web", "^1", "1.0.4")
	f.problem()
	downloads := f.repo.Downloads()
	n.polled()
	if got := f.repo.Downloads(); got != downloads {
		t.Errorf("a poll without news downloaded %d packages", got-downloads)
	}
}

// TestProvenanceOfARegistry: the layer beside the chart.
func TestProvenanceOfARegistry(t *testing.T) {
	t.Parallel()
	ada := gittest.NewOpenPGP(t, "ed25519")
	f := newRegistry(t, "-auth", "basic")
	pkg := charttest.Package("web", "1.0.0", template("one"))
	push := func(files ...registrytest.File) {
		files = append([]registrytest.File{{Name: "web.tgz", MediaType: chartType, Content: pkg}}, files...)
		f.registry.OrasPush(t, chartTag+"1.0.0", "application/vnd.cncf.helm.config.v1+json", files...)
	}
	push()
	f.console.setService("web", catalog.ChartRef("web", "1.0.0"))
	f.charts(&consolev1.HelmSource{Secret: "login", Verify: provenanceKeys(ada.Public)})
	n := f.one()
	f.problem("has no provenance file")
	push(registrytest.File{Name: "web.prov", MediaType: provType, Content: provenance(t, ada, "1.0.0", pkg)})
	n.refresh()
	f.signedBy(catalog.ChartRef("web", "1.0.0"), catalog.ChartRef("web", "1.0.0"), ada.Fingerprint)
	f.problem()
}

// TestSignatureThatCannotBeHadIsInNoOtherChartsWay: its chart has its words, and the others are published.
func TestSignatureThatCannotBeHadIsInNoOtherChartsWay(t *testing.T) {
	t.Parallel()
	t.Run("provenance", func(t *testing.T) {
		t.Parallel()
		ada := gittest.NewOpenPGP(t, "ed25519")
		f := newCharts(t)
		statuses := map[string]int{
			"denied": http.StatusForbidden, "gone": http.StatusGone,
			"login": http.StatusUnauthorized, "broken": http.StatusInternalServerError,
		}
		for name := range statuses {
			f.repo.Push(name, "1.0.0", template(name))
			f.console.setService(name, catalog.ChartRef(name, "1.0.0"))
		}
		away := httptest.NewServer(http.NotFoundHandler())
		away.Close()
		f.repo.List("away", "1.0.0", away.URL+"/away-1.0.0.tgz", strings.Repeat("a", 64))
		f.console.setService("away", catalog.ChartRef("away", "1.0.0"))
		pkg := charttest.Package("web", "1.0.0", template("one"))
		f.repo.PushPackage("web", "1.0.0", pkg)
		f.repo.PushFile("web-1.0.0.tgz.prov", provenance(t, ada, "1.0.0", pkg))
		f.console.setService("web", catalog.ChartRef("web", "1.0.0"))
		f.repo.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			status := statuses[strings.Trim(strings.TrimSuffix(r.URL.Path, "-1.0.0.tgz.prov"), "/")]
			if status != 0 {
				w.WriteHeader(status)
			}
			return status != 0
		})
		f.setSource(&consolev1.HelmSource{Verify: provenanceKeys(ada.Public)})
		n := f.one()
		if head := f.chart("web", "1.0.0", "1.0.0"); head.GetSignedBy() != ada.Fingerprint {
			t.Errorf("signed by %q", head.GetSignedBy())
		}
		says := map[string]string{
			"denied": `has no provenance file (.prov) that can be read (403 from`,
			"gone":   `has no provenance file (.prov) that can be read (410 from`,
			"login":  "401 from", "broken": "500 from", "away": "connection refused",
		}
		for _, is := range f.console.status().GetProblem().GetRefProblems() {
			name, _, _ := catalog.ParseChartRef(is.GetRef())
			if want := says[name]; want == "" || !strings.Contains(is.GetMessage(), want) ||
				!strings.Contains(is.GetMessage(), "Nothing of it is published") {
				t.Errorf("%s: %s", is.GetRef(), is.GetMessage())
			}
			delete(says, name)
		}
		if len(says) != 0 {
			t.Errorf("nothing is said of %v", says)
		}

		// What is mended is told no more, though another chart is still at fault.
		denied := charttest.Package("denied", "1.0.0", template("denied"))
		f.repo.PushPackage("denied", "1.0.0", denied)
		f.repo.PushFile("denied-1.0.0.tgz.prov", []byte(ada.Clearsign(t,
			fmt.Sprintf("name: denied\n\n...\nfiles:\n  denied-1.0.0.tgz: %s\n", digestOf(denied)))))
		f.repo.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			isBroken := r.URL.Path == "/broken-1.0.0.tgz.prov"
			if isBroken {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return isBroken
		})
		n.refresh()
		f.chart("denied", "1.0.0", "1.0.0")
		for _, is := range f.console.status().GetProblem().GetRefProblems() {
			if name, _, _ := catalog.ParseChartRef(is.GetRef()); name == "denied" {
				t.Errorf("it still says %s", is.GetMessage())
			}
		}
	})
	t.Run("registry", func(t *testing.T) {
		t.Parallel()
		ada := newCosigner(t, "ecdsa")
		f, l := newLiarFixture(t)
		host := strings.TrimPrefix(l.URL, "http://")
		l.push("bad", tgz(map[string]string{"a": "bad"}), nil)
		put := func(tag string, withPayload bool) (digest string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			digest = digestOf(l.tags[tag].manifest)
			p := payload(host+"/team/shop", digest)
			l.tags[signatureTag(digest)] = tagged{signatures([][]byte{p}, []string{ada.sign(p)}), manifestType}
			if withPayload {
				l.blobs[digestOf(p)] = p
			}
			return digest
		}
		put("bad", false)
		good := put("good", true)
		f.console.setService("bad", "tag:bad")
		spec := &consolev1.SourceSpec{Oci: &consolev1.OCISource{
			Url:      "oci://" + host + "/team/shop",
			Interval: durationpb.New(seldom), Insecure: true, Verify: cosignKeys(ada.public),
		}}
		f.setSpec(spec)
		n := f.one()
		f.signedBy("tag:good", "tag:good@"+good, ada.fingerprint)
		f.problem(`service "bad"`, "404 from", "Nothing of it is published")

		// A registry that wants to be left alone is.
		l.push("bad", tgz(map[string]string{"a": "bad again"}), nil)
		l.push("good", tgz(map[string]string{"a": "good again"}), nil)
		put("good", true)
		l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/referrers/") {
				return false
			}
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		n.refresh()
		f.problem("429")
		asked := len(l.requests(""))
		n.refresh()
		f.problem("429")
		if got := len(l.requests("")); got != asked {
			t.Errorf("%d requests although it asked to be left alone", got-asked)
		}
	})
}

// TestContentOfBeforeThePolicyIsNotPublishedAnew: what a service got unsigned stays with it, and no other service gets
// it.
func TestContentOfBeforeThePolicyIsNotPublishedAnew(t *testing.T) {
	t.Parallel()
	ada, bob := gittest.NewOpenPGP(t, "ed25519"), gittest.NewOpenPGP(t, "ed25519")
	exact, ranged := catalog.ChartRef("web", "1.0.0"), catalog.ChartRef("web", "^1")
	for name, first := range map[string]*consolev1.Verify{"unsigned": nil, "key removed": provenanceKeys(bob.Public)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCharts(t)
			push := func(text string, by *gittest.Signer) {
				pkg := charttest.Package("web", "1.0.0", template(text))
				f.repo.PushFile("web-1.0.0.tgz.prov", provenance(t, by, "1.0.0", pkg))
				f.repo.PushPackage("web", "1.0.0", pkg)
			}
			push("first", bob)
			f.console.setService("web", exact)
			f.setSource(&consolev1.HelmSource{Verify: first})
			n := f.one()
			before := f.chart("web", "1.0.0", "1.0.0").GetRevision().GetCommit()
			f.setSource(&consolev1.HelmSource{Verify: provenanceKeys(ada.Public)})
			f.problem("It was published before and is kept")

			push("second", ada)
			f.console.setService("late", ranged)
			n.refresh()
			f.problem(`service "late"`, "replaced upstream", "not signed by a key of the source",
				"Nothing of it is published")
			n.polled()
			if head := headOf(f.console.status(), ranged); head != nil {
				t.Errorf("published %v", head)
			}
			if is := f.chart("web", "1.0.0", "1.0.0"); is.GetRevision().GetCommit() != before {
				t.Errorf("the first service got %s", is.GetRevision().GetCommit())
			}

			// With the first key back the content is as good as any.
			f.setSource(&consolev1.HelmSource{Verify: provenanceKeys(ada.Public, bob.Public)})
			if first == nil {
				n.polled()
				f.problem("Nothing of it is published")
				return
			}
			if is := f.chart("web", "^1", "1.0.0"); is.GetRevision().GetCommit() != before ||
				is.GetSignedBy() != bob.Fingerprint {
				t.Errorf("the other service got %v", is)
			}
		})
	}
}

// TestVerdictIsOfOneRepository: what is signed for one is not signed for another that the source names later.
func TestVerdictIsOfOneRepository(t *testing.T) {
	t.Parallel()
	ada := newCosigner(t, "ecdsa")
	f, l := newLiarFixture(t)
	host := strings.TrimPrefix(l.URL, "http://")
	l.mu.Lock()
	digest := digestOf(l.tags["good"].manifest)
	p := payload(host+"/team/shop", digest)
	l.tags[signatureTag(digest)] = tagged{signatures([][]byte{p}, []string{ada.sign(p)}), manifestType}
	l.blobs[digestOf(p)] = p
	l.mu.Unlock()
	use := func(repository string) {
		f.setSpec(&consolev1.SourceSpec{Oci: &consolev1.OCISource{
			Url:      "oci://" + host + repository,
			Interval: durationpb.New(seldom), Insecure: true, Verify: cosignKeys(ada.public),
		}})
	}
	use("/team/shop")
	f.one()
	f.signedBy("tag:good", "tag:good@"+digest, ada.fingerprint)
	f.problem()
	use("/team/copy")
	f.problem(`for the repository "`+host+`/team/shop"`, `and not for "`+host+`/team/copy"`)
}

// TestPackageThatOnlyItsProvenanceNamesIsNoNews: an index without digests is as quiet as any other.
func TestPackageThatOnlyItsProvenanceNamesIsNoNews(t *testing.T) {
	t.Parallel()
	longform.Only(t, "signed content in many forms")
	ada := gittest.NewOpenPGP(t, "ed25519")
	f := newCharts(t)
	recorder := tracetest.NewSpanRecorder()
	f.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	pkg := charttest.Package("web", "1.0.0", template("one"))
	f.repo.PushPackage("web", "1.0.0", pkg)
	f.repo.List("web", "1.0.0", "web-1.0.0.tgz", "")
	f.repo.PushFile("web-1.0.0.tgz.prov", provenance(t, ada, "1.0.0", pkg))
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	f.setSource(&consolev1.HelmSource{Verify: provenanceKeys(ada.Public)})
	n := f.one()
	f.chart("web", "^1", "1.0.0")
	polls := func() (n int) {
		for _, s := range recorder.Ended() {
			if s.Name() == "gitcache.poll" {
				n++
			}
		}
		return n
	}
	before, asked := polls(), f.repo.Count("/web-1.0.0.tgz.prov")
	n.polled()
	f.problem()
	if got := polls(); got != before {
		t.Errorf("a poll without news made %d traces", got-before)
	}
	if got := f.repo.Count("/web-1.0.0.tgz.prov"); got != asked {
		t.Errorf("it asked for the provenance file %d times", got-asked)
	}
	// Another service gets the same, and nothing is downloaded for it.
	downloads := f.repo.Downloads()
	f.console.setService("late", catalog.ChartRef("web", "1.0.0"))
	f.chart("web", "1.0.0", "1.0.0")
	if got := f.repo.Downloads(); got != downloads {
		t.Errorf("%d downloads of what is here", got-downloads)
	}
}

// TestProvenanceIsAskedForAsItsPackageIs, also if a slash in its path is escaped.
func TestProvenanceIsAskedForAsItsPackageIs(t *testing.T) {
	t.Parallel()
	ada := gittest.NewOpenPGP(t, "ed25519")
	f := newCharts(t)
	pkg := charttest.Package("web", "1.0.0", template("one"))
	f.repo.PushFile("a/b/web-1.0.0.tgz", pkg)
	f.repo.PushFile("a/b/web-1.0.0.tgz.prov", provenance(t, ada, "1.0.0", pkg))
	f.repo.List("web", "1.0.0", "a%2Fb/web-1.0.0.tgz", strings.TrimPrefix(digestOf(pkg), "sha256:"))
	f.repo.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		isOther := strings.HasPrefix(r.URL.EscapedPath(), "/a/")
		if isOther {
			http.NotFound(w, r)
		}
		return isOther
	})
	f.console.setService("web", catalog.ChartRef("web", "1.0.0"))
	f.setSource(&consolev1.HelmSource{Verify: provenanceKeys(ada.Public)})
	f.one()
	f.chart("web", "1.0.0", "1.0.0")
}

// TestArtifactsSignedWithoutAKeyArePublished by the identities and the trusted root of the source.
func TestArtifactsSignedWithoutAKeyArePublished(t *testing.T) {
	t.Parallel()
	sigstore := keylesstest.New(t)
	f, l := newLiarFixture(t)
	good := digestOf(l.tags["good"].manifest)
	f.setSpec(&consolev1.SourceSpec{Oci: &consolev1.OCISource{
		Url: "oci://" + strings.TrimPrefix(l.URL, "http://") + "/team/shop", Interval: durationpb.New(seldom),
		Insecure: true,
		Verify: &consolev1.Verify{
			Provider: consolev1.VerifyProvider_VERIFY_PROVIDER_COSIGN, TrustedRoot: sigstore.Root(),
			MatchOidcIdentity: []*consolev1.OIDCIdentity{{
				Issuer:  `https://token\.ci\.example\.com`,
				Subject: `https://ci\.example\.com/acme/shop/.*`,
			}},
		},
	}})
	sign := func(digest, subject string) {
		statement := fmt.Appendf(nil, `{"subject":[{"digest":{"sha256":%q}}],"predicateType":%q}`,
			strings.TrimPrefix(digest, "sha256:"), signPredicate)
		bundle := sigstore.Bundle(keylesstest.Signing{Payload: statement, Subject: subject})
		manifest := bundleManifest(bundle)
		list := referrers(bundleType, manifest)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tags[strings.Replace(digest, ":", "-", 1)], l.tags[digestOf(manifest)] = tagged{
			list,
			indexType,
		}, tagged{manifest, manifestType}
		l.blobs[digestOf(bundle)] = bundle
	}
	f.console.setService("web", "tag:good")
	n := f.one()
	f.problem("is not signed", "Sign it as one of the source's identities")
	sign(good, "https://ci.example.com/eve/shop/release")
	n.refresh()
	f.problem("by https://ci.example.com/eve/shop/release", "none of the source's identities")
	sign(good, "")
	n.refresh()
	f.signedBy("tag:good", "tag:good@"+good, keylesstest.Subject+" (issuer "+keylesstest.Issuer+")")
	f.problem()
}
