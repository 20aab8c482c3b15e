package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// property is one thing that a shell can change, in a directory of its own: how it is made, how it is changed, and a
// look at it, whose output has to be the same afterwards.
type property struct{ name, setup, change, look string }

// bursts are the forty properties of DESIGN section 8.
var bursts = []property{
	{"content of a text file", "echo old >f", "sed -i s/old/new/ f", "cat f"},
	{"content of a binary file", "head -c 3000 /bin/sh >f", "head -c 3000 /dev/urandom >f", "cksum f"},
	{"a deleted file", "echo old >f", "rm f", "cat f"},
	{"a created file", ":", "echo new >f", "ls -A"},
	{"a renamed file", "echo old >f", "mv f g", "ls -A; cat f"},
	{"a truncated file", "seq 1000 >f", "truncate -s 10 f", "cksum f"},
	{"a file that grew", "seq 10 >f", "seq 1000 >>f", "cksum f"},
	{"an empty file", ": >f", "rm f", "ls -A"},
	{"a file of a repository in the workspace", "git init -q n; echo x >n/f; git -C n add f; git -C n -c user.name=n -c user.email=e commit -qm x", "echo y >n/f", "cat n/f"},
	{"the executable bit", "echo x >f; chmod 755 f", "chmod 644 f", "stat -c %a f"},
	{"the mode of a private file", "echo x >f; chmod 600 f", "chmod 644 f", "stat -c %a f"},
	{"a read-only file", "echo x >f; chmod 444 f", "chmod 644 f; echo y >f", "stat -c %a f; cat f"},
	{"the setuid bit", "echo x >f; chmod 4755 f", "chmod 755 f", "stat -c %a f"},
	{"the sticky bit of a directory", "mkdir d; chmod 1777 d; : >d/f", "chmod 755 d", "stat -c %a d"},
	{"the setgid bit of a directory", "mkdir d; chmod 2775 d; : >d/f", "chmod 755 d", "stat -c %a d"},
	{"the owner", "echo x >f; chown 12 f", "chown 0 f", "stat -c %u f"},
	{"the group", "echo x >f; chgrp 12 f", "chgrp 0 f", "stat -c %g f"},
	{"the time of a changed file", "echo x >f; touch -d @1234567890.123456789 f", "echo y >f", "stat -c %.9Y f"},
	{"the time of an unchanged file", "echo x >f; touch -d @1234567890.123456789 f", "touch f", "stat -c %.9Y f"},
	{"the time of a directory", "mkdir d; : >d/f; touch -d @1234567890 d", ": >d/g", "stat -c %.9Y d"},
	{"an xattr that changed", "echo x >f; setfattr -n user.a -v 1 f", "setfattr -n user.a -v 2 f", "getfattr -d f"},
	{"an xattr that was removed", "echo x >f; setfattr -n user.a -v 1 f", "setfattr -x user.a f", "getfattr -d f"},
	{"an xattr of a directory", "mkdir d; : >d/f; setfattr -n user.a -v 1 d", "setfattr -x user.a d", "getfattr -d d"},
	{"an ACL", "echo x >f; setfacl -m u:12:r f", "setfacl -b f", "getfacl -c f"},
	{"a default ACL", "mkdir d; : >d/f; setfacl -d -m u:12:rx d", "setfacl -k d", "getfacl -c d"},
	{"where a symlink points", "ln -s one l", "ln -sfn two l", "readlink l"},
	{"a removed dangling symlink", "ln -s nowhere l", "rm l", "readlink l"},
	{"a symlink that became a directory", "mkdir d; : >d/f; ln -s d l", "rm l; mkdir l; : >l/g", "readlink l; ls l"},
	{"a broken hard link", "echo x >a; ln a b", "rm b; cp a b", "[ a -ef b ] && echo linked"},
	{"a new hard link", "echo x >a; echo y >b", "ln -f a b", "[ a -ef b ] && echo linked; stat -c %h a"},
	{"an empty directory", "mkdir d", "rmdir d", "ls -A"},
	{"a created empty directory", ":", "mkdir d", "ls -A"},
	{"the mode of an empty directory", "mkdir d; chmod 700 d", "chmod 755 d", "stat -c %a d"},
	{"a renamed directory", "mkdir d; echo x >d/f", "mv d e", "ls -A; cat d/f"},
	{"a file that became a directory", "echo x >f", "rm f; mkdir f; echo y >f/g", "cat f"},
	{"a directory that became a file", "mkdir d; echo x >d/f", "rm -r d; echo y >d", "cat d/f"},
	{"a removed fifo", "mkfifo p", "rm p", "stat -c %F p"},
	{"the holes of a sparse file", "truncate -s 1M f; printf x >>f", "cp --sparse=never f g; cat g >f; rm g", "sync f; stat -c %b f; cksum f"},
	{"an ignored file", "echo f >.gitignore; echo old >f", "echo new >f", "cat f"},
	{"a removed ignored tree", "echo /d >.gitignore; mkdir d; echo x >d/f", "rm -r d", "cat d/f"},
}

