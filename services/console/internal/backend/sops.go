package backend

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha512"
	"crypto/subtle"
	"encoding"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"
	"go.yaml.in/yaml/v3"
)

const (
	// sopsKey is the member of a file in which SOPS keeps how it is encrypted. In env files it begins the names of
	// several.
	sopsKey = "sops"
	// sopsKeyBytes is the length of the key of a file.
	sopsKeyBytes = 32
	// maxSOPSKeys bounds to how many recipients a file is tried.
	maxSOPSKeys = 64
)

// sopsOnlyEncrypted begins the checksum of a file whose checksum is over what is encrypted only: the SHA-256 of "sops".
const sopsOnlyEncrypted = "8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69"

// sopsValue is a value that SOPS has encrypted.
var sopsValue = regexp.MustCompile(`^ENC\[AES256_GCM,data:([A-Za-z0-9+/=]*),iv:([A-Za-z0-9+/=]+),tag:([A-Za-z0-9+/=]+),type:([a-z]+)\]$`)

// unseal opens a file that SOPS has encrypted, and checks that nothing of it was changed. Any other is returned as it
// is.
func unseal(format string, tree []entry, identities []age.Identity) ([]entry, error) {
	meta, rest, err := split(format, tree)
	if err != nil || meta == nil {
		return rest, err
	}
	rules, err := rulesOf(meta)
	if err != nil {
		return nil, err
	}
	key, err := dataKey(meta, identities)
	if err != nil {
		return nil, err
	}
	aead, err := sopsCipher(key)
	if err != nil {
		return nil, err
	}
	s := &sops{rules: rules, cipher: aead, sum: sha512.New(), json: format == ".json"}
	if rules.onlyEncrypted {
		start, err := hex.DecodeString(sopsOnlyEncrypted)
		if err != nil {
			return nil, fmt.Errorf("begin checksum: %w", err)
		}
		s.sum.Write(start)
	}
	out, err := s.members(rest, nil)
	if err != nil {
		return nil, err
	}
	mac, _, err := s.open(text(meta, "mac"), text(meta, "lastmodified"))
	if err != nil || subtle.ConstantTimeCompare([]byte(mac), fmt.Appendf(nil, "%X", s.sum.Sum(nil))) != 1 {
		return nil, errors.New("was changed after SOPS has encrypted it: its checksum is another one")
	}
	return out, nil
}

// split takes a file apart; nil: it is not of SOPS.
func split(format string, tree []entry) (meta, rest []entry, err error) {
	if format == ".env" {
		return splitEnv(tree)
	}
	for _, e := range tree {
		if e.key != sopsKey {
			rest = append(rest, e)
			continue
		}
		members, ok := e.value.([]entry)
		if !ok || text(members, "mac") == "" {
			return nil, tree, nil // a member that happens to have this name
		}
		meta = members
	}
	return meta, rest, nil
}

// sopsList is what SOPS makes of a list of maps in an env file: sops_age__list_0__map_enc.
var sopsList = regexp.MustCompile(`^([a-z_]+?)__list_([0-9]+)__map_([a-z]+)$`)

func splitEnv(tree []entry) (meta, rest []entry, err error) {
	lists := map[string][]any{}
	for _, e := range tree {
		name, ok := strings.CutPrefix(e.key, sopsKey+"_")
		if !ok {
			rest = append(rest, e)
			continue
		}
		part := sopsList.FindStringSubmatch(name)
		if part == nil {
			meta = append(meta, entry{name, e.value})
			continue
		}
		i, err := strconv.Atoi(part[2])
		if err != nil || i >= maxSOPSKeys {
			return nil, nil, fmt.Errorf("sops: is encrypted to more than %d keys", maxSOPSKeys)
		}
		list := lists[part[1]]
		for len(list) <= i {
			list = append(list, []entry(nil))
		}
		of, _ := list[i].([]entry)
		list[i] = append(of, entry{part[3], e.value})
		lists[part[1]] = list
	}
	if text(meta, "mac") == "" {
		return nil, tree, nil
	}
	for name, list := range lists {
		meta = append(meta, entry{name, list})
	}
	return meta, rest, nil
}

