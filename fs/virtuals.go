package fs

import (
	"strconv"
	"sync"
)

// virtualTable is the names below `.tt` that the kernel knows.
type virtualTable struct {
	mu     sync.Mutex
	above  uint64 // virtualBase and what daemons before this one gave
	next   uint64
	byID   map[uint64]*virtual
	byPath map[string]*virtual
}

func virtualKey(path string, view uint64) string {
	if view == 0 {
		return path
	}
	return path + "\x00as\x00" + strconv.FormatUint(view, 10)
}

// find is the id of a name of a view's `.tt`; 0 when the kernel does not know it.
func (t *virtualTable) find(path string, view uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.byPath[virtualKey(path, view)]; v != nil {
		return v.id
	}
	return 0
}

// intern is the node of a name, counted as one lookup.
func (t *virtualTable) intern(v virtual) *virtual {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID, t.byPath, t.next = map[uint64]*virtual{}, map[string]*virtual{}, virtualBase+t.above
	}
	key := virtualKey(v.path, v.view)
	if v.tree != nil {
		key += "\x00" + string(v.agent)
	}
	if v.link != "" {
		key += "\x00\x00" + v.link
	}
	if v.by != 0 {
		key += "\x00by\x00" + strconv.FormatUint(uint64(v.by), 10)
	}
	old := t.byPath[key]
	if old == nil {
		t.next++
		v.id, v.key = t.next, key
		old = &v
		t.byID[v.id], t.byPath[key] = old, old
	}
	old.lookups++
	return old
}

// put is a name that has its number from a daemon before this one. How often the kernel looked it up is not known: it stays.
func (t *virtualTable) put(id uint64, v virtual) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID, t.byPath, t.next = map[uint64]*virtual{}, map[string]*virtual{}, virtualBase+t.above
	}
	v.id, v.lookups = id, 1<<40
	t.byID[id] = &v
	if key := virtualKey(v.path, v.view); t.byPath[key] == nil {
		t.byPath[key] = &v
	}
}

func (t *virtualTable) get(id uint64) *virtual {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

func (t *virtualTable) forget(id, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.byID[id]
	if v == nil {
		return
	}
	if v.lookups -= min(n, v.lookups); v.lookups == 0 {
		delete(t.byID, id)
		delete(t.byPath, v.key)
	}
}
