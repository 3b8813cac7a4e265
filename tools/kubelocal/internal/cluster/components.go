package cluster

import (
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// The components' arguments. Paths are relative to the cluster's folder, their working directory.

// etcdSocket is in the cluster's folder: no port and no certificates, since that folder is closed to
// others. The ":0" is part of the file's name; etcd insists on something like a port.
const etcdSocket = "unix://etcd.sock:0"

func etcdArgs() []string {
	const peers = "unix://etcd-peer.sock:0"
	return []string{
		"--name=local",
		"--data-dir=etcd",
		"--listen-client-urls=" + etcdSocket,
		"--advertise-client-urls=" + etcdSocket,
		"--listen-peer-urls=" + peers,
		"--initial-advertise-peer-urls=" + peers,
		"--initial-cluster=local=" + peers,
		"--unsafe-no-fsync", // survives a killed process (the page cache has it), not a power cut
		"--log-level=warn",
	}
}

func apiserverArgs(cfg Config, p ports) []string {
	args := []string{
		"--etcd-servers=" + etcdSocket,
		"--bind-address=" + cfg.Bind,
		"--advertise-address=" + cfg.Bind,
		"--secure-port=" + strconv.Itoa(p.APIServer),
		"--tls-cert-file=pki/apiserver.crt",
		"--tls-private-key-file=pki/apiserver.key",
		"--client-ca-file=pki/ca.crt",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true", // as every distribution sets it: storage and network drivers need it
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=pki/service-accounts.key",
		"--service-account-signing-key-file=pki/service-accounts.key",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--kubelet-certificate-authority=pki/ca.crt",
		"--kubelet-client-certificate=pki/apiserver-kubelet-client.crt",
		"--kubelet-client-key=pki/apiserver-kubelet-client.key",
		"--kubelet-preferred-address-types=InternalIP",
		// The aggregation layer: extension API servers trust user names that come with this certificate.
		"--requestheader-client-ca-file=pki/front-proxy-ca.crt",
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=pki/front-proxy-client.crt",
		"--proxy-client-key-file=pki/front-proxy-client.key",
		"--profiling=false",
		"--shutdown-send-retry-after=true", // else open watches hold up a stop for a minute
	}
	if net.ParseIP(cfg.Bind).IsLoopback() {
		args = append(args, "--endpoint-reconciler-type=none") // a loopback address is no valid endpoint
	}
	if cfg.Nodes == 0 {
		args = append(args,
			"--enable-admission-plugins=NodeRestriction", // a kubelet changes its own node and pods alone
			"--enable-aggregator-routing=true",           // dials pods, for nothing here carries traffic to a Service's address
		)
	}
	if cfg.AuditLog {
		args = append(args,
			"--audit-policy-file="+auditFile,
			"--audit-log-path="+filepath.Join(logsDir, "audit.log"),
			"--audit-log-mode=blocking", // a request that was answered is in the log
			"--audit-log-maxsize=64",    // MiB, then a new file
			"--audit-log-maxbackup=2",
		)
	}
	return args
}

func controllerManagerArgs() []string {
	return []string{
		"--kubeconfig=kube-controller-manager.kubeconfig",
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
		"--root-ca-file=pki/ca.crt",
		"--service-account-private-key-file=pki/service-accounts.key",
		"--cluster-signing-cert-file=pki/ca.crt",
		"--cluster-signing-key-file=pki/ca.key",
		// The defaults (20 and 30 a second) are for hundreds of clusters' worth of neighbours.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

func schedulerArgs() []string {
	return []string{
		"--kubeconfig=kube-scheduler.kubeconfig",
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

func kwokArgs(p ports) []string {
	return []string{
		"--kubeconfig=kwok.kubeconfig",
		"--config=" + kwokConfigFile,
		"--manage-all-nodes=true",
		// No leases: the holder's name in a lease is new in every kwok process, so that after a restart
		// the nodes would be nobody's until the old leases have expired.
		"--node-lease-duration-seconds=0",
		"--cidr=10.244.0.0/16",
		"--node-ip=127.0.0.1",
		"--node-port=" + strconv.Itoa(p.Kubelet),
		"--server-address=" + loopback(p.Kwok),
		"--tls-cert-file=pki/kubelet.crt",
		"--tls-private-key-file=pki/kubelet.key",
	}
}

// kubeletArgs: without exec, kubectl exec is refused with the reason.
func kubeletArgs(p ports, exec bool) []string {
	args := []string{
		"--listen=" + loopback(p.Kubelet),
		"--tls-cert-file=pki/kubelet.crt",
		"--tls-private-key-file=pki/kubelet.key",
		"--client-ca-file=pki/ca.crt",
		"--client-name=" + kubeletClient,
		"--kwok=" + loopback(p.Kwok),
	}
	if exec {
		args = append(args, "--exec-dir="+execDir)
	}
	return args
}

//go:embed kwok.yaml
var kwokStages []byte

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// writeConfigs writes the files that the arguments above name, and the administrator's kubeconfig.
func writeConfigs(dir, name, server string, credentials pki) error {
	if err := os.MkdirAll(filepath.Join(dir, execDir), 0o700); err != nil {
		return fmt.Errorf("make the folder of kubectl exec: %w", err)
	}
	logs := fmt.Sprintf(`---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec: {logs: [{logsFile: %[1]q}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterAttach
metadata: {name: all}
spec: {attaches: [{logsFile: %[1]q}]}
`, filepath.Join(dir, podLogFile))

	files := map[string][]byte{
		kwokConfigFile: append(kwokStages[:len(kwokStages):len(kwokStages)], logs...),
		auditFile:      []byte(auditPolicy),
	}
	for file, user := range map[string]string{
		kubeconfigFile:                       adminCert,
		"kube-controller-manager.kubeconfig": "kube-controller-manager",
		"kube-scheduler.kubeconfig":          "kube-scheduler",
		"kwok.kubeconfig":                    "kwok",
	} {
		content, err := kubeconfig(name, user, server, credentials)
		if err != nil {
			return err
		}
		files[file] = content
	}
	for file, content := range files {
		if err := writeFile(filepath.Join(dir, file), content); err != nil {
			return err
		}
	}
	return nil
}

func kubeconfig(name, user, server string, credentials pki) ([]byte, error) {
	caPEM, err1 := credentials.cert(ca)
	certPEM, err2 := credentials.cert(user)
	keyPEM, err3 := credentials.key(user)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("read the certificate of %s: %w", user, err)
	}
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: %[1]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[2]s
clusters:
- name: %[1]s
  cluster:
    server: %[3]s
    certificate-authority-data: %[4]s
users:
- name: %[2]s
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
`, strconv.Quote(name), user, server, encode(caPEM), encode(certPEM), encode(keyPEM)), nil
}
