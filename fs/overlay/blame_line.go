package overlay

import (
	"slices"

	"github.com/ttfs/ttfs/tasktree"
)

// room is a directory that a path led to once.
type room struct {
	dir OID
	via spot // where it was then
	// below are names of directories without a number below it: of what is in them nobody has a record but their maker.
	below []string
	// until is the number up to which the path led here.
	until uint64
}

// maxBlame bounds how far the way back of a directory is followed.
const maxBlame = 100

// rooms are the directories that a path ever led to. What happened to those above them is told by line.
func (b *blamer) rooms(parts []string) ([]room, error) {
	all := []room{{dir: rootOID, until: always}}
	for _, name := range parts {
		var next []room
		for _, r := range all {
			stays, err := b.stays(r, name)
			if err != nil {
				return nil, err
			}
			for _, s := range stays {
				sub := room{dir: s.who.id, via: spot{r.dir, name}, until: min(s.to, r.until)}
				if s.who.id == 0 {
					sub.dir, sub.via, sub.below = r.dir, r.via, append(slices.Clone(r.below), name)
				}
				same := func(o room) bool { return o.dir == sub.dir && slices.Equal(o.below, sub.below) }
				if i := slices.IndexFunc(next, same); i >= 0 {
					next[i].until = max(next[i].until, sub.until)
				} else if s.who.there && s.who.dir {
					next = append(next, sub)
				}
			}
		}
		all = next
	}
	return all, nil
}

// stays are what was at a name of a room while the path led to it.
func (b *blamer) stays(r room, name string) ([]stay, error) {
	if len(r.below) > 0 {
		now, err := b.now(r.dir, append(slices.Clone(r.below), name))
		return []stay{{who: now, to: always}}, err
	}
	turns, now, err := b.turns(spot{r.dir, name})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(staysOf(turns, now), func(s stay) bool { return s.from > r.until }), nil
}

// line tells all that was done to a path. there says whether something is at it now.
func (b *blamer) line(parts []string) (there bool, err error) {
	b.told, b.gone, b.making = map[OID]uint64{}, map[lead]bool{}, map[lead]bool{}
	if len(parts) == 0 {
		return true, b.objectLine(rootOID, always)
	}
	for i := range parts[:len(parts)-1] {
		if err := b.carried(parts, i); err != nil {
			return false, err
		}
	}
	rooms, err := b.rooms(parts[:len(parts)-1])
	if err != nil {
		return false, err
	}
	name := parts[len(parts)-1]
	for _, r := range rooms {
		now, err := b.inRoom(r, name)
		if err != nil {
			return false, err
		}
		there = there || now
	}
	return there, nil
}

// inRoom tells what was done at a name of a room, and says whether something is there now, where the path leads to it.
func (b *blamer) inRoom(r room, name string) (there bool, err error) {
	if len(r.below) > 0 {
		now, err := b.now(r.dir, append(slices.Clone(r.below), name))
		if err != nil || !now.there {
			return false, err
		}
		_, err = b.made(spot{r.dir, r.below[0]}, occupant{there: true, dir: true}, 0)
		return r.until == always, err
	}
	at := spot{r.dir, name}
	turns, now, err := b.turns(at)
	if err != nil {
		return false, err
	}
	for i := range turns {
		if t := &turns[i]; t.at <= r.until || t.undone {
			if err := b.tell(t, at); err != nil {
				return false, err
			}
		}
	}
	stays := staysOf(turns, now)
	for _, s := range stays {
		if s.from <= r.until && s.who.id != 0 {
			if err := b.objectLine(s.who.id, min(s.to, r.until)); err != nil {
				return false, err
			}
		}
	}
	if first := stays[0].who; first.there {
		if _, err := b.madeWith(at, r.via, 0); err != nil {
			return false, err
		}
	}
	return now.there && r.until == always, nil
}

// tell tells one turn of a place, and where what came with it was before.
func (b *blamer) tell(t *turn, at spot) error {
	had, has := t.before(), t.after()
	switch {
	case had.there && has.is(had):
		return nil
	case !had.there && !has.there:
		b.add(t.task, t.last, DeedCreated, DeedDeleted)
		return nil
	case has.there:
		from, renamed, err := b.other(t, at, has.id, true)
		if err != nil {
			return err
		}
		if renamed {
			b.add(t.task, t.last, DeedRenamed).From = b.pathOf(from)
			return b.follow(from, has.id, t)
		}
		if had.there {
			b.add(t.task, t.last, DeedModified)
		} else {
			b.add(t.task, t.last, DeedCreated)
		}
		return nil
	}
	to, renamed, err := b.other(t, at, had.id, false)
	if err != nil {
		return err
	}
	if renamed {
		b.add(t.task, t.last, DeedRenamed).To = b.pathOf(to)
	} else {
		b.add(t.task, t.last, DeedDeleted)
	}
	return nil
}

// follow tells how an object came to a place that it left in a turn. Other things that were there are not of its line.
func (b *blamer) follow(at spot, id OID, left *turn) error {
	if b.gone[lead{at, id}] {
		return nil
	}
	b.gone[lead{at, id}] = true
	turns, now, err := b.turns(at)
	if err != nil {
		return err
	}
	for i := range turns {
		t := &turns[i]
		if t.task == left.task || t.at > left.at && !t.undone || t.after().id != id {
			continue
		}
		if err := b.tell(t, at); err != nil {
			return err
		}
	}
	if staysOf(turns, now)[0].who.id == id {
		_, err = b.madeWith(at, spot{}, 0)
	}
	return err
}

