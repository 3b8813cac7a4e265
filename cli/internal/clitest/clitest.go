// Package clitest is what tests of several packages of the command share.
package clitest

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// Noon is the fixed clock of tests.
func Noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// Before is so long before noon.
func Before(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(Noon().Add(-d)) }

// Meta is the head of a resource that has a name and no more.
func Meta(name string) *consolev1.Metadata { return &consolev1.Metadata{Name: name} }

// WellRevision is what the service of WellService runs.
func WellRevision() *artifactv1.Revision {
	return &artifactv1.Revision{
		Commit: "fedcba9876", CommitTime: Before(5 * time.Minute), Subject: "Add the shop", Author: "Kim",
	}
}

// WellService is a service with which nothing is wrong.
func WellService() *consolev1.Service {
	revision := WellRevision()
	return &consolev1.Service{
		Metadata: Meta("shop-a"),
		Spec:     &consolev1.ServiceSpec{Source: "shop", Ref: "main", Path: "deploy", Cluster: "a"},
		Status: &consolev1.ServiceStatus{
			State: consolev1.ServiceState_SERVICE_STATE_HEALTHY, StateSince: Before(3 * time.Minute),
			Git: &consolev1.GitTruth{Revision: revision, FetchTime: Before(4 * time.Minute)},
			Hub: &consolev1.HubTruth{
				Digest: "sha256:0123456789", Revision: revision, ResolveTime: Before(230 * time.Second),
				Artifact: &artifactv1.Artifact{Digest: "sha256:abcdef0123", Size: 2048, Files: 3},
			},
			Cluster: &consolev1.ClusterTruth{
				ReceiveTime: Before(3 * time.Minute), Report: &deliveryv1.ServiceReport{
					Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: "sha256:0123456789", Commit: "fedcba9876",
					AppliedDigest: "sha256:0123456789", AppliedCommit: "fedcba9876",
					AppliedTime: Before(200 * time.Second), ObservedTime: Before(190 * time.Second),
					ObjectsTotal: 3, ObjectsHealthy: 3,
				},
			},
		},
	}
}

// Squeeze makes columns one space apart: how they align is the table's test.
func Squeeze(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}
