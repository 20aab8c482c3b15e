package journal

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var errInjected = errors.New("injected")

// faultDisk fails its calls number from to from+count-1, counting from 0. A failing write writes half first.
type faultDisk struct {
	disk
	mu          sync.Mutex
	calls       int
	from, count int
	free        int64 // when not 0: what freeBytes says
	err         error
}

func (d *faultDisk) hit() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if n := d.calls - 1; n >= d.from && n < d.from+d.count {
		if d.err != nil {
			return d.err
		}
		return errInjected
	}
	return nil
}

func (d *faultDisk) open(path string, flag int) (file, error) {
	if err := d.hit(); err != nil {
		return nil, err
	}
	f, err := d.disk.open(path, flag)
	return faultFile{f, d}, err
}

func (d *faultDisk) rename(from, to string) error {
	if err := d.hit(); err != nil {
		return err
	}
	return d.disk.rename(from, to)
}

func (d *faultDisk) remove(path string) error {
	if err := d.hit(); err != nil {
		return err
	}
	return d.disk.remove(path)
}

func (d *faultDisk) syncDir(dir string) error {
	if err := d.hit(); err != nil {
		return err
	}
	return d.disk.syncDir(dir)
}

func (d *faultDisk) freeBytes(dir string) (int64, error) {
	d.mu.Lock()
	free := d.free
	d.mu.Unlock()
	if free != 0 {
		return free, nil
	}
	return d.disk.freeBytes(dir)
}

type faultFile struct {
	file
	d *faultDisk
}

func (f faultFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.d.hit(); err != nil {
		return 0, err
	}
	return f.file.ReadAt(b, off)
}

func (f faultFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.d.hit(); err != nil {
		n, _ := f.file.WriteAt(b[:len(b)/2], off)
		return n, err
	}
	return f.file.WriteAt(b, off)
}

func (f faultFile) truncate(size int64) error {
	if err := f.d.hit(); err != nil {
		return err
	}
	return f.file.truncate(size)
}

func (f faultFile) datasync() error {
	if err := f.d.hit(); err != nil {
		return err
	}
	return f.file.datasync()
}

func (f faultFile) size() (int64, error) {
	if err := f.d.hit(); err != nil {
		return 0, err
	}
	return f.file.size()
}

// faultRun makes changes on a disk that fails and keeps the account of what must be there.
type faultRun struct {
	t    *testing.T
	j    *Journal
	want map[string]string
	// unsure is set when the journal failed for good: the batch under way may be there or not.
	unsure map[string]string
}

func (r *faultRun) commit(key, value string) {
	if r.unsure != nil {
		return
	}
	err := r.j.Commit(batchOf(key, value))
	after := maps.Clone(r.want)
	after[key] = value
	switch {
	case err == nil:
		r.want = after
	case r.j.Stats().Failed != nil:
		r.unsure = after
		if err := r.j.Commit(batchOf("x", "y")); !errors.Is(err, ErrIO) {
			r.t.Errorf("a failed journal takes a commit: %v", err)
		}
	}
	got := map[string]string{}
	if err := r.j.Scan(nil, func(k, v []byte) error { got[string(k)] = string(v); return nil }); err != nil {
		return // a failing read
	}
	if !maps.Equal(got, r.want) && !maps.Equal(got, r.unsure) {
		r.t.Errorf("after %q: got %s\nwant %s", key, brief(got), brief(r.want))
	}
}

// TestFaults fails the Nth call to the disk, for every N until none fails, alone, and with syncs together with the next one: what was
// acknowledged is there after a reopen, what was refused is not, and nothing counts as damage.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		count int
		sync  bool
	}{{1, false}, {2, true}} {
		t.Run(fmt.Sprint(c.count, "/", c.sync), func(t *testing.T) {
			for n := 0; faultOnce(t, n, c.count, c.sync); n++ {
			}
		})
	}
}

func faultOnce(t *testing.T, n, count int, sync bool) (reached bool) {
	dir := filepath.Join(t.TempDir(), "j")
	d := &faultDisk{disk: osDisk{}, from: n, count: count}
	o := testOptions(t)
	o.Logger = nil
	o.SegmentBytes, o.SyncEvery, o.disk, o.indexFS = 1500, sync, d, vfs.NewMem()
	r := &faultRun{t: t, want: map[string]string{}}
	for round := range 2 {
		j, err := Open(dir, o)
		if err != nil {
			if !errors.Is(err, errInjected) {
				t.Fatalf("call %d: %v", n, err)
			}
			continue
		}
		r.j = j
		for i := range 3 {
			r.commit(fmt.Sprint("small", i), fmt.Sprint(round))
			r.commit(fmt.Sprint("big", i), big(fmt.Sprint(round), 600))
			if i == 1 {
				_ = j.Checkpoint()
			}
			if i == 2 {
				_ = j.Compact()
			}
		}
		if round == 0 {
			_ = j.Close()
			continue
		}
		// The second time it dies without Close.
		abandon(t, j)
	}
	index := o.indexFS
	o = testOptions(t)
	o.Logger, o.indexFS = nil, index
	j := mustOpen(t, dir, o)
	defer mustClose(t, j)
	got := contents(t, j, "")
	if !maps.Equal(got, r.want) && !maps.Equal(got, r.unsure) {
		t.Fatalf("call %d: got %s\nwant %s\nor %s", n, brief(got), brief(r.want), brief(r.unsure))
	}
	wantSound(t, j)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls > n
}

