package overlay

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What a change of a file's bytes takes from it: setuid, setgid, capabilities. Where the kernel knows that the caller may not
// keep them it says so with the request (HANDLE_KILLPRIV_V2), but for fallocate(2) and copy_file_range(2).

// killPriv takes from a file what a write by an unprivileged process takes from it.
func killPriv(fd int) error {
	return killPrivBut(fd, func(st *Stat) uint32 {
		if st.Mode&unix.S_IXGRP != 0 {
			return unix.S_ISUID | unix.S_ISGID
		}
		return unix.S_ISUID
	})
}

// killPrivOf takes from a file what a change of its bytes by a caller takes from it, of whom the kernel did not say what he may.
func killPrivOf(c Caller, fd int) error {
	return killPrivBut(fd, func(st *Stat) uint32 {
		fsetid, groups := powers(c)
		switch {
		case fsetid:
			return 0
		case st.Mode&unix.S_IXGRP != 0 || !slices.Contains(groups, st.Gid):
			return unix.S_ISUID | unix.S_ISGID
		}
		return unix.S_ISUID
	})
}

// killPrivBut takes the capabilities and those bits of the mode that lost says; it is asked when there are any. Source:
// setattr_should_drop_suidgid in fs/attr.c, file_needs_remove_privs in fs/inode.c.
func killPrivBut(fd int, lost func(*Stat) uint32) error {
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return err
	}
	if bits := uint32(st.Mode) & (unix.S_ISUID | unix.S_ISGID); bits != 0 && kindOf(&st) == unix.S_IFREG {
		if bits &= lost(&st); bits != 0 {
			if err := chmodFD(fd, uint32(st.Mode)&0o7777&^bits); err != nil {
				return err
			}
		}
	}
	if err := removeXattr(fd, "security.capability"); err != nil && err != unix.ENODATA && err != unix.ENOTSUP && err != unix.EPERM {
		return err
	}
	return nil
}

// powers says whether a caller has CAP_FSETID, and what groups it is in. Of a process that has gone, or is not seen from here,
// only the request tells. To read its status takes no lock that it may hold while it waits for us.
func powers(c Caller) (fsetid bool, groups []uint32) {
	groups = []uint32{c.GID}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(c.Proc.PID) + "/status")
	if err != nil {
		return false, groups
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "CapEff": // counts for root of the daemon's user namespace alone
			caps, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			fsetid = err == nil && c.UID == 0 && caps&(1<<unix.CAP_FSETID) != 0
		case "Groups":
			for word := range strings.FieldsSeq(value) {
				if g, err := strconv.ParseUint(word, 10, 32); err == nil {
					groups = append(groups, uint32(g))
				}
			}
		}
	}
	return fsetid, groups
}
