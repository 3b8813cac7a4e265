package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// gitFiles are what `git http-backend` needs.
func gitFiles() ([]file, error) {
	return installed("git", "/usr/bin/git", "/usr/lib/git-core/git-http-backend")
}

// kubernetesFiles is the one binary that tools/kubelocal builds.
func kubernetesFiles() ([]file, error) {
	kubelocal := os.Getenv("KUBELOCAL")
	if kubelocal == "" {
		return nil, errors.New("KUBELOCAL is not set: set it to what tools/kubelocal/build.sh prints")
	}
	return []file{{path: "/kubelocal", mode: 0o755, from: kubelocal}}, nil
}

// shell is what the stand-ins' entrypoints and health checks are written in.
func shell() []string {
	return []string{"/bin/sh", "/bin/cat", "/bin/cp", "/bin/mkdir", "/bin/rm", "/bin/tar"}
}

// redisFiles do what the public image does: they run the command that is given.
func redisFiles() ([]file, error) {
	files, err := installed("redis-server", append(shell(), "/usr/bin/redis-server", "/usr/bin/redis-cli")...)
	return append(files, entrypoint(`exec "$@"`)), err
}

func haproxyFiles() ([]file, error) {
	files, err := installed("haproxy", append(shell(), "/usr/sbin/haproxy")...)
	return append(files, entrypoint(`exec "$@"`)), err
}

func prometheusFiles() ([]file, error) {
	files, err := installed("prometheus", "/usr/bin/prometheus", "/usr/bin/promtool")
	return append(files, file{path: "/prometheus", mode: 0o775, folder: true, mine: true}), err
}

// collectorFiles is what tools/collector builds.
func collectorFiles() ([]file, error) {
	collector := os.Getenv("COLLECTOR")
	if collector == "" {
		return nil, errors.New("COLLECTOR is not set: set it to what tools/collector/build.sh prints")
	}
	return []file{{path: "/otelcol", mode: 0o755, from: collector}}, nil
}

// postgresFolder is where the distribution has PostgreSQL's programs.
func postgresFolder() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*") // the pattern is well-formed
	if len(found) == 0 {
		return "/usr/lib/postgresql"
	}
	return found[len(found)-1]
}

// postgresFiles make the database at the first start, as the public image does.
func postgresFiles() ([]file, error) {
	folder := postgresFolder()
	share := strings.Replace(folder, "/lib/", "/share/", 1)
	files, err := installed("postgresql", append(shell(), folder+"/bin/postgres", folder+"/bin/initdb", folder+"/bin/pg_isready", folder+"/lib", share)...)
	files = append(files,
		file{path: "/var/lib/postgresql/data", mode: 0o1777, folder: true},
		file{path: "/var/run/postgresql", mode: 0o1777, folder: true},
		entrypoint(`if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-host=scram-sha-256 --auth-local=trust --locale=C --encoding=UTF8
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres
fi
exec "$@" -c listen_addresses='*'`))
	return files, err
}

func entrypoint(script string) file {
	return file{path: "/entrypoint", mode: 0o755, content: []byte("#!/bin/sh\nset -eu\n" + script + "\n")}
}

// installed returns programs and folders of this machine with the libraries that they need. Links become what they point to.
func installed(name string, paths ...string) ([]file, error) {
	c := closure{known: map[string]bool{}}
	for _, path := range paths {
		if err := c.add(path); err != nil {
			return nil, fmt.Errorf("%s is not installed here as Debian has it: run tools/install.sh: %w", name, err)
		}
	}
	return c.files, nil
}

type closure struct {
	known map[string]bool
	files []file
}

func (c *closure) add(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return c.addFile(path, info)
	}
	return filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, "llvmjit") { // LLVM is ten times as large as the rest
			return err
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			return nil // a link that leads nowhere, or to a folder
		}
		if err != nil {
			return err
		}
		return c.addFile(path, info)
	})
}

func (c *closure) addFile(path string, info fs.FileInfo) error {
	if c.known[path] {
		return nil
	}
	c.known[path] = true
	c.files = append(c.files, file{path: path, mode: int64(info.Mode().Perm()), from: path})
	libraries, err := needed(path)
	if err != nil {
		return err
	}
	for _, library := range libraries {
		if err := c.add(library); err != nil {
			return err
		}
	}
	return nil
}

var libraryPath = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

// needed asks the dynamic linker what a program or library loads.
func needed(path string) ([]string, error) {
	binary, err := elf.Open(path)
	if err != nil {
		return nil, nil //nolint:nilerr // no program: it needs nothing
	}
	defer func() { _ = binary.Close() }() // was read only
	if binary.Section(".dynamic") == nil {
		return nil, nil
	}
	out, err := exec.Command("ldd", path).CombinedOutput() //nolint:noctx // ends by itself
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w: %s", path, err, out)
	}
	var found []string
	for _, match := range libraryPath.FindAllStringSubmatch(string(out), -1) {
		found = append(found, match[1])
	}
	return found, nil
}
