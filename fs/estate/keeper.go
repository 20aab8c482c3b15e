package estate

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Names of descriptors that a daemon has its keeper keep.
const (
	// NameFuse is /dev/fuse, NameMemory the estate, NameRoot the directory below the mount, NameLog the daemon's log.
	NameFuse   = "fuse"
	NameMemory = "memory"
	NameRoot   = "root"
	NameLog    = "log"
	// NameConfig is the text of the configuration, as it was read at mount.
	NameConfig = "config"
	// NameGone is before the number of a node without a name.
	NameGone = "gone-"
)

// What a daemon says beside of descriptors.
const (
	// Serving: from now on its death is not the end.
	Serving = "serving"
	// Over: the mount has gone, whatever becomes of the daemon.
	Over = "over"
	// Alone: the mount cannot outlive it; the keeper may go.
	Alone = "alone"
)

// MostKept bounds what a keeper keeps.
const MostKept = 4096

// Keeper is the daemon's end of the socket to the process that keeps descriptors for it. That process may be gone: then
// nothing is kept, and nothing fails. Its methods may be called at once.
type Keeper struct {
	mu   sync.Mutex
	fd   int            // +checklocks:mu -1: nobody is there
	left map[string]int // +checklocks:mu of a daemon before this one
}

// sendLimit bounds the wait for a keeper that does not read: it may be stopped.
const sendLimit = time.Second

// NewKeeper is for a socket to a keeper, and what it had kept of a daemon before, by name; both are taken over.
func NewKeeper(socket int, left map[string]int) (*Keeper, error) {
	limit := unix.NsecToTimeval(int64(sendLimit))
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return nil, fmt.Errorf("the keeper's socket: %w", err)
	}
	return &Keeper{fd: socket, left: left}, nil
}

// Take gives a descriptor that was kept, once.
func (k *Keeper) Take(name string) (fd int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fd, ok = k.left[name]
	delete(k.left, name)
	return fd, ok
}

// Copy duplicates a descriptor that was kept: who fails with it can try again.
func (k *Keeper) Copy(name string) (fd int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fd, ok := k.left[name]
	if !ok {
		return -1, fmt.Errorf("no daemon before this one has left %s", name)
	}
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

// Rest lets go of what was left of nodes without a name and that nobody took, and gives its names.
func (k *Keeper) Rest() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, fd := range k.left {
		if strings.HasPrefix(name, NameGone) {
			names = append(names, name)
			unix.Close(fd)
			delete(k.left, name)
		}
	}
	return names
}

// Heir says whether there was a daemon before this one.
func (k *Keeper) Heir() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, memory := k.left[NameMemory]
	_, fuse := k.left[NameFuse]
	_, root := k.left[NameRoot]
	return memory && fuse && root
}

// Keep has a descriptor kept under a name; the caller's stays its own. Errors: there is no keeper.
func (k *Keeper) Keep(name string, fd int) error { return k.send("keep "+name, unix.UnixRights(fd)) }

// Drop has it let go.
func (k *Keeper) Drop(name string) error { return k.send("drop "+name, nil) }

// Say says something.
func (k *Keeper) Say(what string) error { return k.send(what, nil) }

func (k *Keeper) send(text string, rights []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.fd >= 0 {
		err := unix.Sendmsg(k.fd, []byte(text), rights, nil, unix.MSG_NOSIGNAL)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			unix.Close(k.fd)
			k.fd = -1
			return err
		}
	}
	return unix.EPIPE
}

// Close lets the keeper go.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fd >= 0 {
		unix.Close(k.fd)
		k.fd = -1
	}
}

// Received is one thing that a daemon said.
type Received struct {
	// Say is one of the constants, or "" when it is about a descriptor: Keep (with FD) or Drop by its name.
	Say, Keep, Drop string
	FD              int
}

// Receive reads what a daemon says; the keeper's side. Errors: io.EOF as unix.EPIPE, when the daemon is gone.
func Receive(socket int) (Received, error) {
	text, control := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
	for {
		n, c, _, _, err := unix.Recvmsg(socket, text, control, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Received{}, err
		}
		if n == 0 {
			return Received{}, unix.EPIPE
		}
		r := Received{FD: -1}
		if all, err := unix.ParseSocketControlMessage(control[:c]); err == nil && len(all) == 1 {
			if fds, err := unix.ParseUnixRights(&all[0]); err == nil && len(fds) == 1 {
				r.FD = fds[0]
			}
		}
		verb, name, _ := strings.Cut(string(text[:n]), " ")
		switch {
		case verb == "keep" && r.FD >= 0:
			r.Keep = name
		case verb == "drop":
			r.Drop = name
		default:
			r.Say = verb
		}
		if r.Keep == "" && r.FD >= 0 {
			unix.Close(r.FD)
			r.FD = -1
		}
		if r == (Received{FD: -1}) {
			return r, errors.New("the daemon says what is not understood")
		}
		return r, nil
	}
}
