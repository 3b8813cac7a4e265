package source_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
)

const (
	refreshSource = gitcachev1connect.SourceServiceRefreshSourceProcedure
	listCommits   = gitcachev1connect.SourceServiceListCommitsProcedure
	listTree      = gitcachev1connect.SourceServiceListTreeProcedure
	readFile      = gitcachev1connect.SourceServiceReadFileProcedure
)

// refreshFails answers a refresh with an error.
func refreshFails(code connect.Code, text string) hubtest.Answer {
	return hubtest.Refuses[gitcachev1.RefreshSourceRequest, gitcachev1.RefreshSourceResponse](refreshSource, code, text)
}

func TestASourceIsAskedForNews(t *testing.T) {
	t.Parallel()
	refreshed := hubtest.Returns[gitcachev1.RefreshSourceRequest](refreshSource, &gitcachev1.RefreshSourceResponse{})
	hubtest.Run(t, map[string]hubtest.Case{
		"it is": {
			Line: "sources refresh shop", Hub: []hubtest.Answer{refreshed},
			Asked: `RefreshSource {"name":"shop"}
`,
			Stdout: "source/shop is being asked\n",
			Stderr: "what it finds shows up in `fairlead get source shop`\n",
		},
		"by its reference": {
			Line: "source refresh source/shop", Hub: []hubtest.Answer{refreshed},
			Asked: `RefreshSource {"name":"shop"}
`,
			Stdout: "source/shop is being asked\n",
			Stderr: "what it finds shows up in `fairlead get source shop`\n",
		},
		"the first gitcache is away": {
			Line: "sources refresh shop", Hub: []hubtest.Answer{refreshed}, Gitcaches: []string{hubtest.Away, hubtest.Hub},
			Asked: `RefreshSource {"name":"shop"}
`,
			Stdout: "source/shop is being asked\n",
			Stderr: "what it finds shows up in `fairlead get source shop`\n",
		},
		"all gitcaches are away": {
			Line: "sources refresh shop", Gitcaches: []string{hubtest.Away},
			Err: `refresh source "shop": AWAY can't be reached: connection refused. Is the hub running there ` +
				"(`fairlead up`)?",
		},
		"the hub does not say where gitcaches are": {
			Line: "sources refresh shop", Gitcaches: []string{},
			Err: `refresh source "shop": the hub did not say where its gitcaches are: set ` +
				"--advertise-gitcaches at the console, then run `fairlead login` again",
		},
		"there is no such source": {
			Line: "sources refresh shp",
			Hub:  []hubtest.Answer{refreshFails(connect.CodeNotFound, `source "shp" does not exist`)},
			Asked: `RefreshSource {"name":"shp"}
`,
			Err: "no source \"shp\": see `fairlead get sources`",
		},
		"the person may not": {
			Line: "sources refresh shop",
			Hub:  []hubtest.Answer{refreshFails(connect.CodePermissionDenied, `user:kim may not edit source "shop"`)},
			Asked: `RefreshSource {"name":"shop"}
`,
			Err: `refresh source "shop": user:kim may not edit source "shop"`,
		},
		"no name": {
			Line: "sources refresh",
			Err:  "use it as `fairlead sources refresh SOURCE`: see `fairlead sources refresh --help`",
		},
		"two names": {
			Line: "sources refresh shop web",
			Err:  "use it as `fairlead sources refresh SOURCE`: see `fairlead sources refresh --help`",
		},
		"no command": {
			Line: "sources update shop",
			Err:  `unknown command "update" for "fairlead sources"; known are: cat, log, refresh, tree`,
		},
		"a flag of others": {
			Line: "sources refresh shop --all",
			Err:  "unknown flag: --all: see `fairlead sources refresh --help`",
		},
	})
}

