package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fairlead.dev/e2e/process"
)

// signer signs as Git does with an SSH key.
type signer struct{ file, public string }

func (t *Try) newSigner(ctx context.Context) (*signer, error) {
	dir, err := os.MkdirTemp(t.world.Dir, "signer-")
	if err != nil {
		return nil, err
	}
	s := &signer{file: filepath.Join(dir, "key")}
	if err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", s.file).Run(); err != nil {
		return nil, fmt.Errorf("make a key to sign with: %w", err)
	}
	public, err := os.ReadFile(s.file + ".pub")
	s.public = strings.TrimSpace(string(public))
	return s, err
}

func (s *signer) sign(ctx context.Context, content []byte) (string, error) {
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", s.file)
	cmd.Stdin = bytes.NewReader(content)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// header is a signature as a field of a commit.
func header(signature string) string {
	return "gpgsig " + strings.ReplaceAll(signature, "\n", "\n ") + "\n"
}

// signatures publishes commits that are signed in ways that another parser could take for good, from sources that want
// commits signed by one key.
func (t *Try) signatures(ctx context.Context) (string, error) {
	key, err := t.newSigner(ctx)
	if err != nil {
		return "", err
	}
	stranger, err := t.newSigner(ctx)
	if err != nil {
		return "", err
	}
	const people = "author x <x@example.com> 1700000000 +0000\ncommitter x <x@example.com> 1700000000 +0000\n"
	const message = "\na commit\n"
	// The trees are the same in all repositories, and so is what is signed of them.
	var good, evil, signature, strangers string
	publish := func(name string, commit func() string, tag bool) error {
		if err := t.bare(ctx, name, []entry{{"100644", "a.yaml", "good: yes\n"}}); err != nil {
			return err
		}
		for content, to := range map[string]*string{"good: yes\n": &good, "evil: yes\n": &evil} {
			blob, err := t.gitIn(ctx, name, []byte(content), "hash-object", "-w", "--stdin")
			if err != nil {
				return err
			}
			if *to, err = t.gitIn(ctx, name, []byte("100644 blob "+blob+"\ta.yaml\n"), "mktree"); err != nil {
				return err
			}
		}
		if signature == "" {
			if signature, err = key.sign(ctx, []byte("tree "+good+"\n"+people+message)); err != nil {
				return err
			}
			if strangers, err = stranger.sign(ctx, []byte("tree "+evil+"\n"+people+message)); err != nil {
				return err
			}
		}
		id, err := t.gitIn(ctx, name, []byte(commit()), "hash-object", "-w", "-t", "commit", "--literally", "--stdin")
		if err != nil {
			return err
		}
		ref := "refs/heads/main"
		if tag {
			text := "object " + id + "\ntype commit\ntag v1\ntagger x <x@example.com> 1700000000 +0000\n\na tag\n"
			armored, err := key.sign(ctx, []byte(text))
			if err != nil {
				return err
			}
			if id, err = t.gitIn(ctx, name, []byte(text+armored+"\n"), "hash-object", "-w", "-t", "tag", "--literally", "--stdin"); err != nil {
				return err
			}
			ref = "refs/tags/v1"
		}
		_, err = t.gitIn(ctx, name, nil, "update-ref", ref, id)
		return err
	}
	deliver := func(name, ref string) error {
		return t.world.apply(ctx, wanting(name, ref, "url: '"+strings.Replace(t.world.GitURL, "sample", name, 1)+"', verification: {keys: ['"+key.public+"']}"))
	}
	const twin = "signed-well"
	if err := errors.Join(publish(twin, func() string { return "tree " + good + "\n" + people + header(signature) + message }, false), deliver(twin, "main")); err != nil {
		return "", err
	}
	err = process.Await(ctx, "the commit that is signed well is delivered", func(ctx context.Context) error {
		text, err := t.service(ctx, twin)
		if err != nil {
			return err
		}
		var told status
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			return err
		}
		if told.Service.Status.Hub.Artifact.Digest == "" {
			return errors.New(told.trouble())
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("this tries nothing: %w", err)
	}
	head := func() string { return "tree " + evil + "\n" + people }
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	var words []string
	for name, commit := range map[string]func() string{
		"signed-for-another":  func() string { return head() + header(signature) + message },
		"signed-twice":        func() string { return head() + header(signature) + header(strangers) + message },
		"signed-twice-turned": func() string { return head() + header(strangers) + header(signature) + message },
		"signed-two-trees":    func() string { return "tree " + evil + "\ntree " + good + "\n" + people + header(signature) + message },
		"signed-hidden-tree": func() string {
			return head() + "gpgsig-sha256 x\n tree " + good + "\n" + header(signature) + message
		},
		"signed-crlf":    func() string { return head() + crlf(header(signature)) + message },
		"signed-message": func() string { return head() + "\n" + header(signature) + message },
		"signed-cut":     func() string { return head() + header(signature[:len(signature)/2]) + message },
		"signed-tag":     func() string { return head() + message },
	} {
		ref := "main"
		if name == "signed-tag" {
			ref = "refs/tags/v1"
		}
		if err := errors.Join(publish(name, commit, ref != "main"), deliver(name, ref)); err != nil {
			return "", err
		}
		told, err := t.refused(ctx, name)
		if err = errors.Join(err, says(strings.ReplaceAll(told, name, ""), "sign")); err != nil {
			return told, fmt.Errorf("%s: %w", name, err)
		}
		words = append(words, told)
	}
	return fmt.Sprintf("%d forms are refused: %s", len(words), strings.Join(words, " / ")), nil
}
