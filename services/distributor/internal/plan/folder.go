package plan

import (
	"strings"
	"time"

	"fairlead.dev/platform/catalog"
)

// lineWait is how long the console is not told of a commit because a folder has not been asked for yet:
// until then its services would have to be told apart from the others, and again soon after.
const lineWait = 2 * time.Second

// normal is a folder as it is the same however people write it.
func normal(f catalog.Folder) catalog.Folder {
	f.Ref, f.Path = catalog.CanonicalRef(f.Ref), strings.Trim(f.Path, "/")
	return f
}

// Source brings in a source as the catalog has it now; nil: it has none of that name.
func (u *Update) Source(name string, is *Source) {
	s := u.plan.sources[name]
	if s == nil {
		if is == nil {
			return
		}
		s = u.source(name)
	}
	s.is = is
	for _, l := range s.lines {
		u.point(l)
	}
	u.drop(s)
}

func (u *Update) source(name string) *source {
	s := u.plan.sources[name]
	if s == nil {
		s = &source{name: name, lines: map[string]*line{}}
		u.plan.sources[name] = s
	}
	return s
}

// drop forgets a source that does not exist and that nobody names.
func (u *Update) drop(s *source) {
	if s.is == nil && len(s.lines) == 0 {
		delete(u.plan.sources, s.name)
	}
}

// point makes a line point where its source says.
func (u *Update) point(l *line) {
	var head *Revision
	if is := l.source.is; is != nil {
		if r, ok := is.Heads[l.ref]; ok && r.Commit != "" {
			head = &r
		}
	}
	if head == nil || l.head == nil || l.head.Commit != head.Commit {
		l.since = u.now
		u.turnBack(l, head)
	} else {
		head.Traceparent = l.head.Traceparent // a commit that is found again is no news
	}
	l.head = head
	u.lines[l] = struct{}{}
	for f := range l.folders {
		u.ask(f)
	}
}

// turnBack has services told apart that are already delivered from a head that the console was not told of,
// when that goes back to the one that it was told of, or may have been told of before it was told everything again:
// else they would seem to have what that has.
func (u *Update) turnBack(l *line, head *Revision) {
	if head == nil || l.head == nil || l.told != "" && l.told != head.Commit {
		return
	}
	for f := range l.folders {
		u.tellAll(f)
	}
}

// folder returns the folder of that key, and asks for it if it is new.
func (u *Update) folder(key catalog.Folder) *folder {
	if f := u.plan.folders[key]; f != nil {
		return f
	}
	s := u.source(key.Source)
	l := s.lines[key.Ref]
	if l == nil {
		l = &line{source: s, ref: key.Ref, folders: map[*folder]struct{}{}}
		s.lines[key.Ref] = l
	}
	f := &folder{key: key, line: l, good: u.good}
	u.plan.folders[key] = f
	l.folders[f] = struct{}{}
	if len(l.folders) == 1 {
		u.point(l)
	} else {
		u.lines[l] = struct{}{}
		u.ask(f)
	}
	return f
}

// forget ends a folder that no service is for.
func (u *Update) forget(f *folder) {
	u.unask(f)
	if f.content != nil {
		u.release(f.content)
		u.change.Gone = append(u.change.Gone, f.content.Key())
	}
	delete(u.plan.folders, f.key)
	delete(f.line.folders, f)
	if len(f.line.folders) == 0 {
		delete(f.line.source.lines, f.line.ref)
		delete(u.plan.waiting, f.line)
		delete(u.lines, f.line)
		u.drop(f.line.source)
	}
}

// ask makes a folder's want the one that its line gives.
func (u *Update) ask(f *folder) {
	is, head := f.line.source.is, f.line.head
	if (is == nil) != !f.sourceless.IsZero() {
		f.sourceless = time.Time{}
		if is == nil {
			f.sourceless = u.now
		}
		u.tellAll(f)
	}
	if is == nil || head == nil {
		u.unask(f)
		return
	}
	key := Want{
		Source: f.line.source.name, SourceUID: is.UID, Commit: head.Commit, Path: f.key.Path,
		Include: f.key.Include, Ignore: f.key.Ignore, Submodules: is.Submodules, Dependencies: is.Dependencies,
	}
	if f.want != nil && f.want.key == key {
		u.deliver(f) // of the commit something else may be known now
		return
	}
	u.unask(f)
	w := u.plan.wants[key]
	if w == nil {
		w = &want{key: key, folders: map[*folder]struct{}{}}
		u.plan.wants[key] = w
		u.plan.open[w] = struct{}{}
	}
	w.folders[f] = struct{}{}
	f.want = w
	if w.problem != nil {
		u.tellAll(f)
	}
	u.remember(f)
	if c := f.content; c != nil && c.Want == key && !w.answered {
		// Resolved before a restart, or before the head went elsewhere and back: content at a commit does
		// not change.
		u.resolve(w, c.Artifact)
		return
	}
	u.deliver(f)
}

// remember gives a folder back what was delivered before a restart.
func (u *Update) remember(f *folder) {
	if u.plan.ready || f.content != nil {
		return
	}
	key := (&Content{Ref: f.line.ref, Want: f.want.key}).Key()
	if c := u.plan.last.Contents[key]; c != nil {
		delete(u.plan.last.Contents, key)
		f.content, f.recalled, f.good = c, true, c.Good
		u.use(c)
		u.computeAll(f)
	}
}

