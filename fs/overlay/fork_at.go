package overlay

import (
	"errors"
	"fmt"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// imagesAt is the workspace at the end of a task, as images of the fork's own, which have a run's number, put into a record
// with the numbers of links that files had. Preconditions: exclusive.
func (e *Engine) imagesAt(b *journal.Batch, run tasktree.TaskID, a tasktree.Agent, id tasktree.TaskID) (*images, error) {
	if k, has := e.Task(id); has {
		a = k.Agent
	} else if id != 0 {
		return nil, fail("fork", fmt.Sprintf("task %d", id), NoTask, nil)
	}
	v, err := e.viewAt(nil, a, id)
	if err != nil {
		return nil, err
	}
	im := newImages()
	im.entries, im.metas = v.entries, v.metas
	for _, id := range sortedOIDs(v.contents) {
		o, _, err := e.getObject(id)
		if err == nil {
			err = e.restoreContent(im, v, &ref{id: id, kind: o.kind, key: o.key})
		}
		if err != nil && !errors.Is(err, Gone) {
			return nil, err
		}
	}
	links, err := v.linksThen()
	if err != nil {
		return nil, err
	}
	for id, n := range links {
		b.Put(linksKey(run, id), encodeNumber(uint64(n)))
	}
	im.put(b, nil, run)
	return im, nil
}

// linksThen is how many names the files have in a view that have not as many on disk.
func (v *view) linksThen() (map[OID]uint32, error) {
	more := map[OID]int{}
	for at, id := range v.entries {
		is, err := v.e.liveAt(at)
		if err != nil {
			return nil, err
		}
		more[id]++
		more[is]--
	}
	delete(more, 0)
	out := map[OID]uint32{}
	for id, n := range more {
		is, isFile, err := v.e.linksNow(id)
		if errors.Is(err, Gone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if isFile && n != 0 {
			out[id] = uint32(max(0, int(is)+n))
		}
	}
	return out, nil
}

// liveAt is the object that is at a name now; 0 for nothing, or for what nobody has touched.
func (e *Engine) liveAt(at spot) (OID, error) {
	fd, done, err := e.openDir(at.dir, 0)
	if errors.Is(err, Gone) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer done()
	var st Stat
	if err := statAt(fd, at.name, &st); absent(err) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return e.findOID(keyOf(&st))
}

// linksNow is how many names of an object programs see. Errors: Gone.
func (e *Engine) linksNow(id OID) (n uint32, isFile bool, err error) {
	o, _, err := e.getObject(id)
	if err != nil || o.kind == unix.S_IFDIR {
		return 0, false, err
	}
	dir, name, done, err := e.locate(id)
	if err != nil {
		return 0, true, err
	}
	defer done()
	var st Stat
	if err := statAt(dir, name, &st); err != nil {
		return 0, true, storeError("count the links", err)
	}
	if e.inHold(id, o.key) && st.Nlink > 0 {
		st.Nlink--
	}
	from, _, err := e.originOf(id)
	if err == nil && from != nil {
		from.shows(&st)
	}
	return st.Nlink, true, err
}
