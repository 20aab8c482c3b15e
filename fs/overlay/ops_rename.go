package overlay

import "golang.org/x/sys/unix"

// RenameFlags are those of renameat2(2).
const (
	RenameNoReplace = unix.RENAME_NOREPLACE
	RenameExchange  = unix.RENAME_EXCHANGE
	RenameWhiteout  = unix.RENAME_WHITEOUT
)

// renaming is a rename under way.
type renaming struct {
	e        *Engine
	from, to *node // directories
	ff, tf   *dirFD
	old, new string
	a, b     *removal // what is at the old name, and at the new; b is nil for nothing
	flags    uint
}

// Rename gives what is at one name another; flags are RenameFlags. What was at the new name goes the way of an unlink. A
// whiteout, which is left at the old name, is made by the backing filesystem in the same effect, and is the caller's: what
// was at the name before is in the record of any rename. Errors: EINVAL for flags that do not go together.
func (e *Engine) Rename(c Caller, fromDir NodeID, oldName string, toDir NodeID, newName string, flags uint) error {
	if flags&^(RenameNoReplace|RenameExchange|RenameWhiteout) != 0 || flags&RenameExchange != 0 && flags != RenameExchange {
		return unix.EINVAL
	}
	from, err := e.pin(fromDir)
	if err != nil {
		return err
	}
	defer e.unpin(from)
	to, err := e.pin(toDir)
	if err != nil {
		return err
	}
	defer e.unpin(to)
	if reserved(from, oldName) || reserved(to, newName) {
		return unix.EPERM
	}
	return unlessMet(func() error {
		r := &renaming{e: e, from: from, to: to, old: oldName, new: newName, flags: flags}
		return r.once(c)
	})
}

func (r *renaming) once(c Caller) (err error) {
	e := r.e
	pass, err := e.enterOn(c.Agent, target{r.from, r.old}, target{r.to, r.new})
	if err != nil {
		return err
	}
	defer pass.leave()
	if r.ff, err = e.useDir(r.from); err != nil {
		return err
	}
	defer e.putDir(r.ff)
	if r.tf, err = e.useDir(r.to); err != nil {
		return err
	}
	defer e.putDir(r.tf)
	e.renames.Lock()
	defer e.renames.Unlock()
	defer r.lockDirs()()
	if r.to.dir.dead {
		return unix.ENOENT
	}
	return r.do(c)
}

func (r *renaming) lockDirs() (unlock func()) {
	if r.from == r.to {
		r.from.dir.mu.Lock()
		return r.from.dir.mu.Unlock
	}
	first, second := r.from, r.to
	if first.id > second.id {
		first, second = second, first
	}
	first.dir.mu.Lock()
	second.dir.mu.Lock()
	return func() {
		second.dir.mu.Unlock()
		first.dir.mu.Unlock()
	}
}

// lockEnds locks what is at the two names.
func (r *renaming) lockEnds() (unlock func()) {
	ends := []*node{r.a.n}
	if r.b != nil && r.b.n != r.a.n {
		ends = append(ends, r.b.n)
		if ends[0].id > ends[1].id {
			ends[0], ends[1] = ends[1], ends[0]
		}
	}
	var locked []*node
	for _, n := range ends {
		// A directory that is moved keeps its entries; of one that is replaced nothing may be made in the meantime. An end
		// may be one of the two directories only where the rename is refused anyway.
		if n.dir != nil && (r.b == nil || n != r.b.n || n == r.from || n == r.to || r.flags&RenameExchange != 0) {
			continue
		}
		n.lock()
		locked = append(locked, n)
	}
	return func() {
		for _, n := range locked {
			n.unlock()
		}
	}
}

func (r *renaming) do(c Caller) (err error) {
	e := r.e
	if r.a, err = e.look(r.from, r.ff.fd, r.old); err != nil {
		return err
	}
	defer e.unpin(r.a.n)
	r.b, err = e.look(r.to, r.tf.fd, r.new)
	switch {
	case err == nil:
		defer e.unpin(r.b.n)
		if r.flags&RenameNoReplace != 0 {
			return unix.EEXIST
		}
		if r.b.n == r.a.n {
			return nil // two names of one inode: rename(2) does nothing
		}
	case err == unix.ENOENT:
		r.b = nil
		if r.flags&RenameExchange != 0 {
			return unix.ENOENT
		}
	default:
		return err
	}
	if err := e.meet(r.a.n); err != nil {
		return err
	}
	if r.b != nil {
		if err := e.meet(r.b.n); err != nil {
			return err
		}
	}
	defer r.lockEnds()()
	if r.b != nil && r.flags&RenameExchange == 0 {
		if err := r.mayReplace(); err != nil {
			return err
		}
	}
	from, to := e.pathAt(r.from, r.old), e.pathAt(r.to, r.new)
	if err := r.judge(&c, from, to); err != nil {
		return err
	}
	ch, err := e.begin(c)
	if err != nil {
		return err
	}
	if err := r.record(ch); err != nil {
		return err
	}
	if err := ch.commit(); err != nil {
		return err
	}
	if err := e.point("rename"); err != nil {
		return err
	}
	if r.b != nil && r.flags&RenameExchange == 0 {
		r.b.keep(e)
	}
	names := e.places.lock(r.from, r.to)
	if r.flags&RenameWhiteout != 0 {
		err = asCaller(c, r.apply)
	} else {
		err = r.apply()
	}
	names.unlock()
	if err == nil {
		r.learn(&c, from, to)
	}
	return err
}

