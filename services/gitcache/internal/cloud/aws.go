package cloud

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"fairlead.dev/services/gitcache/internal/bucket"
)

// regionName is a part of hosts' names.
var regionName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// The agent of EKS Pod Identity on each node, by IPv4 and IPv6.
const (
	podIdentity4 = "http://169.254.170.23/v1/credentials"
	podIdentity6 = "http://[fd00:ec2::23]/v1/credentials"
)

// awsKeys are those of the pod (a role for its service account, or Pod Identity), or else of the machine. A pod that
// was given an identity in another way does not get the machine's instead: that may have other rights.
func (l *Logins) awsKeys(ctx context.Context) (Login, error) {
	const full, relative = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
	agent := l.o.Getenv(full)
	switch {
	case l.o.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "":
		return l.webIdentity(ctx)
	case agent == podIdentity4, agent == podIdentity6:
		token, err := l.file("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
		if err != nil {
			return Login{}, err
		}
		return l.awsDocument(ctx, agent, map[string]string{"Authorization": token})
	case agent != "":
		return Login{}, errors.New("the gitcache's " + full + " is not the agent of EKS Pod Identity. Remove it, or name a secret instead of auth")
	case l.o.Getenv(relative) != "":
		return Login{}, errors.New("the gitcache has " + relative + ", which is of ECS and not read. Remove it, or name a secret instead of auth")
	}
	return l.machine(ctx)
}

// machine asks the metadata service of EC2, version 2.
func (l *Logins) machine(ctx context.Context) (Login, error) {
	const seconds = "60"
	token, err := l.send(ctx, request{
		method: http.MethodPut, url: l.o.Places.Metadata + "/latest/api/token",
		headers: map[string]string{"X-aws-ec2-metadata-token-ttl-seconds": seconds}, isMetadata: true,
	})
	if err != nil {
		return Login{}, err
	}
	headers := map[string]string{"X-aws-ec2-metadata-token": string(token)}
	roles := l.o.Places.Metadata + "/latest/meta-data/iam/security-credentials/"
	role, err := l.send(ctx, request{method: http.MethodGet, url: roles, headers: headers, isMetadata: true})
	if err != nil {
		return Login{}, err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(role)), "\n")
	if name == "" {
		return Login{}, errors.New("the gitcache's machine has no role. Give it one, or name a secret instead of auth")
	}
	return l.awsDocument(ctx, roles+url.PathEscape(name), headers)
}

// awsDocument reads keys as metadata services have them.
func (l *Logins) awsDocument(ctx context.Context, at string, headers map[string]string) (Login, error) {
	text, err := l.send(ctx, request{method: http.MethodGet, url: at, headers: headers, isMetadata: true})
	if err != nil {
		return Login{}, err
	}
	return decodeKeys(text)
}

func decodeKeys(text []byte) (Login, error) {
	var is struct {
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		Token           string
		Expiration      time.Time
	}
	if err := decode(text, &is); err != nil {
		return Login{}, err
	}
	return keys(is.AccessKeyID, is.SecretAccessKey, is.Token, is.Expiration)
}

func keys(access, secret, session string, until time.Time) (Login, error) {
	if access == "" || secret == "" || strings.ContainsAny(access+session, " \r\n") {
		return Login{}, errors.New("the answer has no keys")
	}
	return Login{AccessKey: access, SecretKey: secret, SessionToken: session, Until: until}, nil
}

// webIdentity changes the token of the pod's service account into keys of a role.
func (l *Logins) webIdentity(ctx context.Context) (Login, error) {
	token, err := l.file("AWS_WEB_IDENTITY_TOKEN_FILE")
	if err != nil {
		return Login{}, err
	}
	region := cmp.Or(l.o.Getenv("AWS_REGION"), l.o.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	if !regionName.MatchString(region) {
		return Login{}, errors.New("AWS_REGION is no name of a region")
	}
	text, err := l.send(ctx, request{method: http.MethodPost, url: place(l.o.Places.STS, region) + "/", form: url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {l.o.Getenv("AWS_ROLE_ARN")},
		"RoleSessionName": {cmp.Or(l.o.Getenv("AWS_ROLE_SESSION_NAME"), "fairlead-gitcache")}, "WebIdentityToken": {token},
	}})
	if err != nil {
		return Login{}, err
	}
	return decodeRole(text)
}

func decodeRole(text []byte) (Login, error) {
	var is struct {
		Credentials struct {
			AccessKeyID     string `xml:"AccessKeyId"`
			SecretAccessKey string
			SessionToken    string
			Expiration      time.Time
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if xml.Unmarshal(text, &is) != nil {
		return Login{}, errors.New("the answer can't be read")
	}
	c := is.Credentials
	return keys(c.AccessKeyID, c.SecretAccessKey, c.SessionToken, c.Expiration)
}

// ecr changes keys into a login of the registries of a region.
func (l *Logins) ecr(ctx context.Context, with Login, region string) (Login, error) {
	region = cmp.Or(region, l.o.Getenv("AWS_REGION"))
	if !regionName.MatchString(region) {
		return Login{}, errors.New("the registry's host names no region")
	}
	text, err := l.send(ctx, request{
		method: http.MethodPost, url: place(l.o.Places.ECR, region) + "/", body: []byte("{}"),
		headers: map[string]string{"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"},
		sign: func(req *http.Request, body []byte) {
			bucket.Sign(req, body, bucket.Keys{Access: with.AccessKey, Secret: with.SecretKey, Session: with.SessionToken}, region, "ecr", time.Now())
		},
	})
	if err != nil {
		return Login{}, err
	}
	return decodeECR(text)
}

func decodeECR(text []byte) (Login, error) {
	var is struct {
		AuthorizationData []struct {
			AuthorizationToken string      `json:"authorizationToken"`
			ExpiresAt          json.Number `json:"expiresAt"`
		} `json:"authorizationData"`
	}
	if err := decode(text, &is); err != nil {
		return Login{}, err
	}
	if len(is.AuthorizationData) == 0 {
		return Login{}, errors.New("the answer has no login")
	}
	plain, err := base64.StdEncoding.DecodeString(is.AuthorizationData[0].AuthorizationToken)
	username, password, ok := strings.Cut(string(plain), ":")
	if err != nil || !ok || username == "" || password == "" {
		return Login{}, errors.New("the answer has no login")
	}
	until := time.Now()
	if seconds, err := is.AuthorizationData[0].ExpiresAt.Float64(); err == nil && seconds > 0 && seconds < 1<<40 {
		until = time.Unix(int64(seconds), 0)
	}
	return Login{Username: username, Password: password, Until: until}, nil
}

// place fills a region in, if there is a place for it.
func place(form, with string) string {
	if !strings.Contains(form, "%s") {
		return form
	}
	return fmt.Sprintf(form, with)
}
