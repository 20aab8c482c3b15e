package overlay

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRaiseLeavesTimes: what is raised into a directory does not take back the time that an entry gets there which comes or
// goes at the same instant.
func TestRaiseLeavesTimes(t *testing.T) {
	const rounds = 400
	s := newStand(t, 1)
	s.must(s.mkdir("d", 0o700))
	for i := range rounds {
		s.must(s.create(fmt.Sprintf("d/%d", i), "x", 0o600))
	}
	s.old()
	f := s.fork("one")
	dir, err := f.walk("d")
	f.must(err)
	f.must(f.create("d/first", "", 0o600))
	f.must(f.mkdir("out", 0o700))
	out, err := f.walk("out")
	f.must(err)
	for i := range rounds {
		id, err := f.walk(fmt.Sprintf("d/%d", i))
		f.must(err)
		before := time.Now().Add(-10 * time.Millisecond) // the kernel's clock of inodes ticks
		f.must(f.utimes("d", 5))
		var both sync.WaitGroup
		start := make(chan struct{})
		var errs [2]error
		both.Go(func() {
			<-start
			errs[0] = f.e.SetXattr(f.caller(), id, "user.k", []byte("v"), 0, false)
		})
		both.Go(func() {
			<-start
			name := fmt.Sprintf("new%d", i/3*3)
			switch i % 3 {
			case 0:
				_, errs[1] = f.e.Mkdir(f.caller(), dir, name, 0o700)
			case 1:
				errs[1] = f.e.Rename(f.caller(), dir, name, dir, name+"r", 0)
			case 2:
				errs[1] = f.e.Rename(f.caller(), dir, name+"r", out, name, 0)
			}
		})
		close(start)
		both.Wait()
		f.must(errs[0])
		f.must(errs[1])
		st, err := f.e.GetAttr(dir, nil)
		f.must(err)
		if at := time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)); at.Before(before) {
			t.Fatalf("round %d: the directory changed after %v, and says %v", i, before, at)
		}
	}
	if st, err := f.e.GetAttr(dir, nil); err != nil || kindOf(&st) != unix.S_IFDIR {
		t.Error(err)
	}
}
