package fs

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootName is a file in `.tt` that is there while a store is open for writing: which start of the machine this is. So who opens the store next
// knows whether the machine stopped meanwhile, or only the daemon did. It is not synced: a filesystem commits names in their order,
// so that it is there if anything is that was changed after it was made; and if its bytes are not, it is none of this start.
const bootName = "boot"

// bootID is the machine's start; nil where it is not told.
func bootID() []byte {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return bytes.TrimSpace(b)
}

// wasCut says whether the store was open for writing when the machine stopped.
func wasCut(tt int) bool {
	was, err := os.ReadFile(fdPath(tt, bootName))
	return !errors.Is(err, os.ErrNotExist) && (err != nil || !bytes.Equal(bytes.TrimSpace(was), bootID()))
}

// noteBoot says that the store is open for writing now. Preconditions: what a power cut has left is seen to.
func (s *store) noteBoot(logger *slog.Logger) {
	s.written = true
	now := string(bootID()) + "\n"
	if was, err := os.ReadFile(fdPath(s.tt, bootName)); err == nil && strings.TrimSpace(string(was)) == strings.TrimSpace(now) {
		return
	}
	f, err := os.OpenFile(fdPath(s.tt, bootName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		_, err = f.WriteString(now)
		err = errors.Join(err, f.Close())
		if uid, gid, e := ownerOf(s.tt); e == nil {
			giveTo(s.tt, bootName, int(uid), int(gid))
		}
	}
	if err != nil {
		logger.Warn("which start of the machine this is cannot be written: after a power cut the next mount looks for nothing", "err", err)
	}
}
