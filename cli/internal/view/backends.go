package view

import (
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func (v View) backendRow(b *consolev1.Backend) (r row) {
	name, state := b.GetMetadata().GetName(), "Ready"
	switch problem := b.GetStatus().GetProblem(); {
	case problem.GetMessage() != "":
		state = "Failing"
		r.notes = []note{{about: name, text: problem.GetMessage() + "; services keep the values that they have", since: problem.GetSince()}}
	case b.GetStatus().GetReadTime() == nil:
		state = "Pending"
	}
	at, secret := describePlace(b.GetSpec())
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"READ", v.AgoText(b.GetStatus().GetReadTime())},
		{"AT", at},
		{"PROJECTS", strings.Join(b.GetSpec().GetProjects(), ",")},
	}
	r.more = []cell{{"PATHS", strings.Join(b.GetSpec().GetPaths(), ",")}, {"SECRET", secret}}
	return r
}

// describePlace says in words where a backend is, and which Secret has its credential.
func describePlace(spec *consolev1.BackendSpec) (at, secret string) {
	switch of := spec.GetAt().(type) {
	case *consolev1.BackendSpec_Kubernetes:
		return strings.TrimSpace("kubernetes " + of.Kubernetes.GetServer()), of.Kubernetes.GetSecret()
	case *consolev1.BackendSpec_Vault:
		return "vault " + of.Vault.GetAddress(), of.Vault.GetSecret()
	case *consolev1.BackendSpec_Files:
		return strings.TrimSpace("files " + of.Files.GetFolder()), of.Files.GetSecret()
	}
	return "", ""
}
