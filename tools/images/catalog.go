package main

import "runtime"

// image is what an image is made of.
type image struct {
	name, title, description string
	// programs are packages of this repository by their path in the image. The first is the entrypoint, and the one that
	// is asked for health.
	programs []program
	// more arguments of the entrypoint and of the healthcheck.
	verb []string
	// service: it keeps its data in /data and has the verb healthcheck.
	service bool
	// folders that volumes take their owner from.
	folders []string
	// local: made of what is installed here, for this machine's platform only.
	local func() ([]file, error)
	// entrypoint and environment instead of those of a program.
	entrypoint, env []string
}

type program struct{ path, pkg string }

const description = "Git to Kubernetes clusters, and a safe way to look into them: "

// released are the images of the product.
func released() []image {
	service := func(name, does string, more ...program) image {
		return image{
			name: name, title: "Fairlead " + name, description: description + does, service: true,
			programs: append([]program{{"/" + name, "./services/" + name + "/cmd/" + name}}, more...),
		}
	}
	return []image{
		service("console", "the catalog, and who may do what"),
		service("gitcache", "fetches each repository once for everybody"),
		service("distributor", "hands services to the agents of clusters"),
		service("tunnel", "lets people reach clusters behind NAT"),
		service("agent", "keeps the services of one cluster applied", program{"/agent-render", "./services/agent/cmd/agent-render"}),
		{name: "cli", title: "Fairlead", description: description + "the command", programs: []program{theCommand()}, folders: secretFolders()},
	}
}

// secretFolders are what "fairlead init" fills, each a volume of docker-compose.yml, so that services see only what they need.
func secretFolders() []string {
	return []string{"ca", "tls", "hub", "metrics", "console", "redis", "postgres", "git", "join"}
}

// tryOut are the images that docker-compose.yml has besides, to try things out.
func tryOut() []image {
	return []image{
		{
			name: "git", title: "A small Git server", description: "Bare repositories over HTTPS, to try Fairlead out", service: true,
			programs: []program{theCommand()}, verb: []string{"git-server"}, local: gitFiles,
		},
		{
			name: "kubernetes", title: "A local Kubernetes",
			description: "The Kubernetes API in one process tree, to try Fairlead out; nothing runs in its pods",
			local:       kubernetesFiles, entrypoint: []string{"/kubelocal", "start"},
		},
	}
}

// standIns are named like public images that the compose file uses, for machines that reach no registry.
func standIns() []image {
	return []image{
		{name: "redis:7", local: redisFiles, entrypoint: []string{"/entrypoint"}},
		{name: "postgres:17", local: postgresFiles, entrypoint: []string{"/entrypoint"}, env: []string{"PATH=/usr/bin:/bin:" + postgresFolder() + "/bin"}},
		{name: "haproxy:3.2", local: haproxyFiles, entrypoint: []string{"/entrypoint"}},
		{name: "prom/prometheus:v3.5.0", local: prometheusFiles, entrypoint: []string{"/usr/bin/prometheus"}},
		{name: "otel/opentelemetry-collector:0.155.0", local: collectorFiles, entrypoint: []string{"/otelcol"}},
	}
}

// platform is an operating system and an architecture, as Go and OCI call them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// ending of the names of programs.
func (p platform) ending() string {
	if p.os == "windows" {
		return ".exe"
	}
	return ""
}

func thisPlatform() platform { return platform{"linux", runtime.GOARCH} }
