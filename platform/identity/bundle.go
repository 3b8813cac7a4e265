package identity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// Bundle is all it takes to verify tokens offline.
type Bundle struct {
	// Keys is a JSON Web Key Set with the public keys.
	Keys        json.RawMessage `json:"keys"`
	Revocations []Revocation    `json:"revocations,omitempty"`
	IssuedAt    time.Time       `json:"issued_at"`
}

// Revocation makes one token invalid, or all tokens that a subject got up to a time; and with them
// whatever they were, or are yet, renewed to.
type Revocation struct {
	TokenID string `json:"token_id,omitempty"`
	Subject string `json:"subject,omitempty"`
	// At is when it was revoked. The time must not be rounded down by more than a microsecond.
	At time.Time `json:"at"`
}

// Covers tells whether the revocation is about the token of an identity.
func (r Revocation) Covers(id Identity) bool {
	return r.TokenID != "" && (r.TokenID == id.TokenID || r.TokenID == id.Parent) ||
		r.Subject != "" && r.Subject == id.Subject() && !id.BeganAt.After(r.At)
}

// BundleFromProto takes a bundle from the wire. NewBundleVerifier judges it.
func BundleFromProto(m *consolev1.GetTrustBundleResponse) Bundle {
	b := Bundle{Keys: m.GetKeys(), IssuedAt: m.GetIssueTime().AsTime()}
	for _, r := range m.GetRevocations() {
		b.Revocations = append(b.Revocations, Revocation{
			TokenID: r.GetTokenId(), Subject: r.GetSubject(), At: r.GetRevokeTime().AsTime(),
		})
	}
	return b
}

// Proto returns the bundle for the wire.
func (b Bundle) Proto() *consolev1.GetTrustBundleResponse {
	m := &consolev1.GetTrustBundleResponse{Keys: b.Keys, IssueTime: timestamppb.New(b.IssuedAt)}
	for _, r := range b.Revocations {
		p := &consolev1.Revocation{RevokeTime: timestamppb.New(r.At)}
		if r.TokenID != "" {
			p.Which = &consolev1.Revocation_TokenId{TokenId: r.TokenID}
		} else {
			p.Which = &consolev1.Revocation_Subject{Subject: r.Subject}
		}
		m.Revocations = append(m.Revocations, p)
	}
	return m
}

// ParseBundle reads what Marshal wrote.
func ParseBundle(data []byte) (Bundle, error) {
	var b Bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return Bundle{}, fmt.Errorf("parse trust bundle: %w", err)
	}
	return b, nil
}

// Marshal returns the bundle as JSON for the disk.
func (b Bundle) Marshal() ([]byte, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write trust bundle: %w", err)
	}
	return data, nil
}

// same tells whether both trust the same; the time they were issued does not matter.
func (b Bundle) same(o Bundle) bool {
	return bytes.Equal(b.Keys, o.Keys) && slices.EqualFunc(b.Revocations, o.Revocations, func(x, y Revocation) bool {
		return x.TokenID == y.TokenID && x.Subject == y.Subject && x.At.Equal(y.At)
	})
}
