package fs

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/journal"
)

// repair opens the journal and the blobs, made sound as far as they can be read.
func (s *store) repair(say func(string), jo journal.Options, co cas.Options) (err error) {
	s.journal, err = journal.Repair(filepath.Join(s.dir, "journal"), jo, func(l journal.Lost) { s.lost = append(s.lost, l) }, say)
	if err != nil {
		return storeFailure(s.dir, err)
	}
	s.blobs, err = cas.Repair(context.Background(), filepath.Join(s.dir, "cas"), co, func(p cas.Problem) {
		say(fmt.Sprintf("blobs: %v: it is dropped", p.Err))
	})
	if err != nil {
		return storeFailure(s.dir, err)
	}
	return nil
}

// RepairDetached makes the store of a workspace that is not mounted sound: what can be read is kept, what cannot be had is dropped and
// its task marked incomplete, a move that was interrupted is ended, and what nobody needs goes. say hears of each thing that is
// done. The files of the workspace are not touched, but by such a move. Errors: Locked when it is mounted, Foreign, IO.
func RepairDetached(dir string, logger *slog.Logger, say func(string)) (*Detached, error) {
	st, err := openStore(storeOptions{dir: dir, logger: logger, repair: say})
	if err != nil {
		return nil, err
	}
	d := &Detached{store: st}
	d.Engine, err = overlay.Open(overlay.Options{
		Root: st.root, Store: st.tt, Journal: st.journal, Blobs: st.blobs, Logger: logger, Cut: st.cut,
		Events: func(line string) { _ = st.log.line(line) }, // the repair does not depend on its line
		Repair: &overlay.Repair{Say: say, Lost: st.lost},
	})
	if err != nil {
		_ = st.close()
		return nil, err
	}
	st.noteBoot(logger)
	res, err := d.Engine.Sweep()
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	for _, left := range []struct {
		n    int
		what string
	}{{res.Held, "files and directories in hold"}, {res.Copies, "copies in hold"}, {res.Blobs, "blobs and chunks"}} {
		if left.n > 0 {
			say(fmt.Sprintf("%d %s that nobody needs are removed", left.n, left.what))
		}
	}
	return d, nil
}
