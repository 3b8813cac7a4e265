// Package wire turns queries and answers into messages and back, for the handler and for the client
// that asks other replicas.
package wire

import (
	"net/http"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/console"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/origin"
)

// MaxAnswerBytes bounds the answer of a peer to a batch: 256 results of less than 4 KiB.
const MaxAnswerBytes = 4 << 20

// forwarded marks requests that one replica asks another. Marked requests are answered from what is there.
const forwarded = "Fairlead-Forwarded"

// IsForwarded tells whether a request came from another replica.
func IsForwarded(h http.Header) bool { return h.Get(forwarded) != "" }

// Forwarding marks all requests.
func Forwarding(next http.RoundTripper) http.RoundTripper { return marking{next} }

type marking struct{ next http.RoundTripper }

func (m marking) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(forwarded, "1")
	return m.next.RoundTrip(r)
}

// Queries reads a request.
func Queries(r *artifactv1.ResolveRequest) []origin.Query {
	queries := make([]origin.Query, 0, len(r.GetQueries()))
	for _, q := range r.GetQueries() {
		queries = append(queries, origin.Query{
			Source: q.GetSource(), Revision: q.GetRevision(), Path: q.GetPath(), Include: q.GetInclude(), Ignore: q.GetIgnore(),
		})
	}
	return queries
}

// Request writes one.
func Request(queries []origin.Query) *artifactv1.ResolveRequest {
	r := &artifactv1.ResolveRequest{}
	for _, q := range queries {
		r.Queries = append(r.Queries, &artifactv1.Query{
			Source: q.Source, Revision: q.Revision, Path: q.Path, Include: q.Include, Ignore: q.Ignore,
		})
	}
	return r
}

// Response writes answers.
func Response(answers []origin.Answer) *artifactv1.ResolveResponse {
	r := &artifactv1.ResolveResponse{}
	for _, a := range answers {
		r.Results = append(r.Results, result(a))
	}
	return r
}

func result(a origin.Answer) *artifactv1.Result {
	if a.Err != nil {
		return &artifactv1.Result{Submodules: a.Submodules, Dependencies: a.Dependencies, SourceUid: a.SourceUID, Epoch: a.Epoch, Result: &artifactv1.Result_Error{Error: &artifactv1.ResolveError{
			Reason: reasons()[a.Err.Reason], Message: a.Err.Message,
		}}}
	}
	return &artifactv1.Result{Submodules: a.Submodules, Dependencies: a.Dependencies, SourceUid: a.SourceUID, Epoch: a.Epoch, Result: &artifactv1.Result_Resolved{Resolved: &artifactv1.Resolved{
		Revision: console.RevisionMessage(a.Head), SourceId: a.SourceID,
		Artifact: &artifactv1.Artifact{Digest: a.Artifact.Digest.String(), Size: a.Artifact.Size, Files: int32(a.Artifact.Files)},
	}}}
}

func reasons() map[origin.Reason]artifactv1.ResolveError_Reason {
	return map[origin.Reason]artifactv1.ResolveError_Reason{
		origin.Internal:      artifactv1.ResolveError_REASON_INTERNAL,
		origin.UnknownSource: artifactv1.ResolveError_REASON_UNKNOWN_SOURCE,
		origin.NotFetched:    artifactv1.ResolveError_REASON_NOT_FETCHED,
		origin.PathNotFound:  artifactv1.ResolveError_REASON_PATH_NOT_FOUND,
		origin.Refused:       artifactv1.ResolveError_REASON_REFUSED,
	}
}

// Answers reads a peer's response.
func Answers(r *artifactv1.ResolveResponse) []origin.Answer {
	answers := make([]origin.Answer, 0, len(r.GetResults()))
	for _, m := range r.GetResults() {
		answers = append(answers, answer(m))
	}
	return answers
}

func answer(m *artifactv1.Result) origin.Answer {
	a := content(m)
	a.Submodules, a.Dependencies, a.SourceUID, a.Epoch = m.GetSubmodules(), m.GetDependencies(), m.GetSourceUid(), m.GetEpoch()
	return a
}

func content(m *artifactv1.Result) origin.Answer {
	resolved := m.GetResolved()
	d, err := artifact.ParseDigest(resolved.GetArtifact().GetDigest())
	if resolved == nil || err != nil {
		reason := origin.Internal
		for r, message := range reasons() {
			if message == m.GetError().GetReason() {
				reason = r
			}
		}
		return origin.Answer{Err: &origin.Error{Reason: reason, Message: m.GetError().GetMessage()}}
	}
	r, a := resolved.GetRevision(), resolved.GetArtifact()
	return origin.Answer{
		Head: mirror.Head{
			Commit: git.HashOf(r.GetCommit()), CommitTime: console.Time(r.GetCommitTime()),
			Subject: r.GetSubject(), Author: r.GetAuthor(), Traceparent: r.GetTraceparent(),
		},
		SourceID: resolved.GetSourceId(),
		Artifact: artifact.Summary{Digest: d, Size: a.GetSize(), Files: int(a.GetFiles())},
	}
}
