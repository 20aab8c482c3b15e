package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParseMounts(t *testing.T) {
	const info = `22 27 0:20 / /proc rw,nosuid - proc proc rw
70 27 0:44 / /home/me/my\040work rw,noatime shared:1 - fuse.ttfs /home/me/my\040work rw,user_id=0
71 27 0:45 / /mnt/other rw - fuse.sshfs x rw
72 27 0:46 / /home/me/w\134x rw - fuse.ttfs x rw
nonsense
73 70 0:47 / /home/me/my\040work rw - fuse.ttfs x rw`
	got, err := parseMounts(strings.NewReader(info))
	want := []mountPoint{{70, "/home/me/my work", "0:44"}, {72, `/home/me/w\x`, "0:46"}, {73, "/home/me/my work", "0:47"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, %v, want %v", got, err, want)
	}
	if m, ok := mountAt(got, "/home/me/my work"); !ok || m.id != 73 {
		t.Errorf("the topmost mount is %v, %v", m, ok)
	}
	if m, ok := mountAt(got, "/home/me"); ok {
		t.Errorf("a mount where none is: %v", m)
	}
}

func TestChanges(t *testing.T) {
	got := parseChanges("created a b\nmodified \"x\\ny\\001\"\ndeleted \\plain\n")
	want := []change{{"created", "a b"}, {"modified", "x\ny\x01"}, {"deleted", `\plain`}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	steps := [][]change{
		{{"created", "new"}, {"created", "gone"}, {"modified", "m"}, {"deleted", "d"}, {"deleted", "back"}},
		{{"modified", "new"}, {"deleted", "gone"}, {"deleted", "m"}, {"created", "back"}},
	}
	if got, want := net(steps), []change{{"modified", "back"}, {"deleted", "d"}, {"deleted", "m"}, {"created", "new"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("net %v, want %v", got, want)
	}
	if got, want := imperative(inverse(steps[0][:4])), []change{{"delete", "new"}, {"delete", "gone"}, {"modify", "m"}, {"create", "d"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("inverse %v, want %v", got, want)
	}
	for _, c := range []struct {
		path  string
		paths []string
		want  bool
	}{
		{"a/b", nil, true}, {"a/b", []string{"a"}, true}, {"a/b", []string{"a/b"}, true}, {"ab", []string{"a"}, false},
		{"a", []string{"a/b"}, false}, {"x", []string{"."}, true},
	} {
		if below(c.path, c.paths) != c.want {
			t.Errorf("%q below %q: want %v", c.path, c.paths, c.want)
		}
	}
}

func TestReply(t *testing.T) {
	got, err := parseReply("ok 3\nfrom 5\nchanged 2\nmodify a\ncreate \"b\\n\"\n")
	want := moveResult{From: 5, To: 3, Paths: []change{{"modify", "a"}, {"create", "b\n"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := parseReply("ok 0\nfrom 1\nchanged 0\n"); err != nil || len(got.Paths) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseReply("what?"); err == nil {
		t.Error("nonsense is taken for a reply")
	}
}

// tree is 1-2-3 and 2-4-5, with 6 the first task of another agent.
func tree() []taskInfo {
	var all []taskInfo
	for id, parent := range map[uint64]uint64{1: 0, 2: 1, 3: 2, 4: 2, 5: 4} {
		all = append(all, taskInfo{ID: id, Parent: parent, Agent: "user", Title: fmt.Sprint("t", id)})
	}
	return all
}

func TestWayBetween(t *testing.T) {
	for _, c := range []struct {
		from, to    uint64
		back, forth string
	}{
		{5, 3, "[5 4]", "[3]"}, {3, 5, "[3]", "[4 5]"}, {0, 5, "[]", "[1 2 4 5]"}, {5, 0, "[5 4 2 1]", "[]"}, {2, 2, "[]", "[]"},
	} {
		back, forth := wayBetween(c.from, c.to, tree())
		if fmt.Sprint(back) != c.back || fmt.Sprint(forth) != c.forth {
			t.Errorf("%d to %d: %v %v", c.from, c.to, back, forth)
		}
	}
}

func TestFilterDiff(t *testing.T) {
	parts := []string{
		"directory dir: mode 0755 -> 0700\n",
		"--- a/dir/f\n+++ b/dir/f\n@@ -1,3 +1,2 @@\n a\n--- a/g\n-+++ b/g\n+x\n",
		"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
		"--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+c\n",
		"--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n",
		"old mode 100644 m\nnew mode 100755 m\n",
		"Binary files a/bin and b/bin differ\n",
		"Binary files /dev/null and b/nb differ\n",
		"Binary files a/ob and /dev/null differ\n",
	}
	all := strings.Join(parts, "")
	if filterDiff(all, nil) != all {
		t.Error("without paths something is left out")
	}
	for path, want := range map[string]string{
		"dir": parts[0] + parts[1], "dir/f": parts[1], "g": parts[2], "new": parts[3], "old": parts[4], "m": parts[5],
		"bin": parts[6], "nb": parts[7], "ob": parts[8], "nothing": "", ".": all,
	} {
		if got := filterDiff(all, []string{path}); got != want {
			t.Errorf("%s:\n%swant\n%s", path, got, want)
		}
	}
}

func TestDiffSides(t *testing.T) {
	none := diffSide{label: "/dev/null"}
	file := func(side, text string) diffSide {
		return diffSide{label: side + "/f", text: text, there: true, mode: 0o100644}
	}
	exec := file("b", "x\n")
	exec.mode = 0o100755
	bin := file("b", "\x00")
	bin.binary = true
	for _, c := range []struct {
		a, b diffSide
		want string
	}{
		{file("a", "x\n"), file("b", "x\n"), ""},
		{file("a", "x\n"), file("b", "y\n"), "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"},
		{none, file("b", ""), "--- /dev/null\n+++ b/f\n"},
		{file("a", "x\n"), none, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"},
		{file("a", "x\n"), exec, "old mode 100644 f\nnew mode 100755 f\n"},
		{file("a", "x\n"), bin, "Binary files a/f and b/f differ\n"},
		{bin, bin, ""},
		{diffSide{there: true, mode: 0o40755}, diffSide{there: true, mode: 0o40700}, "directory f: mode 0755 -> 0700\n"},
		{none, diffSide{there: true, mode: 0o40700}, ""},
	} {
		if got := diffSides("f", c.a, c.b); got != c.want {
			t.Errorf("%v, %v:\n%swant\n%s", c.a, c.b, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/bin/claude": "claude-7", "./my tool!": "my-tool--7", ".hidden": "hidden-7", "é": "--7", "..": "agent-7",
		strings.Repeat("x", 100): strings.Repeat("x", 48) + "-7",
	} {
		if got := agentName(program, 7); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
	if got := oneLine(" a\n\tb\x00c  d\xff "); got != "a b c d?" {
		t.Errorf("%q", got)
	}
	for arg, want := range map[string]string{"/a/b-c": "/a/b-c", "a b": "'a b'", "it's": `'it'\''s'`, "": "''"} {
		if got := quoteArg(arg); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	got := parseMetrics("# HELP a_total What it is.\n# TYPE a_total counter\na_total 3\nb{x=\"y z\"} 1.5\nc NaN\n\n")
	want := []metric{{"a_total", "3", "What it is."}, {`b{x="y z"}`, "1.5", ""}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}
