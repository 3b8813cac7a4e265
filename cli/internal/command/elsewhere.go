package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/platform/kubename"
)

// verbsElsewhere are verbs of other tools, with the words that do here what they do there. NAME stands for what was
// typed as a name. A verb of two words stands for the second one below a command of its own, or below the first.
func verbsElsewhere() map[string]string {
	return map[string]string{
		"reconcile":               "`fairlead sync service NAME` renders and compares a service now; `fairlead sources refresh NAME` asks the Git host now",
		"reconcile source":        "`fairlead sources refresh NAME` asks the Git host now",
		"reconcile kustomization": "`fairlead sync service NAME` renders and compares it now; `fairlead sources refresh SOURCE` asks the Git host now",
		"reconcile helmrelease":   "`fairlead sync service NAME` renders and compares it now; `fairlead sources refresh SOURCE` asks the Git host now",
		"suspend":                 "`fairlead hold service NAME --mode suspend --reason TEXT` keeps all hands off; without --mode what others change is still undone",
		"bootstrap":               "`fairlead up` tries everything on this machine; `fairlead init` makes a hub; `fairlead cluster join-token CLUSTER` and `fairlead cluster join CLUSTER` bring a cluster in",
		"install":                 "`fairlead cluster manifest CLUSTER | kubectl apply --server-side -f -` installs the agent; docs/operate/install.md has the hub",
		"uninstall":               "`fairlead cluster leave CLUSTER` takes a cluster out and leaves what is applied there",
		"pull":                    "`fairlead sources cat NAME FILE` and `fairlead sources tree NAME` show what was fetched",
		"app":                     "an Application of Argo CD is a service: `fairlead get services`, `fairlead describe service NAME`",
		"app list":                "`fairlead get services`",
		"app get":                 "`fairlead get service NAME`, or with its objects `fairlead describe service NAME`",
		"app create":              "`fairlead create service NAME --source SOURCE --path FOLDER --cluster CLUSTER`",
		"app sync":                "`fairlead sync service NAME --wait`; what is pushed is applied by itself, unless the service is in manual mode",
		"app diff":                "`fairlead diff service NAME`",
		"app history":             "`fairlead history service NAME`",
		"app rollback":            "`fairlead rollback service NAME [NUMBER]`",
		"app wait":                "`fairlead wait service/NAME --healthy`",
		"app delete":              "`fairlead delete service NAME`; with --detach the objects stay",
		"app set":                 "`fairlead edit service NAME`, or change its file and `fairlead apply -f FILE`",
		"app edit":                "`fairlead edit service NAME`",
		"app logs":                "`fairlead logs service/NAME -f`",
		"app resources":           "`fairlead tree service NAME`",
		"app manifests":           "`fairlead tree service NAME`, `fairlead diff service NAME`",
		"app terminate-op":        "`fairlead hold service NAME --reason TEXT` stops what is under way",
		"app actions":             "`fairlead restart service/NAME` restarts its pods; `fairlead kubectl CLUSTER -- ...` does all else",
		"appset":                  "an ApplicationSet of Argo CD is a global service: `fairlead get globalservices`",
		"repo":                    "a repository is a source: `fairlead get sources`, `fairlead create source NAME --url URL`",
		"repo add":                "`fairlead create source NAME --url URL`, with --secret for a private one",
		"proj":                    "an AppProject of Argo CD is a project: `fairlead get projects`, `fairlead create project NAME`",
		"account":                 "`fairlead whoami`, `fairlead can-i VERB KIND`, `fairlead token create`",
		"rollout":                 "`fairlead restart service/NAME`, `fairlead history service NAME`, `fairlead rollback service NAME`, `fairlead wait service/NAME --healthy`",
		"rollout restart":         "`fairlead restart service/NAME`",
		"rollout status":          "`fairlead wait service/NAME --healthy`",
		"rollout undo":            "`fairlead rollback service NAME`",
		"rollout history":         "`fairlead history service NAME`",
		"rollout pause":           "`fairlead hold service NAME --reason TEXT`",
		"rollout resume":          "`fairlead resume service NAME`",
		"scale":                   "replicas are in Git or in configuration: change them there and push; `fairlead kubectl CLUSTER -- scale ...` is undone as drift",
		"patch":                   "`fairlead edit KIND NAME` for resources of the hub; objects of clusters are changed in Git",
		"replace":                 "`fairlead apply -f FILE`",
		"label":                   "labels are in metadata.labels: `fairlead edit KIND NAME`",
		"annotate":                "resources have labels and no annotations: `fairlead edit KIND NAME`",
		"set":                     "images and settings are in Git or in configuration: `fairlead config SERVICE` shows the configuration, `fairlead edit service NAME` changes it",
		"run":                     "what runs comes from Git: `fairlead create service NAME --source SOURCE --path FOLDER --cluster CLUSTER`",
		"expose":                  "a Service of Kubernetes is a file in Git; `fairlead port-forward service/NAME PORT` reaches one from here",
		"attach":                  "`fairlead kubectl CLUSTER -- attach POD`",
		"cp":                      "`fairlead kubectl CLUSTER -- cp ...`",
		"proxy":                   "`fairlead kubectl CLUSTER -- proxy`",
		"cluster-info":            "`fairlead get clusters`, `fairlead check`",
		"api-resources":           "`fairlead get` lists the kinds of the hub; `fairlead kubectl CLUSTER -- api-resources` those of a cluster",
		"explain":                 "docs/catalog.md has all kinds with their fields",
		"auth":                    "`fairlead can-i VERB KIND`, `fairlead whoami`",
		"stats":                   "`fairlead get services`, `fairlead check`",
		"proj create":             "`fairlead create project NAME`",
		"proj list":               "`fairlead get projects`",
		"repo list":               "`fairlead get sources`",
		"appset list":             "`fairlead get globalservices`",
		"cluster add":             "`fairlead create cluster NAME`, then `fairlead cluster join-token NAME`",
		"cluster list":            "`fairlead get clusters`",
		"cluster get":             "`fairlead describe cluster NAME`",
		"cluster rm":              "`fairlead delete cluster NAME`",
		"create kustomization":    "a Kustomization or HelmRelease of Flux is a service: `fairlead create service NAME --source SOURCE --path FOLDER --cluster CLUSTER`",
		"create helmrelease":      "a Kustomization or HelmRelease of Flux is a service: `fairlead create service NAME --source SOURCE --path FOLDER --cluster CLUSTER`",
		"create app":              "an Application of Argo CD is a service: `fairlead create service NAME --source SOURCE --path FOLDER --cluster CLUSTER`",
		"create deployment":       "what runs comes from Git: `fairlead create service SERVICE --source SOURCE --path FOLDER --cluster CLUSTER`",
		"create namespace":        "`fairlead create service SERVICE --namespace NAME --create-namespace` makes the namespace with its service; `fairlead kubectl CLUSTER -- create namespace NAME` makes one alone",
	}
}

