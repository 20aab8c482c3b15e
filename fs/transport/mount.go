package transport

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mount opens the device and mounts it: by mount(2) for root, else, and where that is not allowed, by fusermount3.
func mount(o *Options) (fd int, err error) {
	var direct error
	if o.Privileged {
		if fd, direct = mountDirect(o); direct == nil {
			return fd, nil
		}
	}
	if fd, err = mountHelped(o); err != nil {
		return -1, errors.Join(direct, err)
	}
	return fd, nil
}

func mountDirect(o *Options) (fd int, err error) {
	var st unix.Stat_t
	if err := unix.Stat(o.Dir, &st); err != nil {
		return -1, fmt.Errorf("stat: %w", err)
	}
	if fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return -1, fmt.Errorf("open /dev/fuse: %w", err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,max_read=%d,default_permissions", fd, st.Mode&unix.S_IFMT, os.Geteuid(), os.Getegid(), o.MaxWrite)
	if o.AllowOther {
		data += ",allow_other"
	}
	if err := unix.Mount(o.Source, o.Dir, "fuse."+o.Type, unix.MS_NOATIME, data); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount(2): %w", err)
	}
	return fd, nil
}

// mountHelped has fusermount3 open the device, mount it and send it back. Source: fusermount3(1); _FUSE_COMMFD.
func mountHelped(o *Options) (fd int, err error) {
	bin, err := fusermount()
	if err != nil {
		return -1, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socketpair: %w", err)
	}
	ours := pair[0]
	defer unix.Close(ours)
	theirs := os.NewFile(uintptr(pair[1]), "fusermount")
	options := []string{"default_permissions", "fsname=" + o.Source, "subtype=" + o.Type, fmt.Sprintf("max_read=%d", o.MaxWrite)}
	if o.AllowOther {
		options = append(options, "allow_other")
	}
	for i, s := range options {
		options[i] = strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s)
	}
	cmd := exec.Command(bin, "-o", strings.Join(options, ","), "--", o.Dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	theirs.Close()
	if err != nil {
		return -1, fmt.Errorf("%s: %w: %s", bin, err, bytes.TrimSpace(said.Bytes()))
	}
	return receive(ours)
}

// receive takes one descriptor out of a socket.
func receive(socket int) (fd int, err error) {
	data, control := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
	for {
		var n int
		_, n, _, _, err = unix.Recvmsg(socket, data, control, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, fmt.Errorf("take /dev/fuse from fusermount3: %w", err)
		}
		control = control[:n]
		break
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("fusermount3 sent no descriptor: %w", errors.Join(err, unix.EBADMSG))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("fusermount3 sent no descriptor: %w", errors.Join(err, unix.EBADMSG))
	}
	return fds[0], nil
}

// fusermount is the program that mounts for people without privileges.
func fusermount() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount", "/bin/fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("fusermount3 is not installed: only root mounts without it")
}

const (
	unmountTries = 5
	unmountPause = 5 * time.Millisecond
)

// Unmount unmounts; lazy: takes the mount out of the tree at once, and it ends when the last that holds something of it
// lets go. Errors: EBUSY, or what fusermount3 says, while something of the mount is in use.
func (c *Conn) Unmount(lazy bool) error {
	if c.o.Privileged {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		err := unix.Unmount(c.o.Dir, flags)
		if err != unix.EPERM {
			return err
		}
	}
	bin, err := fusermount()
	if err != nil {
		return err
	}
	args := []string{"-u", "--", c.o.Dir}
	if lazy {
		args = []string{"-u", "-z", "--", c.o.Dir}
	}
	for try := range unmountTries {
		// The kernel closes files a moment after their last close: what is busy now may not be.
		time.Sleep(time.Duration(try) * unmountPause)
		var said []byte
		if said, err = exec.Command(bin, args...).CombinedOutput(); err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w: %s", bin, err, bytes.TrimSpace(said))
	}
	return err
}
