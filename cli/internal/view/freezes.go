package view

import (
	"time"

	"fairlead.dev/cli/internal/table"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
)

// FreezeOf is the freeze of a project or cluster; nil: there is none.
func FreezeOf(m catalogyaml.Message) *deliveryv1.Freeze {
	of, ok := m.(interface{ GetFreeze() *deliveryv1.Freeze })
	if !ok {
		return nil
	}
	return of.GetFreeze()
}

// DescribeFreeze returns a freeze in words; empty: there is none.
func DescribeFreeze(f *deliveryv1.Freeze) string {
	if f == nil {
		return ""
	}
	words := "frozen"
	if f.GetAuthor() != "" {
		words += " by " + table.CleanLine(f.GetAuthor())
	}
	words += FormatReason(f.GetReason())
	if IsSet(f.GetUntilTime()) {
		words += " until " + f.GetUntilTime().AsTime().Local().Format(time.RFC3339)
	}
	return words
}

// FormatReason returns a reason behind what it is for, in one line: a reason is what somebody typed.
func FormatReason(reason string) string {
	if reason = table.CleanLine(reason); reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
