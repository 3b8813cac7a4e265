// Package layout says where things are in a lab, and which addresses they have. Each lab has a network and mounts of its own,
// so that these are the same in every lab.
package layout

import (
	"fmt"
	"net"
	"path/filepath"
)

// Folders as all processes of a lab see them: short, and the same whatever the folders are called outside.
const (
	mounted = "/mnt"
	// Dir is the lab's folder.
	Dir = mounted + "/lab"
	// Programs holds nodelocal, kubelet, kube-proxy and the CNI plugins.
	Programs = mounted + "/programs"
	// KubelocalDir holds kubelocal.
	KubelocalDir = mounted + "/kubelocal"
)

// Files in the lab's folder.
const (
	Cluster    = "cluster"      // kubelocal's folder
	Kubeconfig = "kubeconfig"   // for this machine, by the port that is forwarded
	Socket     = "control.sock" // of the lab, see package lab
	LabPID     = "lab.pid"      // of the lab's first process, as this machine counts
	NodePID    = "pid"          // in a node's folder: of its first process, as the lab counts
	Groups     = "cgroups"      // in a node's folder: its control groups, a line each
	Images     = "images"       // paths of the archives, a line each
)

// Mounted is what the lab mounts its folders below.
const Mounted = mounted

// Addresses.
const (
	Bridge       = "nodes"
	Gateway      = "10.88.0.1" // of the lab itself: control plane, name server, whatever is run beside the nodes
	Nodes        = "10.88.0.0/24"
	Pods         = "10.244.0.0/16"
	Services     = "10.96.0.0/16"
	DNSService   = "10.96.0.10"
	DNSPort      = 53
	PrefixLength = 24
	MaxNodes     = 50
	Domain       = "cluster.local"
)

// NodeName of node 1, 2 and so on.
func NodeName(number int) string { return fmt.Sprintf("node-%d", number) }

// NodeAddress of a node on the bridge.
func NodeAddress(number int) net.IP { return net.IPv4(10, 88, 0, byte(number+1)) }

// PodRange is what a node gives to its pods.
func PodRange(number int) string { return fmt.Sprintf("10.244.%d.0/24", number) }

// InLab is a file in the lab's folder, as the lab's processes see it.
func InLab(elements ...string) string {
	return filepath.Join(append([]string{Dir}, elements...)...)
}

// Program of this tool's folder, as the lab's processes see it.
func Program(name string) string { return filepath.Join(Programs, name) }