// unask ends a folder's want, and the want itself with its last folder.
func (u *Update) unask(f *folder) {
	w := f.want
	if w == nil {
		return
	}
	if f.settled() {
		f.good = u.good
	}
	if w.problem != nil {
		u.tellAll(f)
	}
	delete(w.folders, f)
	if len(w.folders) == 0 {
		delete(u.plan.wants, w.key)
		delete(u.plan.open, w)
	}
	f.want = nil
}

// resolve answers a want with content.
func (u *Update) resolve(w *want, a Artifact) {
	u.solve(w, nil)
	w.tried, w.answered, w.artifact = true, true, a
	delete(u.plan.open, w)
	for f := range w.folders {
		u.deliver(f)
	}
}

// solve changes the problem of a want.
func (u *Update) solve(w *want, problem func(string) string) {
	same := (problem == nil) == (w.problem == nil) && (problem == nil || problem("") == w.problem(""))
	for f := range w.folders {
		u.lines[f.line] = struct{}{}
		if !same {
			u.tellAll(f)
		}
		if problem != nil {
			u.noteGood(f)
		}
	}
	w.problem = problem
}

// deliver makes the content that was had what the folder's services get.
func (u *Update) deliver(f *folder) {
	u.confirm(f)
	if !f.settled() {
		return
	}
	f.restored = false
	if f.late || f.some {
		f.late, f.some = false, false
		u.tellAll(f)
		for _, s := range f.services {
			u.dropEarlier(s) // nothing is in doubt now
		}
	}
	was := f.content
	is := &Content{Ref: f.line.ref, Want: f.want.key, Revision: *f.line.head, Artifact: f.want.artifact}
	if was != nil && *was == *is && len(f.apart) == 0 {
		return
	}
	u.use(is)
	f.content = is
	u.trace = is.Revision.Traceparent
	defer func() { u.trace = "" }()
	delivered := Delivered{Content: is, Since: f.line.since}
	if was == nil || was.Artifact.Digest != is.Artifact.Digest {
		if was != nil {
			f.before = was.Artifact.Digest
		}
		delivered.Services = len(f.services)
	} else {
		delivered.Services = len(f.apart)
	}
	if was != nil {
		u.release(was)
		if was.Key() != is.Key() {
			u.change.Gone = append(u.change.Gone, was.Key())
		}
	}
	for s := range f.apart {
		u.unite(s)
		u.compute(s)
		u.change.Services[s.is.Name] = struct{}{}
	}
	if delivered.Services == len(f.services) {
		u.computeAll(f)
	}
	u.change.Delivered = append(u.change.Delivered, delivered)
	u.lines[f.line] = struct{}{}
	u.nudgeWithheld(f)
}

// confirm ends the doubt about content from the disk: when the console has confirmed the catalog, agents may have newer
// only if they have seen a later change than the content was the newest at. Where that was not noted, any agent may.
func (u *Update) confirm(f *folder) {
	if f.recalled && u.plan.current && (f.settled() || f.good != 0) {
		f.recalled, f.restored = false, true
		u.nudgeWithheld(f)
	}
}

// noteGood has the disk keep up to when a folder's content was the newest.
func (u *Update) noteGood(f *folder) {
	if f.content == nil || f.content.Good == f.good {
		return
	}
	is := *f.content
	is.Good = f.good
	f.content = &is
	u.change.Superseded = append(u.change.Superseded, &is)
}

func (u *Update) computeAll(f *folder) {
	for _, s := range f.services {
		if s.own == nil {
			u.compute(s)
		}
	}
}

// tellAll has the console told of a folder's services.
func (u *Update) tellAll(f *folder) {
	for _, s := range f.services {
		u.change.Services[s.is.Name] = struct{}{}
	}
}

// nudgeWithheld nudges the agents that were told less than there was: now there may be more.
func (u *Update) nudgeWithheld(f *folder) {
	for _, s := range f.services {
		if c := u.plan.clusters[s.is.Cluster()]; c != nil && c.withheld.Swap(false) {
			u.change.Clusters[c.name] = u.trace
		}
	}
}

// tell says of the lines that moved where they are, once all their folders were asked for. Folders that
// are behind are told first.
func (u *Update) tell() {
	for l := range u.lines {
		if l.head == nil || l.source.is == nil || l.told == l.head.Commit {
			delete(u.plan.waiting, l)
			continue
		}
		if l.unasked() && u.now.Before(l.since.Add(lineWait)) {
			u.plan.waiting[l] = struct{}{}
			continue
		}
		delete(u.plan.waiting, l)
		l.told = l.head.Commit
		for f := range l.folders {
			if !f.settled() && !f.late {
				f.late = true
				u.tellAll(f)
			}
		}
		u.change.Lines = append(u.change.Lines, Line{SourceUID: l.source.is.UID, Ref: l.ref, Revision: *l.head})
	}
	for name := range u.change.Services {
		if s := u.plan.services[name]; s != nil {
			s.folder.some = s.folder.some || !s.folder.settled()
		}
	}
}

// unasked says whether some folder of the line was not asked for yet.
func (l *line) unasked() bool {
	for f := range l.folders {
		if f.want != nil && !f.want.tried {
			return true
		}
	}
	return false
}

// Waiting says whether there is a line that Overdue may have something to say of later.
func (p *Plan) Waiting() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.waiting) > 0
}

// Overdue tells of lines that have waited for long enough.
func (p *Plan) Overdue(now time.Time) Change {
	return p.Update(now, func(u *Update) {
		for l := range p.waiting {
			u.lines[l] = struct{}{}
		}
	})
}
