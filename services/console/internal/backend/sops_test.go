package backend

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// sopsFile encrypts as SOPS does: lines are key, type and value; the last part of a path that is in lists is left out
// of it.
type sopsFile struct {
	t   *testing.T
	key [sopsKeyBytes]byte
	enc string
	sum []byte
}

func newSOPSFile(t *testing.T, to age.Recipient) *sopsFile {
	t.Helper()
	f := &sopsFile{t: t}
	_, _ = rand.Read(f.key[:])
	var out strings.Builder
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, to)
	if err == nil {
		_, err = w.Write(f.key[:])
	}
	if err = errors.Join(err, w.Close(), text.Close()); err != nil {
		t.Fatal(err)
	}
	f.enc = out.String()
	return f
}

func (f *sopsFile) seal(value, kind, purpose string) string {
	f.t.Helper()
	block, err := aes.NewCipher(f.key[:])
	if err != nil {
		f.t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithNonceSize(block, 32)
	if err != nil {
		f.t.Fatal(err)
	}
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce)
	out := aead.Seal(nil, nonce, []byte(value), []byte(purpose))
	cut := len(out) - aead.Overhead()
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", b64(out[:cut]), b64(nonce), b64(out[cut:]), kind)
}

// value is one that goes into the checksum.
func (f *sopsFile) value(value, kind, path string) string {
	f.sum = append(f.sum, value...)
	return f.seal(value, kind, path+":")
}

const sopsTime = "2026-11-20T08:00:00Z"

func (f *sopsFile) mac() string {
	return f.seal(fmt.Sprintf("%X", sha512.Sum512(f.sum)), "str", sopsTime)
}

func (f *sopsFile) yaml(body, more string) string {
	return body + "sops:\n    age:\n        - recipient: age1x\n          enc: |\n            " +
		strings.ReplaceAll(strings.TrimSpace(f.enc), "\n", "\n            ") +
		"\n    lastmodified: \"" + sopsTime + "\"\n    mac: " + f.mac() + "\n" + more + "    version: 3.11.0\n"
}

func sopsIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func expectValues(t *testing.T, got Values, err error, want Values) {
	t.Helper()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestSOPSFilesAreOpened(t *testing.T) {
	t.Parallel()
	id := sopsIdentity(t)
	f := newSOPSFile(t, id.Recipient())
	body := "#ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:comment]\ndb:\n    password: " +
		f.value("hunter2", "str", "db:password") +
		"\n    port: " + f.value("5432", "int", "db:port") + "\n    empty: \"\"\n    none: null\nlist:\n    - " +
		f.value("a", "str", "list") + "\n    - x: " + f.value("1.5", "float", "list:x") +
		"\non: " + f.value("True", "bool", "on") + "\n"
	f.sum = append(f.sum, "5True1.5here"...)
	body += "plain_unencrypted:\n    n: 0x5\n    b: true\n    f: 1.50\n    s: here\n"
	got, err := parse(".yaml", []byte(f.yaml(body, "    unencrypted_suffix: _unencrypted\n")), []age.Identity{
		sopsIdentity(t), id,
	})
	expectValues(t, got, err, Values{
		"db.password": "hunter2", "db.port": "5432", "db.empty": "", "list": `["a",{"x":1.5}]`, "on": "true",
		"plain_unencrypted.n": "0x5", "plain_unencrypted.b": "true", "plain_unencrypted.f": "1.50",
		"plain_unencrypted.s": "here",
	})

	// Only what is encrypted is in the checksum, and what is encrypted goes by its name.
	f = newSOPSFile(t, id.Recipient())
	f.sum = []byte{
		0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0xb, 0xb, 0x97, 0x5b,
		0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
	}
	body = "kind: Secret\ndata:\n    a: " + f.value("hunter2", "str", "data:a") + "\n"
	got, err = parse(".yaml", []byte(f.yaml(body, "    encrypted_regex: ^data$\n    mac_only_encrypted: true\n")),
		[]age.Identity{id})
	expectValues(t, got, err, Values{"kind": "Secret", "data.a": "hunter2"})

	f = newSOPSFile(t, id.Recipient())
	got, err = parse(".env", []byte("A="+f.value("hunter2", "str", "A")+"\n"+
		"sops_age__list_0__map_enc="+strings.ReplaceAll(f.enc, "\n", `\n`)+
		"\nsops_age__list_0__map_recipient=age1x\nsops_lastmodified="+sopsTime+"\nsops_mac="+f.mac()+
		"\nsops_version=3.11.0\n"), []age.Identity{id})
	expectValues(t, got, err, Values{"A": "hunter2"})
}

func TestSOPSFilesThatWereChangedAreRefused(t *testing.T) {
	t.Parallel()
	id := sopsIdentity(t)
	f := newSOPSFile(t, id.Recipient())
	one, two := f.value("hunter2", "str", "one"), f.value("hunter3", "str", "two")
	body := "one: " + one + "\ntwo: " + two + "\n"
	good := f.yaml(body, "")
	if _, err := parse(".yaml", []byte(good), []age.Identity{id}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"a value that is gone": {strings.Replace(good, "two: "+two+"\n", "", 1), "its checksum is another one"},
		"an order that is another": {
			strings.Replace(good, body, "two: "+two+"\none: "+one+"\n", 1), "its checksum is another one",
		},
		"values that have swapped": {
			strings.Replace(good, body, "one: "+two+"\ntwo: "+one+"\n", 1), `key "one": can't be opened`,
		},
		"a value that is plain": {strings.Replace(good, two, "hunter4", 1), `key "two": is not encrypted`},
		"a checksum of another day": {
			strings.Replace(good, sopsTime, "2026-11-21T08:00:00Z", 1), "its checksum is another one",
		},
		"a rule that spares a key": {
			strings.Replace(good, "    version", "    unencrypted_regex: two\n    version", 1),
			"its checksum is another one",
		},
		"several groups": {
			strings.Replace(good, "    version", "    key_groups: [{age: []}, {age: []}]\n    version", 1),
			"several groups",
		},
		"rules on comments": {
			strings.Replace(good, "    version", "    encrypted_comment_regex: x\n    version", 1),
			"encrypted_comment_regex is not known",
		},
		"another recipient": {newSOPSFile(t, sopsIdentity(t).Recipient()).yaml("", ""), "none of the identities"},
		"other keys":        {"sops: {mac: x, kms: [{arn: x}]}\na: x\n", "no age key"},
	} {
		got, err := parse(".yaml", []byte(c.text), []age.Identity{id})
		if err == nil || got != nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, c.want)
		}
	}
}
