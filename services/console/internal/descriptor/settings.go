package descriptor

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/state"
)

// Settings are what a caller says of configuration.
func Settings(in map[string]*consolev1.ConfigSetting) state.Settings {
	if len(in) == 0 {
		return nil
	}
	out := make(state.Settings, len(in))
	for name, set := range in {
		switch v := set.GetValue().(type) {
		case *consolev1.ConfigSetting_Text:
			out[name] = state.Setting{Text: &v.Text}
		case *consolev1.ConfigSetting_Number:
			out[name] = state.Setting{Number: &v.Number}
		case *consolev1.ConfigSetting_Flag:
			out[name] = state.Setting{Flag: &v.Flag}
		case *consolev1.ConfigSetting_Json:
			out[name] = state.Setting{JSON: &v.Json}
		case *consolev1.ConfigSetting_Secret:
			out[name] = state.SecretSetting(v.Secret)
		case *consolev1.ConfigSetting_Ref:
			out[name] = state.Setting{Ref: &state.SettingRef{Backend: v.Ref.GetBackend(), Path: v.Ref.GetPath(), Key: v.Ref.GetKey(), Plain: v.Ref.GetPlain()}}
		}
	}
	return out
}

// ConfigSettings are those of a resource. It leaves the values of secrets empty.
func ConfigSettings(in state.Settings) map[string]*consolev1.ConfigSetting {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]*consolev1.ConfigSetting, len(in))
	for name, s := range in {
		set := &consolev1.ConfigSetting{}
		switch {
		case s.Text != nil:
			set.Value = &consolev1.ConfigSetting_Text{Text: *s.Text}
		case s.Number != nil:
			set.Value = &consolev1.ConfigSetting_Number{Number: *s.Number}
		case s.Flag != nil:
			set.Value = &consolev1.ConfigSetting_Flag{Flag: *s.Flag}
		case s.JSON != nil:
			set.Value = &consolev1.ConfigSetting_Json{Json: *s.JSON}
		case s.Secret:
			set.Value = &consolev1.ConfigSetting_Secret{}
		case s.Ref != nil:
			set.Value = &consolev1.ConfigSetting_Ref{Ref: &consolev1.ConfigRef{Backend: s.Ref.Backend, Path: s.Ref.Path, Key: s.Ref.Key, Plain: s.Ref.Plain}}
		}
		out[name] = set
	}
	return out
}

// MaskSettings writes masks for secrets, and says which have changed.
func MaskSettings(in map[string]*consolev1.ConfigSetting, changed map[string]bool) {
	for name, set := range in {
		secret, ok := set.GetValue().(*consolev1.ConfigSetting_Secret)
		if !ok {
			continue
		}
		if secret.Secret = catalog.Masked; changed[name] {
			secret.Secret += " (changed)"
		}
	}
}
