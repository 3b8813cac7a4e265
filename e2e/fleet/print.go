package fleet

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Print writes what was seen, for people.
func (r *Run) Print(w io.Writer) {
	for _, t := range r.Prepared {
		fmt.Fprintf(w, "prepared %s in %.1f s\n", t.What, t.Took.Seconds())
	}
	fmt.Fprintf(w, "\nFirst delivery of %d services to %d clusters: %.1f s\n", r.cfg.Clusters*r.cfg.Services, r.cfg.Clusters, r.Settled.Seconds())
	printUsage(w, r.SettledUsage)
	if r.cfg.Elsewhere == nil {
		fmt.Fprintf(w, "the console wrote %d MiB for a database of %d MiB\n", r.First.Written>>20, r.First.Database>>20)
	}
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(r.First.Calls)) {
		calls = append(calls, fmt.Sprintf("%d x %s", r.First.Calls[name], name))
	}
	fmt.Fprintf(w, "%d calls of agents were made again, and these were answered: %s\n", r.First.Refused, strings.Join(calls, ", "))
	fmt.Fprintf(w, "%d applies of a person meanwhile: p50 %.0f ms  p99 %.0f ms\n", r.First.Applies.Count,
		ms(r.First.Applies.Quantile(0.5)), ms(r.First.Applies.Quantile(0.99)))
	for _, text := range slices.Sorted(maps.Keys(r.First.ApplyErrors)) {
		fmt.Fprintf(w, "%d applies failed: %s\n", r.First.ApplyErrors[text], text)
	}
	if len(r.Steady) > 0 {
		fmt.Fprintf(w, "\nSteady state over %.0f s, polls every %s:\n", r.Window.Seconds(), r.cfg.NextPoll)
		printUsage(w, r.Steady)
		for _, name := range slices.Sorted(maps.Keys(r.Stats.Calls)) {
			t := r.Stats.Calls[name]
			fmt.Fprintf(w, "%-15s %7d calls  p50 %6.1f ms  p99 %6.1f ms\n", name, t.Count, ms(t.Quantile(0.5)), ms(t.Quantile(0.99)))
		}
		r.printPushes(w)
	}
	fmt.Fprintln(w)
	r.Wave.print(w)
	if r.cfg.Downloads == 1 {
		r.Pushed.print(w, "after the push")
	}
	if r.cfg.Cold {
		r.Cold.print(w, "with empty caches")
	}
	if r.Reconnected > 0 {
		fmt.Fprintf(w, "all agents back after a kill of the distributor: %.1f s\n", r.Reconnected.Seconds())
	}
	for _, name := range slices.Sorted(maps.Keys(r.Logged)) {
		if r.Logged[name] > 0 {
			fmt.Fprintf(w, "logged: %d %s\n", r.Logged[name], name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.errors.Errors)) {
		fmt.Fprintf(w, "agents met %d x %s\n", r.errors.Errors[name], name)
	}
	fmt.Fprintf(w, "clusters that do not have what the console says: %d\n", len(r.Wrong))
}

func (r *Run) printPushes(w io.Writer) {
	var all Times
	services := 0
	for _, p := range r.Pushes {
		all.merge(&p.times)
		services += p.Services
	}
	fmt.Fprintf(w, "%d pushes to %d services: p50 %.0f ms  p95 %.0f ms\n", len(r.Pushes), services, ms(all.Quantile(0.5)), ms(all.Quantile(0.95)))
}

func (p Push) print(w io.Writer) {
	fmt.Fprintf(w, "push to %d services: at %d; p50 %.0f ms  p95 %.0f ms  last %.0f ms\n", p.Services, p.Arrived, ms(p.P50), ms(p.P95), ms(p.Max))
}

func (o Origin) print(w io.Writer, when string) {
	fmt.Fprintf(w, "%s: %d downloads, %d builds, %d transfers to the distributor, %d downloads that waited for one\n",
		when, o.Downloads, o.Builds, o.Transfers, o.Misses)
}

func printUsage(w io.Writer, list []Usage) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "process\tcores\tCPU s\tRSS MiB\theap MiB\tdescriptors\tgoroutines\t")
	for _, u := range list {
		fmt.Fprintf(t, "%s\t%.3f\t%.1f\t%d\t%d\t%d\t%d\t\n", u.Name, u.Cores, u.CPU.Seconds(), u.RSSMiB, u.HeapMiB, u.Descriptors, u.Goroutines)
	}
	_ = t.Flush() // as with all that is printed here
}

func ms(d interface{ Microseconds() int64 }) float64 { return float64(d.Microseconds()) / 1e3 }