// TestNoSpace: below the floor a commit is refused and changes nothing; with room again it works.
func TestNoSpace(t *testing.T) {
	d := &faultDisk{disk: osDisk{}, free: 10 << 20}
	o := testOptions(t)
	o.FloorBytes, o.disk = 1<<20, d
	j := mustOpen(t, t.TempDir(), o)
	commit(t, j, "a", "1")
	d.mu.Lock()
	d.free = 1<<20 + 10
	d.mu.Unlock()
	j.appendMu.Lock()
	j.space.at = j.space.at.Add(-maxSpaceAge) // as if time had passed
	j.appendMu.Unlock()
	before := j.Stats()
	for range 2 {
		err := j.Commit(batchOf("a", "2"))
		if !errors.Is(err, ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if after := j.Stats(); after.Records != before.Records || after.SegmentBytes != before.SegmentBytes {
		t.Fatal(before, after)
	}
	wantContents(t, j, map[string]string{"a": "1"})
	d.mu.Lock()
	d.free = 10 << 20
	d.mu.Unlock()
	commit(t, j, "a", "3")
	wantContents(t, j, map[string]string{"a": "3"})
}

// TestReserve: on a disk without a free byte, what leads to more space is taken up to the reserve, which nothing else uses, also when the segment is
// full; with room again the reserve is as it was.
func TestReserve(t *testing.T) {
	d := &faultDisk{disk: osDisk{}, free: 10 << 20}
	o := testOptions(t)
	o.FloorBytes, o.disk, o.SegmentBytes = 1<<20, d, 4096
	dir := t.TempDir()
	j := mustOpen(t, dir, o)
	room := func(free int64) {
		d.mu.Lock()
		d.free = free
		d.mu.Unlock()
		j.appendMu.Lock()
		j.space.at = j.space.at.Add(-maxSpaceAge) // as if time had passed
		j.appendMu.Unlock()
	}
	commit(t, j, "a", "1")
	room(1)
	if err := j.Commit(batchOf("a", "2")); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	want := map[string]string{"a": "1"}
	taken := 0
	for ; ; taken++ {
		key := fmt.Sprint(taken)
		err := j.CommitFreeing(batchOf(key, big("x", 400)))
		if errors.Is(err, ErrNoSpace) && taken > 100 && taken < 2000 {
			break
		}
		if err != nil {
			t.Fatalf("after %d: %v", taken, err)
		}
		want[key] = big("x", 400)
		// The reserve is not made larger on a full disk.
		j.appendMu.Lock()
		j.noReserve = true
		j.appendMu.Unlock()
	}
	wantContents(t, j, want)
	room(10 << 20)
	j.appendMu.Lock()
	j.noReserve = false
	j.appendMu.Unlock()
	commit(t, j, "b", "1")
	want["b"] = "1"
	room(1)
	if err := j.CommitFreeing(batchOf("c", "1")); err != nil {
		t.Fatalf("the reserve is not there again: %v", err)
	}
	want["c"] = "1"
	abandon(t, j)
	o.disk = nil
	j = mustOpen(t, dir, o)
	wantContents(t, j, want)
	wantSound(t, j)
	mustClose(t, j)
	t.Logf("%d records were taken from the reserve", taken)
}

// TestFullDisk: ENOSPC from the write itself is ErrNoSpace, too, and the half-written record is cut off.
func TestFullDisk(t *testing.T) {
	d := &faultDisk{disk: osDisk{}, err: syscall.ENOSPC}
	o := testOptions(t)
	o.disk = d
	dir := t.TempDir()
	j := mustOpen(t, dir, o)
	commit(t, j, "a", "1")
	d.mu.Lock()
	d.from, d.count = d.calls, 1
	d.mu.Unlock()
	if err := j.Commit(batchOf("a", big("2", 600))); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	commit(t, j, "b", "1")
	mustClose(t, j)
	j = mustOpen(t, dir, testOptions(t))
	wantContents(t, j, map[string]string{"a": "1", "b": "1"})
	wantSound(t, j)
}
