package acceptance

import (
	"testing"

	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/gittest"
)

func TestSourceBySSHIsServed(t *testing.T) {
	t.Parallel()
	longform.Only(t, "sshd")
	f := newFixture(t)
	host := gittest.NewSSHServer(t)
	f.repo = host.NewRepo(t, "shop.git")
	first := f.repo.Commit("one", gittest.Files{"deploy/web.yaml": "kind: Web\n"})
	secret := map[string]string{"identity": host.Identity}
	f.console.setSecret("shop-git", secret)
	f.console.setSource(f.repo.URL(), "shop-git")
	n := f.one()
	f.problem(`source "shop"`, `secret "shop-git" has no known_hosts`, "ssh-keyscan")
	if host.Count("session") > 0 {
		t.Error("a host that is not known was asked")
	}

	f.console.setSecret("shop-git", map[string]string{"identity": host.Identity, "known_hosts": host.KnownHosts})
	f.published("HEAD", first)
	f.problem()
	files := n.download(n.resolve("HEAD", "deploy").GetArtifact().GetDigest())
	if files["web.yaml"] != "kind: Web\n" {
		t.Errorf("got %v", files)
	}

	host.UseHostKeys(t, gittest.ED25519)
	second := f.repo.Commit("two", gittest.Files{"deploy/web.yaml": "kind: Shop\n"})
	n.refresh()
	f.problem("is not the known one", "somebody may be in between")
	f.published("HEAD", first)
	f.console.setSecret("shop-git", map[string]string{"identity": host.Identity, "known_hosts": host.KnownHosts})
	f.published("HEAD", second)
}
