package identity

import (
	"strings"
	"testing"
)

// FuzzProc: whatever a process writes into its name, its arguments or its environment, the files of /proc are read to their end: fields are taken
// from behind the name, and an agent has a valid name.
func FuzzProc(f *testing.F) {
	f.Add([]byte("12 (a) S 1) S 7 12 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0 0 1 2 3 4 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5 6 7 8 9 0"), "TTFS_AGENT=a\x00TTFS_AGENT=b", "node\x00/x/claude.js\x00-m\x00")
	f.Add([]byte("1 (x) Z 0"), "TTFS_AGENT=../x", "python3\x00-m")
	f.Fuzz(func(t *testing.T, line []byte, environ, cmdline string) {
		st, err := parseStat(line)
		if err == nil && !strings.Contains(string(line), "("+st.image.comm+")") {
			t.Fatalf("%q has the name %q", line, st.image.comm)
		}
		known := map[string]bool{"claude": true}
		if got := program(known, st.image.comm, strings.Split(strings.TrimRight(cmdline, "\x00"), "\x00")); got != "" && !known[got] {
			t.Fatalf("%q is %q", cmdline, got)
		}
		fake := newFake(t)
		fake.put(entry{pid: 7, ppid: 1, session: 7, start: 3, comm: "sh"})
		fake.write(7, "environ", environ)
		fake.write(7, "status", "Name:\t"+cmdline+"\nTgid:\t7\n"+environ)
		p := procfs{fake.dir}
		if a, err := p.envAgent(7); err != nil || a != "" && !ValidName(a) {
			t.Fatalf("%q is %q, %v", environ, a, err)
		}
		_, _ = p.tgid(7)
	})
}
