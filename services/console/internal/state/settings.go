package state

// Setting is one value of a service's configuration. One of its fields is set.
type Setting struct {
	Text   *string  `json:"text,omitempty"`
	Number *float64 `json:"number,omitempty"`
	Flag   *bool    `json:"flag,omitempty"`
	// JSON is an object or a list.
	JSON *string `json:"json,omitempty"`
	// Secret says that the value is among the resource's sealed ones.
	Secret bool        `json:"secret,omitempty"`
	Ref    *SettingRef `json:"ref,omitempty"`

	// Write is a secret on its way in, which is never stored here; empty: the secret that is there stays.
	Write string `json:"-"`
}

// SettingRef is a value that is kept elsewhere.
type SettingRef struct {
	// Backend is empty for the catalog's own Secrets.
	Backend string `json:"backend,omitempty"`
	Path    string `json:"path"`
	Key     string `json:"key"`
	// Plain values may be shown.
	Plain bool `json:"plain,omitempty"`
}

// Settings are configuration by name.
type Settings map[string]Setting

// SecretSetting is a secret to be written; with an empty value the one that is there stays.
func SecretSetting(value string) Setting { return Setting{Secret: true, Write: value} }

// Settings are those of the service itself.
func (s ServiceSpec) Settings() Settings { return s.Config }

// Settings are those of the cluster itself.
func (s ClusterSpec) Settings() Settings { return s.Config }
