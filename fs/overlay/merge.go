package overlay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// A merge brings what a fork changed into its parent, as one sealed task of who merges. It goes by objects, as all here:
// an object of the fork is the one of the parent that it was raised from, or the one that an earlier merge made of it, or
// new. Three trees are held against one another: the base, which is what the fork was made of, or what the last merge left;
// the fork; and the parent as it is. What the fork changed is in its records, so no tree is walked but those that are new
// or that go.
//
// It has two halves. In the first (gather) the fork stands still: what it changed is found, and what is new is copied into
// the parent's hold. In the second (settle), a move of the parent, each change is held against the parent, and
// becomes part of the images of a task that is then done as any other (remake.go).

// Prefer says what becomes of what both sides changed and cannot be merged by line.
type Prefer string

const (
	// PreferNone refuses the merge.
	PreferNone Prefer = ""
	// PreferMine keeps what the parent has: he who merges.
	PreferMine Prefer = "mine"
	// PreferTheirs takes what the fork has.
	PreferTheirs Prefer = "theirs"
)

// MergeOptions say how to merge.
type MergeOptions struct {
	// Agent merges: the task is its own. "": the fork's parent agent.
	Agent tasktree.Agent
	// Strict refuses also when the fork has read a file that the parent has changed since.
	Strict bool
	Force  Prefer
	// DryRun changes nothing and tells what would change.
	DryRun bool
}

// The letters of the keys that a fork has of its merges.
const (
	kMergedAt  = 'b' // directory, name -> the fork's object there at the last merge, and the parent's after it
	kMergedAs  = 'm' // object          -> the parent's, and what was in it at the last merge
	mergedText = 1 << 20

	// mergeInline is how many bytes of content a merge's record has at most, for what goes in and for the fork to remember each:
	// the rest are blobs. A record is held in memory, and bounded.
	mergeInline = 32 << 20
)

// Merge brings what a fork changed since it was made, or since the last merge, into this tree, as one task of the merging
// agent, sealed. What both sides changed is merged line by line where it is text and the changes do not touch. Errors:
// NoFork; Conflict, with the paths in ConflictsOf, and nothing has changed; those of Switch. Where there is nothing to bring, no task
// is made: To is From.
func (e *Engine) Merge(name ForkName, o MergeOptions) (MoveResult, error) {
	f := e.forks.hold(name)
	if f == nil {
		return MoveResult{}, fail("merge", string(name), NoFork, nil)
	}
	defer f.work.Unlock()
	switch {
	case f.e == nil:
		return MoveResult{}, fail("merge", string(name), IO, f.err)
	case o.Force != PreferNone && o.Force != PreferMine && o.Force != PreferTheirs:
		return MoveResult{}, fail("merge", string(o.Force), Invalid, errors.New("force is mine or theirs"))
	}
	if o.Agent == "" {
		o.Agent = f.Parent
	}
	// What is put into hold and made blobs now is named in the journal only when the task is recorded.
	defer e.tidy()
	e.pruneMu.RLock()
	defer e.pruneMu.RUnlock()
	if e.lower != nil { // the blobs are the workspace's, whose pruneMu is another
		e.blobMu.RLock()
		defer e.blobMu.RUnlock()
	}
	defer e.keepOpen()()
	defer f.e.keepOpen()()
	m := &merge{p: e, f: f.e, info: &f.ForkInfo, o: o, made: map[OID]OID{}}
	if err := m.gather(); err != nil {
		m.forget()
		return MoveResult{}, storeError("merge", err)
	}
	res, told, err := m.settle()
	e.forks.mu.Lock()
	f.refused = m.conflicts
	e.forks.mu.Unlock()
	if err != nil || o.DryRun || res.From == res.To {
		m.forget()
		return res, storeError("merge", err)
	}
	if e.opt.Notify != nil {
		e.opt.Notify.Changed(told)
	}
	return res, nil
}

