package fs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
)

// errnos is what programs see of the engine's refusals. A test walks every kind.
var errnos = map[overlay.Kind]syscall.Errno{
	overlay.Invalid:     syscall.EINVAL,
	overlay.NoTask:      syscall.ENOENT,
	overlay.NoAgent:     syscall.ENOENT,
	overlay.NoFork:      syscall.ENOENT,
	overlay.AtRoot:      syscall.ENOENT,
	overlay.NothingToDo: syscall.ENOENT,
	overlay.Conflict:    syscall.EBUSY,
	overlay.NotYours:    syscall.EPERM,
	overlay.ReadOnly:    syscall.EROFS,
	overlay.NoSpace:     syscall.ENOSPC,
	overlay.NoFiles:     syscall.ENFILE,
	overlay.IO:          syscall.EIO,
	overlay.Exists:      syscall.EEXIST,
	overlay.Fenced:      syscall.ESTALE,
	overlay.Gone:        syscall.ESTALE,
	overlay.Damaged:     syscall.EIO,
	overlay.Foreign:     syscall.EINVAL,
	overlay.Locked:      syscall.EBUSY,
	overlay.Closed:      syscall.ENOTCONN,
	overlay.NoPath:      syscall.ENOENT,
	overlay.Stale:       syscall.ESTALE,
	overlay.Partial:     syscall.ENODATA,
	overlay.Busy:        syscall.EBUSY,
	overlay.Pruned:      syscall.ENOENT,
	overlay.Protected:   syscall.EPERM,
}

// errno is the only place where an error becomes an errno. known is false for one that nobody foresaw, and for one of
// `.tt` that has no kind but that it failed: they are EIO, and the program learns no more.
func errno(err error) (code syscall.Errno, known bool) {
	if err == nil {
		return 0, true
	}
	var own *overlay.Error
	if errors.As(err, &own) {
		code, known = errnos[own.Kind]
		if known {
			return code, true
		}
	}
	var ctl *control.Error
	if errors.As(err, &ctl) {
		code = control.Errno(err)
		return code, code != syscall.EIO
	}
	var sys syscall.Errno
	if errors.As(err, &sys) {
		if sys == syscall.EMFILE { // that would be the program's own limit
			sys = syscall.ENFILE
		}
		return sys, true
	}
	return syscall.EIO, false
}

// kinds is what `.tt/ctl` says of the engine's refusals.
var kinds = map[overlay.Kind]control.Kind{
	overlay.Invalid:     control.Invalid,
	overlay.NoTask:      control.NoTask,
	overlay.NoAgent:     control.NoAgent,
	overlay.NoFork:      control.NoFork,
	overlay.AtRoot:      control.AtRoot,
	overlay.NothingToDo: control.NoTask,
	overlay.Conflict:    control.Conflict,
	overlay.NotYours:    control.NotYours,
	overlay.ReadOnly:    control.ReadOnly,
	overlay.NoSpace:     control.NoSpace,
	overlay.NoFiles:     control.NoFiles,
	overlay.Exists:      control.Exists,
	overlay.Fenced:      control.Stale,
	overlay.NoPath:      control.NoFile,
	overlay.Pruned:      control.Pruned,
	overlay.Locked:      control.Busy,
	overlay.Protected:   control.Protected,
}

// controlError gives an error of the engine or of identity the kind under which ctl tells it.
func controlError(op string, err error) error {
	if err == nil {
		return nil
	}
	var ctl *control.Error
	if errors.As(err, &ctl) {
		return err
	}
	out := &control.Error{Op: op, Kind: control.Failed}
	var own *overlay.Error
	switch {
	case errors.As(err, &own):
		k, has := kinds[own.Kind]
		if has {
			out.Kind = k
		}
		if !has || own.Kind == overlay.NothingToDo {
			out.Detail = string(own.Kind)
		}
		out.What, out.Err = own.Path, own.Err
		return out
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		out.Kind = control.NoFiles
	case errors.Is(err, identity.Invalid):
		out.Kind = control.Invalid
	case errors.Is(err, identity.NotYours):
		out.Kind = control.NotYours
	case errors.Is(err, identity.NoProcess):
		out.Kind = control.NoAgent
	}
	out.Err = err
	return out
}

// status encodes an error for the kernel. What is told as EIO without a kind is logged with its whole chain.
func (f *face) status(op string, err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if errors.Is(err, overlay.Closed) && !f.closing.Load() {
		return fuse.Status(syscall.ESTALE) // its fork was discarded: ENOTCONN would say that the daemon is dead
	}
	code, known := errno(err)
	if !known {
		f.log.Error("an error is told as EIO", "op", op, "err", err)
	}
	return fuse.Status(code)
}