// BenchmarkProperties counts what comes back of what a burst of shell commands changed.
func BenchmarkProperties(b *testing.B) {
	lines := [][]string{{"", "restored of 40", "not restored"}}
	w := mountMust(b)
	c := caller{ctl: w.Path(".tt/ctl")}
	setUp(b, w.Dir)
	lost := burst(b, w.Dir, func() { must(b, c.task("burst")) }, func() { c.must(b, "undo") })
	lines = append(lines, []string{"ttfs", fmt.Sprint(len(bursts) - len(lost)), strings.Join(lost, ", ")})
	if len(lost) > 0 {
		b.Errorf("ttfs does not restore: %s", strings.Join(lost, ", "))
	}
	for _, k := range kinds {
		dir := rig.Disk(b)
		setUp(b, dir)
		shadow := newShadow(b, dir, k)
		lost := burst(b, dir, func() { shadow.snapshot(b) }, func() { shadow.undo(b) })
		lines = append(lines, []string{"shadow git as " + k.name, fmt.Sprint(len(bursts) - len(lost)), strings.Join(lost, ", ")})
	}
	b.ReportMetric(0, "ns/op")
	publish(b, "properties", "Forty things that a shell can change, changed at once and taken back.", grid(lines))
}

func setUp(b testing.TB, dir string) {
	b.Helper()
	for i, p := range bursts {
		sub := filepath.Join(dir, fmt.Sprint(i))
		must(b, os.Mkdir(sub, 0o755))
		if out, err := shell(sub, p.setup); err != nil {
			b.Fatalf("%s: set up: %v: %s", p.name, err, out)
		}
	}
}

// burst changes everything and takes it back, and names what is not as it was.
func burst(b testing.TB, dir string, begin, undo func()) (lost []string) {
	b.Helper()
	look := func() (all []string) {
		for i, p := range bursts {
			out, _ := shell(filepath.Join(dir, fmt.Sprint(i)), p.look) // what it says of an error counts as well
			all = append(all, out)
		}
		return all
	}
	before := look()
	begin()
	for i, p := range bursts {
		if out, err := shell(filepath.Join(dir, fmt.Sprint(i)), p.change); err != nil {
			b.Fatalf("%s: change: %v: %s", p.name, err, out)
		}
	}
	for i, now := range look() {
		if now == before[i] {
			b.Fatalf("%s: the burst did not change it: %s", bursts[i].name, now)
		}
	}
	undo()
	for i, now := range look() {
		if now != before[i] {
			lost = append(lost, bursts[i].name)
		}
	}
	return lost
}

func shell(dir, script string) (string, error) {
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestFortyProperties: the table says forty.
func TestFortyProperties(t *testing.T) {
	if len(bursts) != 40 {
		t.Errorf("there are %d", len(bursts))
	}
}
