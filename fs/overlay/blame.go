package overlay

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// Deed is what a task did to a path.
type Deed string

// The deeds, in the order in which they are told.
const (
	DeedCreated    Deed = "created"
	DeedRenamed    Deed = "renamed"
	DeedModified   Deed = "modified"
	DeedMode       Deed = "mode"
	DeedOwner      Deed = "owner"
	DeedAttributes Deed = "attributes"
	DeedDeleted    Deed = "deleted"
)

var deeds = []Deed{DeedCreated, DeedRenamed, DeedModified, DeedMode, DeedOwner, DeedAttributes, DeedDeleted}

// Version is what one task did to a path.
type Version struct {
	Task  tasktree.TaskID
	Agent tasktree.Agent
	Title string
	// Started is when the task began: no change has a time of its own.
	Started time.Time
	// Status says whether the change is there: that of an undone task is not.
	Status tasktree.Status
	What   []Deed
	// From is the path that it was renamed from, To the one that it was renamed to; "" when it was not.
	From, To string
}

// Blame is the line of versions of a path, newest first: what every task did to it, and to what was at it, also before
// that was renamed. Undone tasks stand where their numbers put them. The path may be deleted, or be in a directory that
// is. No versions: it is there, and nobody changed it. Errors: NoPath when it is not there and never was; Invalid, Damaged.
func (e *Engine) Blame(path string) ([]Version, error) {
	parts, err := splitPath("blame", path)
	if err != nil {
		return nil, err
	}
	var out []Version
	err = e.reading(func(*foot) error {
		b := &blamer{e: e, found: map[tasktree.TaskID]*version{}, idle: e.idleNow()}
		there, err := b.line(parts)
		if err != nil {
			return err
		}
		if len(b.found) == 0 && !there {
			return fail("blame", path, NoPath, errors.New("it is not there and no task changed it"))
		}
		out = b.versions()
		return nil
	})
	return out, err
}

// WasDir says whether a path is a directory, or was one as far as the tasks tell, and whether anything was ever there.
func (e *Engine) WasDir(path string) (dir, known bool, err error) {
	parts, err := splitPath("blame", path)
	if err != nil || len(parts) == 0 {
		return err == nil, err == nil, err
	}
	err = e.reading(func(*foot) error {
		dir, known = false, false
		b := &blamer{e: e, found: map[tasktree.TaskID]*version{}}
		name := parts[len(parts)-1]
		rooms, err := b.rooms(parts[:len(parts)-1])
		if err != nil {
			return err
		}
		for _, r := range rooms {
			stays, err := b.stays(r, name)
			if err != nil {
				return err
			}
			for _, s := range stays {
				known = known || s.who.there
				dir = dir || s.who.dir
			}
		}
		return nil
	})
	return dir, known, err
}

// splitPath takes a path from the root of the workspace apart. Errors: Invalid.
func splitPath(op, path string) ([]string, error) {
	path = strings.Trim(path, "/")
	if path == "" || path == "." {
		return nil, nil
	}
	if trimStore(path) {
		return nil, fail(op, path, Invalid, errors.New("the store is not part of the history"))
	}
	parts := strings.Split(path, "/")
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || strings.IndexByte(p, 0) >= 0 {
			return nil, fail(op, path, Invalid, errors.New("the path must lead straight down from the root of the workspace"))
		}
	}
	return parts, nil
}

// blamer collects versions.
type blamer struct {
	e     *Engine
	found map[tasktree.TaskID]*version
	told  map[OID]uint64 // objects whose line is told, up to which number
	gone  map[lead]bool  // renames that were followed
	// making are the directories whose maker is being looked for: renames there and back lead round.
	making map[lead]bool
	// idle are files that tasks only seem to have touched.
	idle map[tasktree.TaskID][]thing
}

// lead is something at a place where it came from.
type lead struct {
	at spot
	id OID
}

type version struct {
	Version
	did  map[Deed]bool
	last uint64
}

// add says that a task did something. What it deleted in one place and made in another is modified.
func (b *blamer) add(task tasktree.TaskID, last uint64, did ...Deed) *version {
	v := b.found[task]
	if v == nil {
		k, has := b.e.Task(task)
		if !has {
			return &version{did: map[Deed]bool{}} // it came to nothing
		}
		v = &version{did: map[Deed]bool{}, Version: Version{Task: task, Agent: k.Agent, Title: k.Title, Started: k.Started, Status: b.e.StatusOf(task)}}
		b.found[task] = v
	}
	for _, d := range did {
		if len(did) == 1 && (d == DeedCreated && v.did[DeedDeleted] || d == DeedDeleted && v.did[DeedCreated]) {
			delete(v.did, DeedCreated)
			delete(v.did, DeedDeleted)
			d = DeedModified
		}
		v.did[d] = true
	}
	v.last = max(v.last, last)
	return v
}

// versions are those found, newest first. What counts is when a task changed the path last; an undone one goes before
// those with smaller numbers.
func (b *blamer) versions() []Version {
	var live, undone []*version
	for _, v := range b.found {
		if v.did[DeedCreated] {
			for _, d := range []Deed{DeedModified, DeedMode, DeedOwner, DeedAttributes} {
				delete(v.did, d) // it came as it is
			}
		}
		for _, d := range deeds {
			if v.did[d] {
				v.What = append(v.What, d)
			}
		}
		if v.Status == tasktree.Undone {
			undone = append(undone, v)
		} else {
			live = append(live, v)
		}
	}
	slices.SortFunc(live, func(x, y *version) int { return cmp.Or(cmp.Compare(y.last, x.last), cmp.Compare(y.Task, x.Task)) })
	slices.SortFunc(undone, func(x, y *version) int { return cmp.Compare(y.Task, x.Task) })
	out := make([]Version, 0, len(b.found))
	for len(live)+len(undone) > 0 {
		from := &live
		if len(live) == 0 || len(undone) > 0 && undone[0].Task > live[0].Task {
			from = &undone
		}
		out = append(out, (*from)[0].Version)
		*from = (*from)[1:]
	}
	return out
}