// MergeConflicts are why the last merge of a fork was refused; empty when it was not.
func (e *Engine) MergeConflicts(name ForkName) []ConflictEntry {
	e.forks.mu.Lock()
	defer e.forks.mu.Unlock()
	if f := e.forks.all[name]; f != nil {
		return slices.Clone(f.refused)
	}
	return nil
}

// merge is one merge under way.
type merge struct {
	p, f *Engine // parent and fork
	info *ForkInfo
	o    MergeOptions

	names    []mergeName
	objects  []mergeObject
	made     map[OID]OID        // new objects, by the fork's number
	held     []OID              // those of the parent that are in hold
	of       map[OID]OID        // the fork's objects, by the parent's number
	parent   map[OID]OID        // the parent's, by the fork's number, as they were when the merge began
	recorded map[OID]*mergeBase // what the last merge left, by the parent's number
	b        journal.Batch      // what the fork is to remember, without the prefix of its part

	later     journal.Batch // the same, as far as it depends on the parent
	put       bool          // blobs were
	inline    int64         // bytes of content in the record
	images    *images
	conflicts []ConflictEntry
	now       *view
	joined    map[OID]OID  // directories that both sides made: what the fork's was to be -> the parent's
	more      []mergeName  // the names in them
	goes      map[OID]bool // directories of the parent that go
	comes     map[OID]bool // objects that some name gets
}

// mergeName is a name that the fork changed.
type mergeName struct {
	at   spot // in the fork
	path string
	dir  OID // of the parent
	base OID // what the parent is expected to have there
	to   OID // what it is to have, 0: nothing
	new  bool
	fork OID // what the fork has there
}

// settle holds the changes against the parent and carries them out.
func (m *merge) settle() (MoveResult, Changes, error) {
	e := m.p
	own, err := e.claimAgents("merge", true, m.o.Agent)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	defer e.unclaim(own)
	if err := e.mayMove("merge", MoveOptions{DryRun: m.o.DryRun}); err != nil {
		return MoveResult{}, Changes{}, err
	}
	im, err := e.wanted(own, m.want)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	if m.o.DryRun {
		return m.preview(im)
	}
	if m.put { // data before reference
		if err := e.blobs.Sync(); err != nil {
			return MoveResult{}, Changes{}, storeError("merge", err)
		}
	}
	prefix := m.info.part()
	if len(im.entries)+len(im.contents)+len(im.metas) == 0 {
		err := e.j.Sub(prefix).Commit(&m.b)
		return m.stay(), Changes{}, storeError("merge", err)
	}
	var marks journal.Batch
	if err := e.ready(&marks, im); err != nil {
		return MoveResult{}, Changes{}, storeError("merge", err)
	}
	mv, err := e.making("merge", own, tasktree.Task{Agent: m.o.Agent, Title: fmt.Sprintf("merge %s", m.info.Name)}, im)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	mv.first.PutAll(nil, &marks)
	mv.first.PutAll(prefix, &m.b)
	mv.first.PutAll(prefix, &m.later)
	return e.carryOut("merge", mv)
}

// stay is the result of a merge that makes no task.
func (m *merge) stay() MoveResult {
	at := m.p.Active(m.o.Agent)
	return MoveResult{From: at, To: at}
}

func (m *merge) preview(im *images) (MoveResult, Changes, error) {
	then, err := m.p.viewOf(nil, 0)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	then.lay(im)
	then.index()
	paths, err := m.p.compare(m.now, then, im)
	res := m.stay()
	res.Paths, res.Changed = paths, len(paths)
	return res, Changes{}, err
}