func TestTheHistoryOfASourceIsShown(t *testing.T) {
	t.Parallel()
	first := &artifactv1.Revision{
		Commit: "fedcba98765432100123456789abcdef01234567", CommitTime: clitest.Before(5 * time.Minute),
		Author: "Kim", Subject: "Add the shop",
	}
	second := &artifactv1.Revision{Commit: "0123456789abcdef", Author: "Ada", Subject: "Begin"}
	// pages are a page for the first commit, and one for the second.
	pages := hubtest.On(listCommits, func(req *gitcachev1.ListCommitsRequest) (*gitcachev1.ListCommitsResponse, error) {
		if req.GetPageToken() == "" {
			return &gitcachev1.ListCommitsResponse{Commits: []*artifactv1.Revision{first}, NextPageToken: "2"}, nil
		}
		return &gitcachev1.ListCommitsResponse{Commits: []*artifactv1.Revision{second}}, nil
	})
	hubtest.Run(t, map[string]hubtest.Case{
		"all pages": {
			Line: "sources log shop", Hub: []hubtest.Answer{pages},
			Asked: `ListCommits {"source":"shop","pageSize":20}
ListCommits {"source":"shop","pageSize":19,"pageToken":"2"}
`,
			Stdout: `COMMIT    AGE  AUTHOR  SUBJECT
fedcba98  5m   Kim     Add the shop
01234567  -    Ada     Begin
`,
		},
		"as many as are wanted": {
			Line: "sources log shop -n 1 --ref refs/tags/v1", Hub: []hubtest.Answer{pages},
			Asked: `ListCommits {"source":"shop","revision":"refs/tags/v1","pageSize":1}
`,
			Stdout: `COMMIT    AGE  AUTHOR  SUBJECT
fedcba98  5m   Kim     Add the shop
`,
		},
		"all there are": {
			Line: "sources log shop -n 0 -o json", Hub: []hubtest.Answer{pages},
			Asked: `ListCommits {"source":"shop","pageSize":500}
ListCommits {"source":"shop","pageSize":500,"pageToken":"2"}
`,
			Stdout: `{
  "commits": [
    {
      "author": "Kim",
      "commit": "fedcba98765432100123456789abcdef01234567",
      "commitTime": "2026-03-01T11:55:00Z",
      "subject": "Add the shop"
    },
    {
      "author": "Ada",
      "commit": "0123456789abcdef",
      "subject": "Begin"
    }
  ]
}
`,
		},
		"as YAML": {
			Line: "sources log shop -n 1 -o yaml", Hub: []hubtest.Answer{pages},
			Asked: `ListCommits {"source":"shop","pageSize":1}
`,
			Stdout: `commits:
  - author: Kim
    commit: fedcba98765432100123456789abcdef01234567
    commitTime: "2026-03-01T11:55:00Z"
    subject: Add the shop
`,
		},
		"by a template": {
			Line: "sources log shop -o jsonpath={.commits[*].author}", Hub: []hubtest.Answer{pages},
			Asked: `ListCommits {"source":"shop","pageSize":20}
ListCommits {"source":"shop","pageSize":19,"pageToken":"2"}
`,
			Stdout: "Kim Ada",
		},
		"a negative size": {
			Line: "sources log shop -n -1",
			Err:  "--limit -1: must be at least 0",
		},
		"an unknown form": {
			Line: "sources log shop -o wide",
			Err:  `unknown form of output "wide": known are table, json, yaml, jsonpath, custom-columns`,
		},
		"a ref that is not there": {
			Line: "sources log shop --ref nope",
			Hub: []hubtest.Answer{hubtest.Refuses[gitcachev1.ListCommitsRequest, gitcachev1.ListCommitsResponse](listCommits,
				connect.CodeNotFound, `source "shop" has no ref "nope"`)},
			Asked: `ListCommits {"source":"shop","revision":"nope","pageSize":20}
`,
			Err: `source "shop" has no ref "nope"`,
		},
		"the gitcache repeats a page": {
			Line: "sources log shop",
			Hub: []hubtest.Answer{hubtest.Returns[gitcachev1.ListCommitsRequest](listCommits,
				&gitcachev1.ListCommitsResponse{Commits: []*artifactv1.Revision{first}, NextPageToken: "2"})},
			Asked: `ListCommits {"source":"shop","pageSize":20}
ListCommits {"source":"shop","pageSize":19,"pageToken":"2"}
`,
			Err: "the hub repeats a page",
		},
		"the gitcache takes a rest": {
			Line: "sources log shop",
			Hub: []hubtest.Answer{hubtest.Refuses[gitcachev1.ListCommitsRequest, gitcachev1.ListCommitsResponse](listCommits,
				connect.CodeUnavailable, `source "shop" is being fetched for the first time`)},
			Asked: `ListCommits {"source":"shop","pageSize":20}
`,
			Err: `source "shop" is being fetched for the first time`,
		},
	})
}

