// Package web holds the pages that people see in a browser, as tools/web.sh built them.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Pages are the built files. Without index.html among them nobody has built the pages.
func Pages() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // The name is a constant.
	}
	return files
}
