package start_test

import (
	"testing"

	"fairlead.dev/cli/internal/hubtest"
)

// What runs is tested by the scripts of cmd/fairlead and e2e: here is what is refused before anything is started.
func TestUpRefusesWhatItCantDo(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"an argument": {
			Line: "up now", NoHub: true,
			Err: "use it as `fairlead up`: see `fairlead up --help`",
		},
		"no place for its data": {
			Line: "up --no-clusters", NoHub: true,
			Err: "where to keep the data is unknown: give --data-dir, or set HOME",
		},
		"a certificate, no key": {
			Line: "up --data-dir FOLDER/data --tls-cert cert.pem", NoHub: true,
			Err: "--tls-cert and --tls-key are needed together",
		},
		"a name for an address": {
			Line: "up --data-dir FOLDER/data --listen-host hub.example.com", NoHub: true,
			Err: `--listen-host "hub.example.com": must be an IP address`,
		},
		"all addresses, no TLS": {
			Line: "up --data-dir FOLDER/data --listen-host 0.0.0.0", NoHub: true,
			Err: "--listen-host 0.0.0.0 can be reached from other machines: give --tls-cert and --tls-key of " +
				"a certificate for --advertise-host, so that they can tell this hub from another; or leave " +
				"it at 127.0.0.1",
		},
		"an unknown level of log": {
			Line: "up --data-dir FOLDER/data --log-level loud", NoHub: true,
			Err: `invalid argument "loud" for "--log-level" flag: slog: level string "loud": unknown name: ` +
				"see `fairlead up --help`",
		},
		"a kubeconfig that is not there": {
			Line: "up --data-dir FOLDER/data --kubeconfig FOLDER/nope --context kind-a", NoHub: true,
			Err: "kubeconfig: FOLDER/nope does not exist",
		},
		"the kubeconfig of the environment, not there": {
			Line: "up --data-dir FOLDER/data --context kind-a", NoHub: true,
			Env: map[string]string{"KUBECONFIG": "FOLDER/mine"},
			Err: "kubeconfig: FOLDER/mine does not exist",
		},
		"the kubeconfig of the person, not there": {
			Line: "up --context kind-a", NoHub: true, Env: map[string]string{"HOME": "FOLDER"},
			Err: "kubeconfig: folder FOLDER/.kube does not exist",
		},
	})
}

func TestFilesOfAnInstallationAreMadeOnce(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"all": {
			Line: "init --dir FOLDER/secrets --host hub.example.com", NoHub: true,
			Stdout: `made FOLDER/secrets/tls/tls.key
made FOLDER/secrets/tls/tls.crt
made FOLDER/secrets/tls/ca.crt
made FOLDER/secrets/console/master.key
made FOLDER/secrets/hub/hub.secret
made FOLDER/secrets/metrics/metrics.token
made FOLDER/secrets/metrics/ca.crt
made FOLDER/secrets/redis/password
made FOLDER/secrets/redis/url
made FOLDER/secrets/postgres/password
made FOLDER/secrets/postgres/url
`,
		},
		"no folder": {
			Line: "init --host hub.example.com", NoHub: true,
			Err: "--dir must be given: see `fairlead init --help`",
		},
		"no host": {
			Line: "init --dir FOLDER/secrets", NoHub: true,
			Err: "--host must be given: see `fairlead init --help`",
		},
		"an argument": {
			Line: "init --dir FOLDER/secrets --host hub.example.com again", NoHub: true,
			Err: "use it as `fairlead init --dir DIR --host HOST`: see `fairlead init --help`",
		},
		"a wrong host": {
			Line: "init --dir FOLDER/secrets --host https://hub.example.com", NoHub: true,
			Err: `--host "https://hub.example.com": must be a name such as hub.example.com or *.example.com, ` +
				"or an IP address",
		},
		"a URL without a place for the password": {
			Line: "init --dir FOLDER/secrets --host hub.example.com --redis-url redis://redis:6379", NoHub: true,
			Err: "--redis-url: must have {password} where the password belongs",
		},
		"a file in place of the folder": {
			Line: "init --dir FOLDER/secrets --host hub.example.com", NoHub: true, Files: map[string]string{"secrets": "mine"},
			Err: "local certificate: mkdir FOLDER/secrets: not a directory",
		},
	})
}

func TestServicesOfDockerComposeRefuseWhatTheyCantUse(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"the Git server without a password": {
			Line: "git-server --data-dir FOLDER --password-file FOLDER/nope", NoHub: true,
			Err: "--password-file: FOLDER/nope does not exist",
		},
		"the Git server with an unknown flag": {
			Line: "git-server --port 1", NoHub: true,
			Err: "flag provided but not defined: -port; see git-server --help",
		},
		"the Git server without a certificate": {
			Line: "git-server --data-dir FOLDER --password-file FOLDER/password", NoHub: true,
			Files: map[string]string{"password": "secret\n"},
			Err:   "git server: an account needs a name, a password and a TLS certificate",
		},
		"the front without services": {
			Line: "front --listen 127.0.0.1:0", NoHub: true,
			Err: "--tls-cert and --tls-key must be given: the front is reached by HTTPS only",
		},
		"the front with an argument": {
			Line: "front now", NoHub: true,
			Err: `unexpected argument "now": all settings are flags; see front --help`,
		},
	})
}
