package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The parts of an in-toto statement with SLSA provenance, version 1.
type (
	statement struct {
		Type          string    `json:"_type"`
		Subject       []subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     predicate `json:"predicate"`
	}
	subject struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest"`
	}
	predicate struct {
		Definition definition `json:"buildDefinition"`
		Run        runDetails `json:"runDetails"`
	}
	definition struct {
		Type         string            `json:"buildType"`
		External     map[string]string `json:"externalParameters"`
		Internal     map[string]string `json:"internalParameters"`
		Dependencies []subject         `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
		Metadata struct {
			Started  time.Time `json:"startedOn"`
			Finished time.Time `json:"finishedOn"`
		} `json:"metadata"`
	}
)

// provenance says of which commit, with which compiler, when and by what the files were made.
func (r release) provenance(ctx context.Context) error {
	doc := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	names, err := r.files()
	if err != nil {
		return err
	}
	for _, name := range names {
		sum, err := checksum(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		doc.Subject = append(doc.Subject, subject{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	compiler, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return fmt.Errorf("ask for the compiler's version: %w", err)
	}
	doc.Predicate.Definition = definition{
		Type:         "https://fairlead.dev/release/v1", // docs/operate/release.md
		External:     map[string]string{"version": r.version, "command": "make release"},
		Internal:     map[string]string{"go": strings.TrimSpace(string(compiler))},
		Dependencies: []subject{{URI: "git+https://fairlead.dev@" + r.version, Digest: map[string]string{"gitCommit": r.revision}}},
	}
	doc.Predicate.Run.Builder.ID = r.builder
	doc.Predicate.Run.Metadata.Started, doc.Predicate.Run.Metadata.Finished = r.began.Truncate(time.Second), time.Now().UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return err
	}
	return r.write(provenanceFile, append(text, '\n'))
}

// signatureUse is what the signatures are for: one for another use counts for nothing here.
const signatureUse = "fairlead-release"

// sign signs the checksums, and with them all files that they name, and the provenance.
func (r release) sign(ctx context.Context) error {
	if r.key == "" {
		r.step("not signed: `make release KEY=FILE` signs with an SSH key")
		return nil
	}
	for _, name := range []string{sumsFile, provenanceFile} {
		r.step("%s", name+signatureEnd)
		cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-f", r.key, "-n", signatureUse, filepath.Join(r.dir, name)) //nolint:gosec // the person's own key
		cmd.Stdin = os.Stdin                                                                                                           // of a passphrase
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("sign %s: %w: %s", name, err, said)
		}
	}
	return nil
}
