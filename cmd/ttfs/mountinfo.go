package main

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// mountType is what the kernel calls a mount of ours.
const mountType = "fuse.ttfs"

// mountPoint is one mount of ours.
type mountPoint struct {
	id  int
	dir string
	// dev tells the filesystem: it is the same wherever that is mounted.
	dev string
}

// ownMounts are the mounts of ours that this process can see, the one mounted last at its end.
func ownMounts() ([]mountPoint, error) { return mountsOf("self") }

// mountsOf are those that a process can see.
func mountsOf(pid string) ([]mountPoint, error) {
	f, err := os.Open("/proc/" + pid + "/mountinfo")
	if err != nil {
		return nil, failed("look for mounts", err, "mount /proc")
	}
	defer f.Close()
	return parseMounts(f)
}

// parseMounts reads a mountinfo. Source: proc_pid_mountinfo(5).
func parseMounts(r io.Reader) ([]mountPoint, error) {
	var all []mountPoint
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		left, right, found := strings.Cut(line, " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if found && len(fields) >= 5 && len(kind) >= 1 && kind[0] == mountType {
			id, _ := strconv.Atoi(fields[0]) // 0 fits no mount
			all = append(all, mountPoint{id: id, dir: unescape(fields[4]), dev: fields[2]})
		}
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// unescape takes the octal escapes of mountinfo apart: blank, tab, newline, backslash.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountAt is the topmost mount of ours on a directory.
func mountAt(all []mountPoint, dir string) (mountPoint, bool) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].dir == dir {
			return all[i], true
		}
	}
	return mountPoint{}, false
}
