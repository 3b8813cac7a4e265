package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	helm "helm.sh/helm/v4/pkg/registry"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// find reads how the registry of a folder is reached.
func find(folder string) (is ready, client *http.Client, err error) {
	b, err := os.ReadFile(filepath.Join(folder, "ready.json"))
	if err != nil {
		return is, nil, err
	}
	if err := json.Unmarshal(b, &is); err != nil {
		return is, nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(is.CA))
	return is, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}, nil
}

// helmPush does what `helm push` does.
func helmPush(folder, reference, file string) error {
	is, client, err := find(folder)
	if err != nil {
		return err
	}
	options := []helm.ClientOption{helm.ClientOptHTTPClient(client), helm.ClientOptBasicAuth(is.Username, is.Password), helm.ClientOptWriter(os.Stderr)}
	if is.Plain {
		options = append(options, helm.ClientOptPlainHTTP())
	}
	pusher, err := helm.NewClient(options...)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	result, err := pusher.Push(data, is.Host+"/"+reference)
	if err != nil {
		return err
	}
	fmt.Println(result.Manifest.Digest)
	return nil
}

// orasPush does what `oras push` does. A file may be a folder, which ORAS packs.
func orasPush(ctx context.Context, folder, reference, kind string, files []string) error {
	is, client, err := find(folder)
	if err != nil {
		return err
	}
	store, err := file.New("")
	if err != nil {
		return err
	}
	defer store.Close()
	var layers []ocispec.Descriptor
	for _, one := range files {
		path, mediaType, _ := strings.Cut(one, ":")
		layer, err := store.Add(ctx, filepath.Base(path), mediaType, path)
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	manifest, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, kind, oras.PackManifestOptions{Layers: layers})
	if err != nil {
		return err
	}
	name, tag, _ := strings.Cut(reference, ":")
	if err := store.Tag(ctx, manifest, tag); err != nil {
		return err
	}
	repository, err := orasRepository(is, client, name)
	if err != nil {
		return err
	}
	if _, err := oras.Copy(ctx, store, tag, repository, tag, oras.DefaultCopyOptions); err != nil {
		return err
	}
	fmt.Println(manifest.Digest)
	return nil
}

func orasRepository(is ready, client *http.Client, name string) (*remote.Repository, error) {
	repository, err := remote.NewRepository(is.Host + "/" + name)
	if err != nil {
		return nil, err
	}
	repository.PlainHTTP = is.Plain
	repository.Client = &auth.Client{Client: client, Credential: auth.StaticCredential(is.Host, auth.Credential{Username: is.Username, Password: is.Password})}
	return repository, nil
}

// orasPull does what `oras pull` does: the files are in the folder to.
func orasPull(ctx context.Context, folder, reference, to string) error {
	is, client, err := find(folder)
	if err != nil {
		return err
	}
	name, version, ok := strings.Cut(reference, "@")
	if !ok {
		name, version, _ = strings.Cut(reference, ":")
	}
	repository, err := orasRepository(is, client, name)
	if err != nil {
		return err
	}
	store, err := file.New(to)
	if err != nil {
		return err
	}
	defer store.Close()
	manifest, err := oras.Copy(ctx, repository, version, store, version, oras.DefaultCopyOptions)
	if err != nil {
		return err
	}
	fmt.Println(manifest.Digest)
	return nil
}
