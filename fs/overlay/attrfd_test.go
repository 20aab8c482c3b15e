package overlay

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAttributesByHandle: attributes are the same whether the file is open or not, whatever for, and also after its name is
// gone; what was before comes back.
func TestAttributesByHandle(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.begin("make")
	s.must(s.create("own", "content", 0o600))
	s.must(s.setXattr("own", "user.old", "1"))
	before := s.snapshot(true)
	s.begin("change")
	mode, size := uint32(0o640), int64(3)
	at := time.Unix(1_000_000, 7)
	id, err := s.walk("own")
	s.must(err)
	for _, flags := range []uint32{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR} {
		h, err := s.openFile("own", flags)
		s.must(err)
		for _, by := range []*Handle{nil, h} {
			mode ^= 0o011
			at = at.Add(time.Second)
			st, err := s.e.SetAttributes(s.caller(), id, by, SetAttr{Mode: &mode, Size: &size, Mtime: &at})
			s.must(err)
			if now := s.stat("own"); now != st || uint32(st.Mode)&0o777 != mode || st.Size != 3 || st.Mtime.Sec != at.Unix() || st.Mtime.Nsec != 7 {
				t.Errorf("open with %#x: %+v, then %+v", flags, st, now)
			}
		}
		s.must(s.setXattr("own", "user.new", "2"))
		names, err := s.e.ListXattr(id)
		s.must(err)
		if v, err := s.e.GetXattr(id, "user.new"); string(v) != "2" || !slices.Equal(names, []byte("user.old\x00user.new\x00")) {
			t.Errorf("open with %#x: %q %v of %q", flags, v, err, names)
		}
		s.must(s.removeXattr("own", "user.new"))
		if _, err := s.e.GetXattr(id, "user.new"); !errors.Is(err, unix.ENODATA) {
			t.Errorf("removed: %v", err)
		}
		s.release(h)
	}
	s.undo()
	s.check("undo", before)
	h, err := s.openFile("own", unix.O_RDONLY)
	s.must(err)
	s.begin("remove")
	s.must(s.unlink("own"))
	st, err := s.e.SetAttributes(s.caller(), id, nil, SetAttr{Mode: &mode})
	if s.must(err); uint32(st.Mode)&0o777 != mode || st.Nlink != 0 {
		t.Errorf("without a name: %+v", st)
	}
	s.release(h)
	s.undo()
	s.check("undo", before)
}

// TestAttributesWaitForNobody: reading attributes does not wait for who works on the content.
func TestAttributesWaitForNobody(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.must(s.create("own", "content", 0o600))
	s.must(s.setXattr("own", "user.x", "1"))
	h, err := s.openFile("own", unix.O_RDWR)
	s.must(err)
	h.n.mu.Lock()
	v, err := s.e.GetXattr(h.Node(), "user.x")
	h.n.mu.Unlock()
	if s.must(err); string(v) != "1" {
		t.Errorf("%q", v)
	}
	s.release(h)
}

// TestOwnerTakesRights: a change of the owner takes setuid and setgid away, by a handle and without one.
func TestOwnerTakesRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give files away")
		return
	}
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	for _, open := range []bool{false, true} {
		s.must(s.create("own", "x", 0o755))
		s.must(s.chmod("own", 0o6755))
		if st := s.stat("own"); st.Mode&0o7777 != 0o6755 {
			t.Errorf("mode %o", st.Mode)
		}
		id, err := s.walk("own")
		s.must(err)
		var h *Handle
		if open {
			h, err = s.openFile("own", unix.O_RDONLY)
			s.must(err)
		}
		uid := uint32(1234)
		st, err := s.e.SetAttributes(s.caller(), id, nil, SetAttr{UID: &uid, KillPriv: true})
		if s.must(err); uint32(st.Mode)&0o7777 != 0o755 || st.Uid != uid {
			t.Errorf("open %v: mode %o, owner %d", open, st.Mode, st.Uid)
		}
		s.must(s.chmod("own", 0o6755))
		size := int64(0)
		st, err = s.e.SetAttributes(s.caller(), id, nil, SetAttr{Size: &size, KillPriv: true})
		if s.must(err); uint32(st.Mode)&0o7777 != 0o755 {
			t.Errorf("truncated, open %v: mode %o", open, st.Mode)
		}
		if h != nil {
			s.release(h)
		}
		s.must(s.unlink("own"))
	}
}

// TestMadeTwice: a name that is there is not made again, in a directory of the task itself too, where it is not looked for
// first; and nothing of the refusal is recorded.
func TestMadeTwice(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.begin("before")
	s.must(s.mkdir("old", 0o755))
	s.must(s.create("old/own", "1", 0o644))
	s.begin("make")
	s.must(s.mkdir("new", 0o755))
	for _, dir := range []string{"old", "new"} {
		if dir == "new" {
			s.must(s.create("new/own", "1", 0o644))
		}
		records := s.e.count.records.Load()
		_, err := s.createOpen(dir+"/own", unix.O_RDWR, 0o644)
		s.must(err, unix.EEXIST)
		s.must(s.mkdir(dir+"/own", 0o755), unix.EEXIST)
		s.must(s.symlink("to", dir+"/own"), unix.EEXIST)
		s.must(s.mkfifo(dir+"/own", 0o644), unix.EEXIST)
		if now := s.e.count.records.Load(); now != records {
			t.Errorf("%s: %d records of refusals", dir, now-records)
		}
	}
	after := s.snapshot(true)
	s.undo()
	s.redo()
	s.check("redo", after)
}

// TestListingGoesOn: who asks again at the end of a listing hears the end once more, and after that of what was made since.
func TestListingGoesOn(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.must(s.mkdir("list", 0o755))
	s.must(s.create("list/1", "", 0o644))
	id, err := s.walk("list")
	s.must(err)
	d, err := s.e.OpenDir(id)
	s.must(err)
	defer s.e.CloseDir(d)
	var at uint64
	names := func() (all []string) {
		s.must(s.e.Next(d, at, func(ent Dirent) bool { all, at = append(all, ent.Name), ent.Next; return true }))
		slices.Sort(all)
		return all
	}
	if got := names(); !slices.Equal(got, []string{".", "..", "1"}) {
		t.Errorf("listed %q", got)
	}
	s.must(s.create("list/2", "", 0o644))
	if got := names(); got != nil {
		t.Errorf("after the end: %q", got)
	}
	at = 0
	if got := names(); !slices.Equal(got, []string{".", "..", "1", "2"}) {
		t.Errorf("from the beginning: %q", got)
	}
	if got := names(); got != nil {
		t.Errorf("after the end: %q", got)
	}
}