func member(of []entry, key string) any {
	for _, e := range of {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

func text(of []entry, key string) string {
	s, _ := member(of, key).(scalar)
	return s.text
}

// sopsRules say which values are encrypted: those below a key that fits.
type sopsRules struct {
	suffix, notSuffix string
	fits, notFits     *regexp.Regexp
	onlyEncrypted     bool
}

func rulesOf(meta []entry) (r sopsRules, err error) {
	for _, key := range []string{"encrypted_comment_regex", "unencrypted_comment_regex"} {
		if text(meta, key) != "" {
			return r, fmt.Errorf("sops: %s is not known here: use a suffix or a regex of keys", key)
		}
	}
	r.suffix, r.notSuffix = text(meta, "encrypted_suffix"), text(meta, "unencrypted_suffix")
	r.onlyEncrypted = text(meta, "mac_only_encrypted") == "true"
	for key, into := range map[string]**regexp.Regexp{"encrypted_regex": &r.fits, "unencrypted_regex": &r.notFits} {
		if pattern := text(meta, key); pattern != "" {
			if *into, err = regexp.Compile(pattern); err != nil {
				return r, fmt.Errorf("sops: %s is not a regular expression", key)
			}
		}
	}
	return r, nil
}

func (r sopsRules) encrypted(path []string) bool {
	some := func(fits func(string) bool) bool { return slices.ContainsFunc(path, fits) }
	switch {
	case r.fits != nil:
		return some(r.fits.MatchString)
	case r.notFits != nil && some(r.notFits.MatchString):
		return false
	case r.suffix != "":
		return some(func(key string) bool { return strings.HasSuffix(key, r.suffix) })
	case r.notSuffix != "":
		return !some(func(key string) bool { return strings.HasSuffix(key, r.notSuffix) })
	}
	return true
}

// dataKey opens the key of a file with the first identity that it is encrypted to.
func dataKey(meta []entry, identities []age.Identity) ([]byte, error) {
	list, _ := member(meta, "age").([]any)
	if groups, _ := member(meta, "key_groups").([]any); len(groups) > 0 {
		if len(groups) > 1 {
			return nil, errors.New("sops: needs keys of several groups, which is not known here: encrypt it to one group")
		}
		group, _ := groups[0].([]entry)
		list, _ = member(group, "age").([]any)
	}
	if len(list) == 0 {
		return nil, errors.New("sops: is encrypted to no age key: others are not known here")
	}
	err := errNoIdentity
	for _, of := range list[:min(len(list), maxSOPSKeys)] {
		recipient, _ := of.([]entry)
		var key []byte
		if key, err = openAge([]byte(text(recipient, "enc")), identities); err == nil {
			if len(key) != sopsKeyBytes {
				return nil, errors.New("sops: its key is damaged")
			}
			return key, nil
		}
	}
	return nil, err
}

func sopsCipher(key []byte) (func(nonce int) (cipher.AEAD, error), error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, errors.New("sops: its key is damaged")
	}
	return func(nonce int) (cipher.AEAD, error) { return cipher.NewGCMWithNonceSize(block, nonce) }, nil
}

// sops is a file that is being opened. Its checksum goes over all values, in their order.
type sops struct {
	rules  sopsRules
	cipher func(nonce int) (cipher.AEAD, error)
	sum    hash.Hash
	json   bool // whose numbers have no kinds
}

func (s *sops) members(tree []entry, path []string) ([]entry, error) {
	out := make([]entry, len(tree))
	for i, e := range tree {
		value, err := s.node(e.value, append(slices.Clip(path), e.key))
		if err != nil {
			return nil, err
		}
		out[i] = entry{e.key, value}
	}
	return out, nil
}

func (s *sops) node(node any, path []string) (any, error) {
	switch n := node.(type) {
	case []entry:
		return s.members(n, path)
	case []any:
		out := make([]any, len(n))
		for i := range n {
			var err error
			if out[i], err = s.node(n[i], path); err != nil { // places in lists are no part of the path
				return nil, err
			}
		}
		return out, nil
	case scalar:
		return s.leaf(n, path)
	}
	return node, nil
}

func (s *sops) leaf(n scalar, path []string) (any, error) {
	encrypted := s.rules.encrypted(path)
	if encrypted {
		var err error
		if n.text, n.tag, err = s.open(n.text, strings.Join(path, ":")+":"); err != nil {
			return nil, fmt.Errorf("key %q: %w", strings.Join(path, "."), err)
		}
	}
	if encrypted || !s.rules.onlyEncrypted {
		s.sum.Write([]byte(s.summed(n)))
	}
	if n.tag == "!!bool" {
		n.text = strings.ToLower(n.text)
	}
	return n, nil
}

// open decrypts a value. purpose binds it to where it is.
func (s *sops) open(value, purpose string) (plain, tag string, err error) {
	if value == "" {
		return "", "!!str", nil // SOPS leaves what is empty as it is
	}
	part := sopsValue.FindStringSubmatch(value)
	if part == nil {
		return "", "", errors.New("is not encrypted, and should be")
	}
	var data [3][]byte
	for i := range data {
		if data[i], err = base64.StdEncoding.DecodeString(part[i+1]); err != nil {
			return "", "", errors.New("is damaged")
		}
	}
	aead, err := s.cipher(len(data[1]))
	if err != nil {
		return "", "", errors.New("is damaged")
	}
	out, err := aead.Open(nil, data[1], append(data[0], data[2]...), []byte(purpose))
	if err != nil {
		return "", "", errors.New("can't be opened: it was changed, or moved here from elsewhere")
	}
	return string(out), map[string]string{"int": "!!int", "float": "!!float", "bool": "!!bool", "time": "!!timestamp"}[part[4]], nil
}

// summed is a value as it goes into the checksum.
func (s *sops) summed(n scalar) string {
	if n.tag == "" || n.tag == "!!str" {
		return n.text
	}
	var value any
	if err := (&yaml.Node{Kind: yaml.ScalarNode, Tag: n.tag, Value: n.text}).Decode(&value); err != nil {
		return n.text
	}
	if i, ok := value.(int); ok && s.json {
		value = float64(i)
	}
	switch v := value.(type) {
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		if v {
			return "True"
		}
		return "False"
	case encoding.TextMarshaler:
		if text, err := v.MarshalText(); err == nil {
			return string(text)
		}
	}
	return n.text
}