// want is the images of the task: what of the fork's changes goes in. It is asked again when what it looked at may have
// changed. Errors: Conflict.
func (m *merge) want(*foot) (*images, error) {
	m.images, m.conflicts = newImages(), nil
	m.later.Reset()
	var err error
	if m.now, err = m.p.viewOf(nil, 0); err != nil {
		return nil, err
	}
	m.goes, m.comes = map[OID]bool{}, map[OID]bool{}
	if err := m.join(); err != nil {
		return nil, err
	}
	names := slices.Concat(m.names, m.more)
	for _, n := range names {
		m.comes[n.to] = m.joined[n.to] == 0
	}
	for _, n := range m.names {
		if n.base != 0 && n.base != n.to && !m.comes[n.base] {
			m.goes[n.base] = true
		}
	}
	for _, n := range names {
		if err := m.name(n); err != nil {
			return nil, err
		}
	}
	for i := range m.objects {
		if err := m.object(&m.objects[i]); err != nil {
			return nil, err
		}
	}
	if m.o.Strict {
		if err := m.strict(); err != nil {
			return nil, err
		}
	}
	if len(m.conflicts) > 0 {
		slices.SortFunc(m.conflicts, func(a, b ConflictEntry) int { return strings.Compare(a.Path, b.Path) })
		m.p.setConflicts(m.o.Agent, m.conflicts)
		var paths []string
		for i, c := range m.conflicts {
			if i == 3 {
				paths = append(paths, fmt.Sprintf("and %d more", len(m.conflicts)-i))
				break
			}
			paths = append(paths, c.Path+" ("+c.Lost+")")
		}
		return nil, fail("merge", string(m.info.Name), Conflict, fmt.Errorf(
			"both sides changed: %s; see .tt/conflicts; `merge %s force=mine` keeps what is here, `force=theirs` takes the fork's", strings.Join(paths, ", "), m.info.Name))
	}
	return m.images, nil
}

// conflict tells of a path that both sides changed; take says whether the fork's goes in all the same. Logs and caches stay
// as they are here. So does git's index, which every `git status` writes anew, unless the fork did more with git than that.
func (m *merge) conflict(path, what string, obj OID, at spot) (take bool) {
	switch m.o.Force {
	case PreferMine:
		return false
	case PreferTheirs:
		return true
	}
	class := m.p.classes.of(path)
	switch {
	case gitIndex(path):
		return m.usedGit(path)
	case class == Temp:
		return false
	}
	c := ConflictEntry{Path: path, Class: class, Lost: what}
	for _, t := range []thing{{obj: obj}, {at: at}} {
		if t.obj == 0 && t.at.dir == 0 {
			continue
		}
		if who, err := m.p.whoTouched(t); err == nil && who != 0 {
			k, _ := m.p.Task(who)
			c.Agent, c.Task, c.Title, c.Started = k.Agent, k.ID, k.Title, k.Started
			break
		}
	}
	m.conflicts = append(m.conflicts, c)
	return false
}

// usedGit says whether the fork changed anything beside the index of a repository.
func (m *merge) usedGit(index string) bool {
	within := func(path string) bool {
		return strings.HasPrefix(path, index[:strings.LastIndexByte(index, '/')+1]) && !gitIndex(path)
	}
	return slices.ContainsFunc(m.names, func(n mergeName) bool { return within(n.path) }) ||
		slices.ContainsFunc(m.objects, func(o mergeObject) bool { return within(o.path) })
}

// strict refuses what the fork's agents have read and the parent has changed since.
func (m *merge) strict() error {
	for _, id := range sortedOIDs(m.readByFork()) {
		path := m.now.pathsOf(id)
		if len(path) == 0 {
			continue
		}
		same, err := m.parentSame(id)
		if err != nil {
			return err
		}
		if !same {
			m.conflict(path[0], "the fork has read it, and it changed since", id, spot{})
		}
	}
	return nil
}

// readByFork is the parent's objects that changed since the fork was made and that an agent in the fork has read.
func (m *merge) readByFork() map[OID]bool {
	out := map[OID]bool{}
	for _, n := range m.p.epochs.from(m.info.epoch) {
		im, err := m.p.readImages(n.run())
		if err != nil {
			continue
		}
		for id := range im.contents {
			o, found, err := m.p.getObject(id)
			if err != nil || !found {
				continue
			}
			file := fileOf(m.p.identOf(o.key))
			m.f.guard.mu.Lock()
			for _, a := range m.f.guard.s.Agents() {
				if m.f.guard.s.HasRead(guard.Agent(a), file) {
					out[id] = true
				}
			}
			m.f.guard.mu.Unlock()
		}
	}
	return out
}
