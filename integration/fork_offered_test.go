package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestForkIsOffered where it can work; elsewhere it is not, and asking for it fails with a sentence that says why, makes
// nothing and runs nothing.
func TestForkIsOffered(t *testing.T) {
	w := project(t)
	binary := os.Getenv(rig.EnvBinary)
	const can = `"$1" doctor --json; "$1" run --help; "$1" __complete run --isolation ''`
	r := w.Sh(can, binary).OK()
	for _, want := range []string{`"forks": true`, "\"none\",\n    \"fork\",\n    \"ro\"", "none|fork|ro", "\nfork\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("where forks work, it does not say %q:\n%s", want, r)
		}
	}
	r = w.Sh(`unshare --user --map-root-user sh -ec 'echo 0 >/proc/sys/user/max_mnt_namespaces
`+can+`; "$1" run --isolation ro --agent r -- true; set +e; "$1" run --isolation fork --agent c -- touch ran; echo exit=$?' sh "$1"`, binary).OK()
	for _, want := range []string{`"forks": false`, "\"none\",\n    \"ro\"", "none|ro", `"forks": "`, "a fork cannot be had on this machine", "exit=1\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("where forks do not work, it does not say %q:\n%s", want, r)
		}
	}
	if strings.Contains(r.Stdout, "\nfork\n") || !strings.Contains(r.Stderr, "--isolation fork cannot be had here") || !strings.Contains(r.Stderr, "ttfs fork NAME") {
		t.Error(r)
	}
	w.Sh("test ! -e ran; test -z \"$(ls .tt/forks)\"; test ! -e .tt/agents/c").OK()
}