// madeWith tells who made what was at a place before its first turn: who made the directory that it is in. via is a place
// where that directory was, if one is known.
func (b *blamer) madeWith(at, via spot, depth int) (found bool, err error) {
	if at.dir == rootOID || at.dir == 0 || depth > maxBlame {
		return false, nil // it was there before any task
	}
	o, known, err := b.e.getObject(at.dir)
	if err != nil || !known {
		return false, err
	}
	places := []spot{via, b.place(&o), o.at, o.was}
	for i, place := range places {
		if place.dir == 0 || place.dir == at.dir || slices.Contains(places[:i], place) {
			continue
		}
		if found, err = b.made(place, occupant{id: at.dir, there: true, dir: true}, depth+1); found || err != nil {
			break
		}
	}
	return found, err
}

// made tells who made a directory, and with it what is in it without a record.
func (b *blamer) made(at spot, who occupant, depth int) (found bool, err error) {
	here := lead{at, who.id}
	if depth > maxBlame || at.dir == 0 || b.making[here] {
		return false, nil
	}
	b.making[here] = true
	defer delete(b.making, here)
	turns, now, err := b.turns(at)
	if err != nil {
		return false, err
	}
	for i := range slices.Backward(turns) {
		t := &turns[i]
		if !t.after().is(who) || t.before().is(who) {
			continue
		}
		from, renamed, err := b.other(t, at, who.id, true)
		if err != nil {
			return false, err
		}
		if renamed {
			if found, err = b.made(from, who, depth+1); found || err != nil {
				return found, err
			}
			continue
		}
		b.add(t.task, t.last, DeedCreated)
		return true, nil
	}
	if staysOf(turns, now)[0].who.is(who) {
		return b.madeWith(at, spot{}, depth+1)
	}
	return false, nil
}

// carried tells the renames of a directory above a path, with which it came or went: parts[i] is the directory's name.
func (b *blamer) carried(parts []string, i int) error {
	rooms, err := b.rooms(parts[:i])
	if err != nil {
		return err
	}
	for _, r := range rooms {
		if len(r.below) > 0 {
			continue
		}
		at := spot{r.dir, parts[i]}
		turns, _, err := b.turns(at)
		if err != nil {
			return err
		}
		for j := range turns {
			if t := &turns[j]; t.at <= r.until || t.undone {
				if err := b.carriedIn(t, at, parts[i+1:]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *blamer) carriedIn(t *turn, at spot, rest []string) error {
	for _, came := range []bool{true, false} {
		dir := t.before()
		if came {
			dir = t.after()
		}
		if !dir.dir || dir.id == 0 || t.before().is(t.after()) {
			continue
		}
		held, err := b.heldThen(dir.id, rest, t)
		if err != nil {
			return err
		}
		other, renamed, err := b.other(t, at, dir.id, came)
		if err != nil {
			return err
		}
		if held && !renamed && !came {
			b.add(t.task, t.last, DeedDeleted) // the directory was renamed and removed elsewhere, in one task
		}
		if !held || !renamed {
			continue
		}
		path := b.pathOf(other)
		for _, name := range rest {
			path = joinPath(path, name)
		}
		if came {
			b.add(t.task, t.last, DeedRenamed).From = path
		} else {
			b.add(t.task, t.last, DeedRenamed).To = path
		}
	}
	return nil
}

// heldThen says whether there was something at a path below a directory when a turn took place.
func (b *blamer) heldThen(dir OID, rest []string, t *turn) (bool, error) {
	turns, now, err := b.turns(spot{dir, rest[0]})
	if err != nil {
		return false, err
	}
	for _, s := range staysOf(turns, now) {
		if !s.who.there || !t.undone && (s.from > t.at || s.to <= t.at) {
			continue
		}
		held := len(rest) == 1
		if !held && s.who.id != 0 {
			held, err = b.heldThen(s.who.id, rest[1:], t)
		} else if !held {
			var o occupant
			o, err = b.now(dir, rest)
			held = o.there
		}
		if held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// objectLine tells the changes of an object's bytes and metadata, up to a number.
func (b *blamer) objectLine(id OID, until uint64) error {
	if told, has := b.told[id]; has && told >= until {
		return nil
	}
	b.told[id] = until
	type touch struct {
		task    tasktree.TaskID
		share   share
		content bool
		meta    *meta
	}
	var all []touch
	err := b.shares(thing{obj: id}, func(task tasktree.TaskID, s share) error {
		t := touch{task: task, share: s}
		_, content, err := b.e.j.Get(contentKey(task, id))
		if err != nil {
			return err
		}
		t.content = content
		v, found, err := b.e.j.Get(metaKey(task, id))
		if err == nil && found {
			var m meta
			m, err = decodeMeta(v)
			t.meta = &m
		}
		if err == nil && (content || found) {
			all = append(all, t)
		}
		return err
	})
	if err != nil {
		return storeError("blame", err)
	}
	slices.SortFunc(all, func(x, y touch) int {
		if x.share.first < y.share.first {
			return -1
		}
		return 1
	})
	now := b.metaNow(id)
	for i := range slices.Backward(all) {
		t, next := &all[i], now
		for j := range all[i+1:] {
			if later := &all[i+1+j]; later.meta != nil && later.share.first > t.share.last {
				next = later.meta
				break
			}
		}
		if t.share.first <= until || b.e.StatusOf(t.task) == tasktree.Undone {
			b.add(t.task, t.share.last, deedsOf(t.content, t.meta, next)...)
		}
	}
	return nil
}
