// Package traces says which spans a trace has, for tests of whatever receives them. docs/operate/tracing.md says the
// same to people.
package traces

// Services, as their spans have them in the resource attribute service.name.
const (
	Console     = "fairlead-console"
	Gitcache    = "fairlead-gitcache"
	Distributor = "fairlead-distributor"
	Tunnel      = "fairlead-tunnel"
	Agent       = "fairlead-agent"
	CLI         = "fairlead-cli"
)

// Span is one of a trace. Attributes that tell services, clusters and commits apart are in the documentation.
type Span struct {
	Name    string
	Service string
	Parent  string // name of the span that it is a child of; empty: the trace begins with it
}

// Commit is the trace of a commit that is new to the hub, from the poll that finds it until its service is healthy in a
// cluster whose agent is connected. Spans from agent.sync on are there per cluster, those from agent.download on per
// service.
func Commit() []Span {
	return []Span{
		{"gitcache.poll", Gitcache, ""},
		{"gitcache.fetch", Gitcache, "gitcache.poll"},
		{"gitcache.publish", Gitcache, "gitcache.poll"},
		{"fairlead.console.v1.HeadService/PublishHeads", Console, "gitcache.publish"},
		{"distributor.resolve", Distributor, "gitcache.poll"},
		{"fairlead.artifact.v1.ArtifactService/Resolve", Gitcache, "distributor.resolve"},
		{"distributor.digest", Distributor, "gitcache.poll"},
		{"distributor.nudge", Distributor, "distributor.digest"},
		{"agent.sync", Agent, "distributor.nudge"},
		{"fairlead.delivery.v1.DeliveryService/Sync", Distributor, "agent.sync"},
		{"agent.download", Agent, "gitcache.poll"},
		{"/v1/artifacts/", Distributor, "agent.download"},
		{"agent.apply", Agent, "gitcache.poll"},
		{"agent.render", Agent, "agent.apply"},
		{"agent.healthy", Agent, "gitcache.poll"},
		{"console.healthy", Console, "gitcache.poll"},
	}
}

// Request is the trace of somebody's request to a cluster that the replica asked has no session of: the span of the
// tunnel that relays, that of the one that has the session, and the agent's.
func Request() []Span {
	return []Span{
		{"/clusters/", Tunnel, ""},
		{"/relay/", Tunnel, "/clusters/"},
		{"agent.request", Agent, "/relay/"},
	}
}