func TestAFolderOfASourceIsShown(t *testing.T) {
	t.Parallel()
	tree := hubtest.Returns[gitcachev1.ListTreeRequest](listTree, &gitcachev1.ListTreeResponse{
		Revision: &artifactv1.Revision{Commit: "fedcba9876"},
		Entries: []*gitcachev1.TreeEntry{
			{Kind: gitcachev1.TreeEntry_KIND_FOLDER, Name: "base", ObjectId: "0123456789abcdef"},
			{Kind: gitcachev1.TreeEntry_KIND_FILE, Name: "web.yaml", Size: 2048, ObjectId: "123456789abcdef0"},
			{Kind: gitcachev1.TreeEntry_KIND_EXECUTABLE, Name: "run.sh", Size: 12, ObjectId: "23456789abcdef01"},
			{Kind: gitcachev1.TreeEntry_KIND_LINK, Name: "latest", Size: 4, ObjectId: "3456789abcdef012"},
			{Kind: gitcachev1.TreeEntry_KIND_SUBMODULE, Name: "charts", ObjectId: "456789abcdef0123"},
		},
	})
	hubtest.Run(t, map[string]hubtest.Case{
		"the root": {
			Line: "sources tree shop", Hub: []hubtest.Answer{tree},
			Asked: `ListTree {"source":"shop","pageSize":500}
`,
			Stdout: `KIND        SIZE     OBJECT    NAME
folder      -        01234567  base/
file        2.0 KiB  12345678  web.yaml
executable  12 B     23456789  run.sh
link        4 B      3456789a  latest
submodule   -        456789ab  charts
`,
		},
		"a folder as a shell writes it": {
			Line: "sources tree shop ./deploy/prod/ --ref main -o json", Hub: []hubtest.Answer{tree},
			Asked: `ListTree {"source":"shop","revision":"main","path":"deploy/prod","pageSize":500}
`,
			Stdout: `{
  "entries": [
    {
      "kind": "folder",
      "name": "base",
      "objectId": "0123456789abcdef"
    },
    {
      "kind": "file",
      "name": "web.yaml",
      "objectId": "123456789abcdef0",
      "size": "2048"
    },
    {
      "kind": "executable",
      "name": "run.sh",
      "objectId": "23456789abcdef01",
      "size": "12"
    },
    {
      "kind": "link",
      "name": "latest",
      "objectId": "3456789abcdef012",
      "size": "4"
    },
    {
      "kind": "submodule",
      "name": "charts",
      "objectId": "456789abcdef0123"
    }
  ],
  "revision": {
    "commit": "fedcba9876"
  }
}
`,
		},
		"by a template": {
			Line: "sources tree shop -o custom-columns=COMMIT:.revision.commit", Hub: []hubtest.Answer{tree},
			Asked: `ListTree {"source":"shop","pageSize":500}
`,
			Stdout: `COMMIT
fedcba9876
`,
		},
		"an unknown form": {
			Line: "sources tree shop -o name",
			Err:  `unknown form of output "name": known are table, json, yaml, jsonpath, custom-columns`,
		},
		"a template that can't be read": {
			Line: "sources tree shop -o jsonpath={.a",
			Err:  `-o jsonpath: "{.a": unclosed action`,
		},
		"a folder in a file": {
			Line: "sources tree shop deploy extra words",
			Err:  "use it as `fairlead sources tree SOURCE [FOLDER]`: see `fairlead sources tree --help`",
		},
		"the source's name is forgotten": {
			Line: "sources tree",
			Err:  "use it as `fairlead sources tree SOURCE [FOLDER]`: see `fairlead sources tree --help`",
		},
	})
}

func TestAFileOfASourceIsPrintedByteByByte(t *testing.T) {
	t.Parallel()
	file := func(kind gitcachev1.TreeEntry_Kind, content string) hubtest.Answer {
		return hubtest.Returns[gitcachev1.ReadFileRequest](readFile, &gitcachev1.ReadFileResponse{
			Entry: &gitcachev1.TreeEntry{Kind: kind}, Content: []byte(content),
		})
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"a file": {
			Line: "sources cat shop ./deploy/web.yaml --ref 1a2b3c4d",
			Hub:  []hubtest.Answer{file(gitcachev1.TreeEntry_KIND_FILE, "a: \x00b\r\nno end of line")},
			Asked: `ReadFile {"source":"shop","revision":"1a2b3c4d","path":"deploy/web.yaml"}
`,
			Stdout: "a: \x00b\r\nno end of line",
		},
		"an empty file": {
			Line: "sources cat shop empty", Hub: []hubtest.Answer{file(gitcachev1.TreeEntry_KIND_EXECUTABLE, "")},
			Asked: `ReadFile {"source":"shop","path":"empty"}
`,
		},
		"a link": {
			Line: "sources cat shop latest", Hub: []hubtest.Answer{file(gitcachev1.TreeEntry_KIND_LINK, "v2/web.yaml")},
			Asked: `ReadFile {"source":"shop","path":"latest"}
`,
			Err: `latest is a link to "v2/web.yaml": name that`,
		},
		"a folder": {
			Line: "sources cat shop deploy",
			Hub: []hubtest.Answer{hubtest.Refuses[gitcachev1.ReadFileRequest, gitcachev1.ReadFileResponse](readFile,
				connect.CodeInvalidArgument, `"deploy" is a folder`)},
			Asked: `ReadFile {"source":"shop","path":"deploy"}
`,
			Err: `"deploy" is a folder`,
		},
		"no file": {
			Line: "sources cat shop",
			Err:  "use it as `fairlead sources cat SOURCE FILE`: see `fairlead sources cat --help`",
		},
	})
}
