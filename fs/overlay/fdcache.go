package overlay

import (
	"container/list"
	"sync"

	"golang.org/x/sys/unix"
)

// fdCache keeps directories open that are looked for again and again, those used last. A descriptor stays right wherever its
// directory is moved; it is closed when the cache has let it go and nobody uses it any more. The zero value keeps nothing.
type fdCache struct {
	mu    sync.Mutex
	limit int                      // +checklocks:mu 0: nothing is kept
	users int                      // +checklocks:mu see keepOpen
	by    map[dirKey]*list.Element // +checklocks:mu of *keptFD
	order list.List                // +checklocks:mu latest first
}

// dirKey is a directory: an object, or, where it has no number, an inode.
type dirKey struct {
	id  OID
	ino inoKey
}

type keptFD struct {
	key   dirKey
	fd    int
	users int // the cache counts as one
}

// get is the descriptor of a directory that is open already.
func (c *fdCache) get(key dirKey) (fd int, done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.by[key]
	if el == nil {
		return -1, nil, false
	}
	k := el.Value.(*keptFD)
	k.users++
	c.order.MoveToFront(el)
	return k.fd, func() { c.letGo(k) }, true
}

// put keeps a descriptor, which is the cache's from now on.
func (c *fdCache) put(key dirKey, fd int) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit == 0 || c.by[key] != nil {
		return func() { unix.Close(fd) }
	}
	if c.by == nil {
		c.by = map[dirKey]*list.Element{}
	}
	k := &keptFD{key: key, fd: fd, users: 2}
	c.by[key] = c.order.PushFront(k)
	for c.order.Len() > c.limit {
		c.dropLocked(c.order.Back())
	}
	return func() { c.letGo(k) }
}

// drop lets go of one that is of no more use.
func (c *fdCache) drop(key dirKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.by[key]; el != nil {
		c.dropLocked(el)
	}
}

// +checklocks:c.mu
func (c *fdCache) dropLocked(el *list.Element) {
	k := el.Value.(*keptFD)
	c.order.Remove(el)
	delete(c.by, k.key)
	if k.users--; k.users == 0 {
		unix.Close(k.fd)
	}
}

func (c *fdCache) letGo(k *keptFD) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.users--; k.users == 0 {
		unix.Close(k.fd)
	}
}

// open makes the cache keep so many, 0: none from now on.
func (c *fdCache) open(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limitLocked(limit)
}

// +checklocks:c.mu
func (c *fdCache) limitLocked(limit int) {
	c.limit = limit
	for c.order.Len() > limit {
		c.dropLocked(c.order.Back())
	}
}

// keptOpen is how many directories keepOpen keeps.
const keptOpen = 256

// keepOpen keeps the directories that are looked for by their objects open until release: what goes through many objects
// would open the same ones for each. It is for the time of one move or merge: what is moved out of the workspace around the
// mount is not to be followed for longer.
func (e *Engine) keepOpen() (release func()) {
	c := &e.dirs
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	c.limit = keptOpen
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users--; c.users == 0 {
			c.limitLocked(0)
		}
	}
}
