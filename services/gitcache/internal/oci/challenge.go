package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Challenge is how a registry wants a request to be authorized.
type Challenge struct {
	Bearer         bool   // else it is basic
	Realm, Service string // of a token service
}

// maxChallengeBytes of one header.
const maxChallengeBytes = 8 << 10

// ParseChallenges reads WWW-Authenticate headers; a token counts for more than a password. False: there is none that
// Fairlead can meet.
func ParseChallenges(headers []string) (c Challenge, ok bool) {
	for _, header := range headers {
		if len(header) > maxChallengeBytes {
			continue
		}
		for scheme, params := range challenges(header) {
			switch {
			case strings.EqualFold(scheme, "bearer") && params["realm"] != "":
				return Challenge{Bearer: true, Realm: params["realm"], Service: params["service"]}, true
			case strings.EqualFold(scheme, "basic"):
				ok = true
			}
		}
	}
	return Challenge{}, ok
}

// challenges are the schemes of a header with their parameters: Scheme key="value", key=value, Scheme ...
func challenges(text string) func(yield func(string, map[string]string) bool) {
	return func(yield func(string, map[string]string) bool) {
		scheme, params := "", map[string]string{}
		for text = strings.TrimLeft(text, " \t,"); text != ""; text = strings.TrimLeft(text, " \t,") {
			word := text[:tokenEnd(text)]
			if word == "" { // nothing that can be read: the rest is left
				break
			}
			text = strings.TrimLeft(text[len(word):], " \t")
			value, isParam := strings.CutPrefix(text, "=")
			if !isParam {
				if scheme != "" && !yield(scheme, params) {
					return
				}
				scheme, params = word, map[string]string{}
				continue
			}
			value, text = parameter(strings.TrimLeft(value, " \t"))
			params[strings.ToLower(word)] = value
		}
		if scheme != "" {
			yield(scheme, params)
		}
	}
}

// tokenEnd is the length of the word at the beginning.
func tokenEnd(text string) int {
	if at := strings.IndexAny(text, " \t,=\""); at >= 0 {
		return at
	}
	return len(text)
}

// parameter reads a value, quoted or not.
func parameter(text string) (value, rest string) {
	quoted, ok := strings.CutPrefix(text, `"`)
	if !ok {
		at := strings.IndexAny(text, " \t,")
		if at < 0 {
			at = len(text)
		}
		return text[:at], text[at:]
	}
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch c := quoted[i]; {
		case c == '"':
			return b.String(), quoted[i+1:]
		case c == '\\' && i+1 < len(quoted):
			i++
			b.WriteByte(quoted[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

const (
	// MaxTokenBytes of the answer of a token service.
	MaxTokenBytes = 1 << 20
	// maxTokenBytes of the token itself, which is a header.
	maxTokenBytes = 64 << 10
	// usualTokenLife is that of a token which does not say it.
	usualTokenLife = time.Minute
	mostTokenLife  = 24 * time.Hour
)

// DecodeToken reads what a token service answers.
func DecodeToken(body []byte) (token string, life time.Duration, err error) {
	var answer struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", 0, errors.New("the token service's answer is not JSON that can be read")
	}
	token = answer.Token
	if token == "" {
		token = answer.AccessToken
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", 0, errors.New("the token service's answer holds no token")
	}
	if len(token) > maxTokenBytes {
		return "", 0, fmt.Errorf("the token service's token is larger than the limit of %d KiB", maxTokenBytes>>10)
	}
	life = usualTokenLife
	if answer.ExpiresIn > 0 {
		life = time.Duration(min(answer.ExpiresIn, mostTokenLife.Seconds())) * time.Second
	}
	return token, life, nil
}
