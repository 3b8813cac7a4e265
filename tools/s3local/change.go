package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// changes of a bucket.
type changes struct {
	Put    map[string][]byte `json:"put"`
	Remove []string          `json:"remove"`
}

// change writes and removes objects, in the order of their keys. A bucket that is not there is made.
func change(ctx context.Context, folder, bucket string, versioned bool, input io.Reader) error {
	var wanted changes
	if err := json.NewDecoder(input).Decode(&wanted); err != nil {
		return err
	}
	client, err := connect(folder)
	if err != nil {
		return err
	}
	var owned *types.BucketAlreadyOwnedByYou
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{
		Bucket: &bucket, CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: region},
	}); err != nil && !errors.As(err, &owned) {
		return err
	}
	if versioned {
		if _, err := client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
			Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		}); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wanted.Put)) {
		if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(wanted.Put[key])}); err != nil {
			return err
		}
	}
	for _, key := range wanted.Remove {
		if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
			return err
		}
	}
	return nil
}

// connect makes a client of the server that serves the folder.
func connect(folder string) (*s3.Client, error) {
	text, err := os.ReadFile(filepath.Join(folder, "ready.json"))
	if err != nil {
		return nil, err
	}
	var is ready
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	roots, scheme := x509.NewCertPool(), "http://"
	if !is.Plain {
		roots.AppendCertsFromPEM([]byte(is.CA))
		scheme = "https://"
	}
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(scheme + is.Host), Region: is.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(is.AccessKey, is.SecretKey, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
	}), nil
}
