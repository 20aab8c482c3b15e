package control

// Checker reads all of the history and says what is damaged. Without it there is no `.tt/fsck`.
type Checker interface {
	// Fsck is what stands behind `.tt/fsck`: one check, which begins when it is opened for reading. Asking for it has no
	// effect.
	Fsck(json bool) (any, error)
}

// fsck adds `.tt/fsck` and `.tt/fsck.json`. They are not listed: who reads all of `.tt` does not mean to run them.
func fsck(d builder, b Backend) {
	c, ok := b.(Checker)
	if !ok {
		return
	}
	for name, json := range map[string]bool{"fsck": false, "fsck.json": true} {
		d.unlisted(name, &foreign{none: d.at(name), open: func(Caller) (any, error) { return c.Fsck(json) }})
	}
}

// unlisted adds a name that is found and not listed.
func (b builder) unlisted(name string, n Node) {
	find := b.d.find
	b.d.find = func(asked string) (Node, bool) {
		if asked == name {
			return n, true
		}
		if find != nil {
			return find(asked)
		}
		return nil, false
	}
}
