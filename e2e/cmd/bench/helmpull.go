package main

import (
	"errors"
	"os"

	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/repo/v1"
)

// helmPull does what `helm pull web --repo URL --version VERSION --untar --untardir FOLDER` does.
func helmPull(args []string) error {
	if len(args) != 3 {
		return errors.New("helm-pull URL VERSION FOLDER")
	}
	url, version, folder := args[0], args[1], args[2]
	getters := getter.All(cli.New())
	at, err := repo.FindChartInRepoURL(url, "web", getters, repo.WithChartVersion(version))
	if err != nil {
		return err
	}
	http, err := getters.ByScheme("http")
	if err != nil {
		return err
	}
	tgz, err := http.Get(at)
	if err != nil {
		return err
	}
	file := folder + ".tgz"
	if err := os.WriteFile(file, tgz.Bytes(), 0o600); err != nil {
		return err
	}
	return chartutil.ExpandFile(folder, file)
}