// answerOthers adds hidden commands that answer the verbs of other tools with the words that work here.
func answerOthers(root *cobra.Command) {
	for words := range verbsElsewhere() {
		first, second, two := strings.Cut(words, " ")
		at := slices.IndexFunc(root.Commands(),
			func(cmd *cobra.Command) bool { return cmd.Name() == first && !cmd.Hidden })
		switch {
		case two && at >= 0:
			root.Commands()[at].AddCommand(answerCommand(second,
				func(args []string) error { return adviceOn(first, append([]string{second}, args...)) }))
		case !two:
			root.AddCommand(answerCommand(first, func(args []string) error { return adviceOn(first, args) }))
		}
	}
}

// answerCommand returns a hidden command that takes all arguments.
func answerCommand(verb string, do func(args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb, Hidden: true, DisableFlagParsing: true,
		Short:             "Say which words work here",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(_ *cobra.Command, args []string) error { return do(args) },
	}
}

// adviceOn says what to type in place of a verb of another tool.
func adviceOn(verb string, args []string) error {
	words := verbsElsewhere()
	typed, advice := verb, words[verb]
	isKnown := true // the argument behind the verb is a name
	if len(args) > 0 {
		more, ok := words[verb+" "+strings.ToLower(args[0])]
		if ok {
			typed, advice, args = verb+" "+args[0], more, args[1:]
		} else {
			isKnown = !hasSecond(verb)
		}
	}
	if name := typedName(args); name != "" && isKnown {
		advice = strings.ReplaceAll(advice, "NAME", name)
	}
	return errors.New("there is no `fairlead " + typed + "`: " + advice)
}

// hasSecond tells whether a verb of another tool has second words.
func hasSecond(verb string) bool {
	for words := range verbsElsewhere() {
		if strings.HasPrefix(words, verb+" ") {
			return true
		}
	}
	return false
}

// typedName is the first name among the arguments of a verb, without the kind that may stand before it; empty: there is
// none, or it is that of an object in a cluster.
func typedName(args []string) string {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			return ""
		}
		kind, name, ok := strings.Cut(arg, "/")
		_, err := resource.FindKind(kind)
		switch {
		case ok && (err == nil || resource.KindElsewhere(kind) != "" && resource.KubernetesKind(kind) == "") &&
			kubename.IsLabel(name):
			return name
		case !ok && resource.IsOnlyName(arg):
			return arg
		case ok || resource.KubernetesKind(arg) != "" && err != nil:
			return ""
		}
	}
	return ""
}
