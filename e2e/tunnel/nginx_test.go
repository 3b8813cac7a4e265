package tunnel

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"fairlead.dev/e2e/process"
)

// startNginx puts nginx before tunnels, as an ingress that was set up for HTTP/1.1 and WebSocket and for
// nothing else: it takes no HTTP/2, so agents can't have their bidirectional stream through it.
func (h *hub) startNginx(tunnels []string) error {
	var upstream strings.Builder
	for _, name := range tunnels {
		fmt.Fprintf(&upstream, "server %s max_fails=0; ", h.addr(name))
	}
	config := fmt.Sprintf(`
# One process of the user that runs the tests.
daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr warn;
worker_rlimit_nofile 4096;
events { worker_connections 2000; }
http {
	access_log %[1]s/nginx-access.log;
	client_body_temp_path %[1]s/nginx-body;
	proxy_temp_path %[1]s/nginx-proxy;
	fastcgi_temp_path %[1]s/nginx-fastcgi;
	uwsgi_temp_path %[1]s/nginx-uwsgi;
	scgi_temp_path %[1]s/nginx-scgi;
	map $http_upgrade $hop { default upgrade; '' ''; }
	upstream tunnels { %[2]s keepalive 32; }
	server {
		listen %[3]s ssl;
		ssl_certificate %[4]s;
		ssl_certificate_key %[5]s;
		client_max_body_size 0;
		location / {
			proxy_pass https://tunnels;
			proxy_http_version 1.1;
			proxy_set_header Host $http_host;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection $hop;
			proxy_request_buffering off;
			proxy_buffering off;
			proxy_read_timeout 1h;
			proxy_send_timeout 1h;
		}
	}
}
`, h.dir, upstream.String(), h.addr("nginx"), h.ca.CertFile, h.ca.KeyFile)
	if err := os.WriteFile(h.file("nginx.conf"), []byte(config), 0o600); err != nil {
		return err
	}
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx" // not in everybody's PATH
	}
	return h.add(process.New(h.dir, "nginx", path, "-p", h.dir, "-c", h.file("nginx.conf"), "-e", "stderr"))
}
