package node

import (
	"fmt"
	"os"
	"path/filepath"

	"fairlead.dev/tools/nodelocal/internal/layout"
)

const containerdSocket = "/run/containerd/containerd.sock"

// containerdConfig is of version 2, which containerd 1.6 and 2 read both.
// restrict_oom_score_adj: a machine may lack the capability SYS_RESOURCE. AppArmor's profiles would be the whole machine's.
func containerdConfig(dir string) string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`, containerdSocket, pauseImage, layout.Programs, filepath.Join(dir, "cni"), layout.InLab("registries"))
}

// cniConfig: each pod is a link of its own that the node routes. With a bridge, what one pod answers another of the same node
// would pass by the translation of a Service's address, unless the kernel has br_netfilter.
// The list of used addresses is in /run, so that a node whose power was cut does not leak them.
func cniConfig(number int) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"ptp","ipMasq":false,"ipam":{"type":"host-local","dataDir":"/run/cni",
"ranges":[[{"subnet":%q}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
`, layout.PodRange(number))
}

// kubeletConfig: images can't be pulled again, so none is removed for want of disk. oomScoreAdj and maxOpenFiles are what a machine
// without SYS_RESOURCE can have.
func kubeletConfig(dir string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[2]s/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: %[2]s/server.crt
tlsPrivateKeyFile: %[2]s/server.key
clusterDomain: %[3]s
clusterDNS: [%[4]s]
resolvConf: %[2]s/resolv.conf
failCgroupV1: false
cgroupDriver: cgroupfs
oomScoreAdj: 0
maxOpenFiles: 20000
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
registerNode: true
`, containerdSocket, dir, layout.Domain, layout.DNSService)
}

// proxyConfig: what comes from outside of the pods' range is masqueraded. The size of the table of connections belongs to the
// whole machine.
func proxyConfig(dir string) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %s/proxy.kubeconfig}
mode: iptables
clusterCIDR: %s
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, dir, layout.Pods)
}

// writeConfigs writes what the programs of a node read; certificates and kubeconfigs are the lab's.
func writeConfigs(number int, dir string) error {
	for name, content := range map[string]string{
		"containerd.toml":   containerdConfig(dir),
		"cni/pods.conflist": cniConfig(number),
		"kubelet.yaml":      kubeletConfig(dir),
		"proxy.yaml":        proxyConfig(dir),
		"resolv.conf":       "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
