package overlay

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
)

// lostForks is where forks are kept of which nothing is known any more, below the store.
const lostForks = "lost"

// mendForks takes forks out whose record cannot be read or is gone. What they had changed is set aside and not removed: it is nowhere
// else. Their part of the journal goes, so that no later fork of the number takes it for its own.
func (r *repairing) mendForks() error {
	forks, parts := map[string]bool{}, map[uint64]bool{}
	err := r.e.j.Scan([]byte{kFork}, func(k, v []byte) error {
		f, err := decodeFork(ForkName(k[1:]), v)
		if err != nil {
			r.say("the record of fork %q cannot be read: the fork is taken out", k[1:])
			r.b.Delete(bytes.Clone(k))
			return nil
		}
		forks[string(f.Name)], parts[f.num] = true, true
		return nil
	})
	if err != nil {
		return err
	}
	gone := map[uint64]bool{}
	err = r.e.j.Scan([]byte{kPart}, func(k, _ []byte) error {
		if n := keyNum(k, 0); !parts[n] && !gone[n] {
			gone[n] = true
			r.say("what the journal has of fork number %d, which is not there, is dropped", n)
			r.b.DeletePrefix(key(kPart, n))
		}
		return nil
	})
	if err != nil {
		return err
	}
	// First the files, then the records: else a death in between has a later mount take the files for what is left of a fork.
	if err := r.setAside(forks); err != nil {
		return err
	}
	return r.flush()
}

// setAside moves the directories of forks that are not there to lost. One that never had anything goes as ever.
func (r *repairing) setAside(forks map[string]bool) error {
	at := procPath(r.e.tt)
	dirs, err := os.ReadDir(at + "/forks")
	if err != nil {
		return nil // there was never a fork
	}
	for _, d := range dirs {
		has, err := os.ReadDir(r.e.forkPath(d.Name()) + "/tree")
		if forks[d.Name()] || strings.HasPrefix(d.Name(), gonePrefix) || err == nil && len(has) == 0 {
			continue
		}
		if err := os.MkdirAll(at+"/"+lostForks, 0o700); err != nil {
			return err
		}
		to := d.Name()
		for n := 1; ; n++ {
			if _, err := os.Lstat(at + "/" + lostForks + "/" + to); os.IsNotExist(err) {
				break
			}
			to = fmt.Sprintf("%s.%d", d.Name(), n)
		}
		if err := os.Rename(r.e.forkPath(d.Name()), at+"/"+lostForks+"/"+to); err != nil {
			return err
		}
		r.say("what fork %q had changed is kept in .tt/%s/%s/tree, below the mount; what it had not changed may have no bytes there: the workspace has them", d.Name(), lostForks, to)
	}
	return nil
}

// epochImage drops an image that forks need and that cannot be read: they show what is there now.
func (r *repairing) epochImage(whole []byte, id tasktree.TaskID) {
	r.say("what was kept for forks cannot be read at one place (epoch %d): they show there what the workspace has now", uint64(id&^(epochBit|atBit)))
	r.b.Delete(whole)
}