func (r *renaming) record(ch *change) error {
	var comes *node
	if r.flags&RenameExchange != 0 {
		comes = r.b.n
	}
	if err := ch.entry(r.from, r.old, r.a.n, comes); err != nil {
		return err
	}
	if r.flags&RenameExchange != 0 {
		if err := ch.entry(r.to, r.new, r.b.n, r.a.n); err != nil {
			return err
		}
		if err := r.tell(ch, r.b.n, r.to, r.new, r.from, r.old); err != nil {
			return err
		}
		return r.tell(ch, r.a.n, r.from, r.old, r.to, r.new)
	}
	if r.b != nil {
		if err := ch.remove(r.b, r.a.n); err != nil {
			return err
		}
		if r.b.n.dir != nil && r.b.fate == fateHold {
			if err := r.tellPassing(ch); err != nil {
				return err
			}
		}
	} else if err := ch.entry(r.to, r.new, nil, r.a.n); err != nil {
		return err
	}
	return r.tell(ch, r.a.n, r.from, r.old, r.to, r.new)
}

// tell puts into the record of a moved object where it is about to be. An object that has no number needs none.
func (r *renaming) tell(ch *change, n, from *node, old string, to *node, name string) error {
	e := r.e
	id, err := e.oidOf(n)
	if err != nil {
		return err
	}
	for _, k := range ch.numbers {
		if k.n == n {
			id = k.id
		}
	}
	if id == 0 {
		return nil
	}
	df, err := e.dirOID(from)
	if err != nil {
		return err
	}
	dt, err := e.dirOID(to)
	if err != nil {
		return err
	}
	o := object{id: id, kind: n.kind, key: n.key, at: spot{dt, name}, was: spot{df, old}}
	putObject(&ch.b, &o)
	return nil
}

// tellPassing writes into the record of a directory that is replaced where it is on its way into hold: see applyDir.
func (r *renaming) tellPassing(ch *change) error {
	df, err := r.e.dirOID(r.from)
	if err != nil {
		return err
	}
	dt, err := r.e.dirOID(r.to)
	if err != nil {
		return err
	}
	o := object{id: r.b.id, kind: r.b.n.kind, key: r.b.n.key, at: spot{dt, r.new}, was: spot{df, r.old}}
	putObject(&ch.b, &o)
	return nil
}

// apply renames. Preconditions: places is held for writing.
func (r *renaming) apply() error {
	e := r.e
	a, b := r.from, r.to
	if b.id < a.id {
		a, b = b, a
	}
	defer a.steady()()
	if a != b {
		defer b.steady()()
	}
	if r.flags&RenameExchange != 0 {
		if err := renameAt(r.ff.fd, r.old, r.tf.fd, r.new, unix.RENAME_EXCHANGE); err != nil {
			return err
		}
		e.nodes.mu.Lock()
		defer e.nodes.mu.Unlock()
		e.setPlaceLocked(r.a.n, r.to, r.new)
		e.setPlaceLocked(r.b.n, r.from, r.old)
		return nil
	}
	aside := func() {}
	if r.b != nil && r.b.fate == fateHold {
		var err error
		if r.b.n.dir != nil {
			return r.applyDir()
		} else {
			err = linkAt(r.tf.fd, r.new, e.hold, holdName(r.b.id))
			aside = func() { _ = unlinkAt(e.hold, holdName(r.b.id), 0) }
		}
		if err != nil {
			return err
		}
	}
	err := e.point("rename over")
	if err == nil {
		err = renameAt(r.ff.fd, r.old, r.tf.fd, r.new, r.flags)
	}
	if err != nil {
		aside()
		return err
	}
	r.took()
	return nil
}

// applyDir renames over an empty directory, which cannot have two names: the two change places, so that nobody finds the
// new name gone. After a death before the second effect the rename was not acknowledged, and undo takes it back.
func (r *renaming) applyDir() error {
	e := r.e
	refused := keepTimes(r.ff.fd, r.tf.fd)
	if err := renameAt(r.ff.fd, r.old, r.tf.fd, r.new, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	err := e.point("rename over")
	if err == nil {
		err = renameAt(r.ff.fd, r.old, e.hold, holdName(r.b.id), unix.RENAME_NOREPLACE|r.flags&RenameWhiteout)
	}
	if err != nil {
		if back := renameAt(r.ff.fd, r.old, r.tf.fd, r.new, unix.RENAME_EXCHANGE); back != nil {
			e.log.Error("a rename over a directory was made by half", "name", r.new, "err", err, "back", back)
		}
		refused()
		return err
	}
	r.took()
	return nil
}

// took brings the nodes up to date after a rename. Preconditions: places is held for writing.
func (r *renaming) took() {
	e := r.e
	if r.b != nil {
		if r.b.fate == fateHold {
			e.held(r.b.n, r.b.id)
		} else {
			e.lostName(r.b)
		}
		if r.b.n.dir != nil {
			r.b.n.dir.dead = true
			e.removedByKernel(r.b.n)
		}
	}
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	e.setPlaceLocked(r.a.n, r.to, r.new)
}
