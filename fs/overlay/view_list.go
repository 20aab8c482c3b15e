package overlay

import (
	"sort"

	"golang.org/x/sys/unix"
)

// list is the names in a directory of the view, sorted.
func (v *view) list(dir *ref) ([]string, error) {
	all, err := v.dirents(dir)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(all))
	for name := range all {
		out = append(out, name)
	}
	sort.Strings(out)
	return out, nil
}

// dirents is the entries of a directory of the view, with their types and inode numbers.
func (v *view) dirents(dir *ref) (map[string]Dirent, error) {
	if dir.low != nil {
		return v.e.lower.dirents(dir.low)
	}
	fd, err := v.openLive(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	all, err := readDirents(fd)
	if err != nil {
		return nil, err
	}
	d, err := v.oid(dir)
	if err != nil {
		return nil, err
	}
	if d == rootOID {
		delete(all, StoreName)
	}
	if v.e.lower != nil {
		if err := v.e.addBelow(fd, d, all); err != nil {
			return nil, err
		}
	}
	if d, err = v.oid(dir); err != nil || d == 0 {
		return all, err
	}
	var first error
	put := func(name string, id OID) {
		if id == 0 {
			delete(all, name)
			return
		}
		o, _, err := v.e.getObject(id)
		if err != nil && first == nil {
			first = err
		}
		all[name] = Dirent{Name: name, Ino: v.e.identOf(o.key).ino, Type: o.kind}
	}
	if v.epoch != 0 {
		if err := v.e.entriesAt(v.epoch, d, put); err != nil {
			return nil, err
		}
	}
	for name, id := range v.byDir[d] {
		put(name, id)
	}
	return all, first
}

// addBelow adds to the entries of an open directory of the upper those of the lower that show.
func (e *Engine) addBelow(fd int, d OID, all map[string]Dirent) error {
	for name, ent := range all {
		var st Stat
		if err := statAt(fd, name, &st); err == nil {
			ent.Ino = e.identOf(keyOf(&st)).ino
			all[name] = ent
		}
	}
	o, _, err := e.originOf(d)
	if err != nil || o == nil {
		return err
	}
	taken, err := e.takenIn(d)
	if err != nil {
		return err
	}
	low, err := e.lower.dirents(o.ref)
	if err != nil {
		return err
	}
	for name, ent := range low {
		if _, has := all[name]; !has && !taken[name] {
			all[name] = ent
		}
	}
	return nil
}

// readDirents reads an open directory, without "." and "..".
func readDirents(fd int) (map[string]Dirent, error) {
	all := map[string]Dirent{}
	return all, eachDirent(fd, listBytes, func(ent Dirent) bool {
		all[ent.Name] = ent
		return true
	})
}
