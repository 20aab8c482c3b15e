package fs

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

func TestConfigIsUnderstood(t *testing.T) {
	c, err := parseConfig("f", []byte(`# what this workspace needs
known = ["mybot", "other.bot"]
guard = "off"
blind = "contested"

[classes]
temp = ["out/", "!*.log"]
system = ["deploy.toml"]
platform = [".mybot/"]

[limits]
floor = "64M"
`))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"mybot", "other.bot"}; !reflect.DeepEqual(c.known(), want) {
		t.Errorf("known: %q, want %q", c.known(), want)
	}
	if c.Guard.s != "off" || c.Blind.s != "contested" || c.Limits.Floor.n != 64<<20 {
		t.Errorf("guard %q, blind %q, floor %d", c.Guard, c.Blind, c.Limits.Floor.n)
	}
	want := overlay.Classes{Temp: []string{"out/", "!*.log"}, System: []string{"deploy.toml"}, Platform: []string{".mybot/"}}
	if got := c.Classes.classes(); !reflect.DeepEqual(got, want) {
		t.Errorf("classes: %q, want %q", got, want)
	}
	if c, err := parseConfig("f", nil); err != nil || !reflect.DeepEqual(c, config{}) {
		t.Errorf("an empty file: %+v, %v", c, err)
	}
}

func TestConfigIsRefused(t *testing.T) {
	for _, c := range []struct {
		text string
		// at is where, says what a person must be told.
		at   string
		says []string
	}{
		{"\nguards = \"on\"\n", "f:2:", []string{"guards", "known = ", "guard = ", "blind = ", "[classes]", "[limits]"}},
		{"[classes]\ntemp = []\ntmp = []\n", "f:3:", []string{"classes.tmp", "temp = ", "system = ", "platform = "}},
		{"[limits]\nfloor = \"64M\"\njournal = 1\n", "f:3:", []string{"limits.journal", "floor = "}},
		{"# x\n[class]\ntemp = []\n", "f:2:", []string{"class", "[classes]"}},
		{"[classes.temp]\nx = 1\n", "f:", nil},
		{"known = [\n \"ok\",\n \"no/t\",\n]\n", "f:3:", []string{"no/t", "known = ["}},
		{"known = [\"\"]\n", "f:1:", []string{"known"}},
		{"known = \"mybot\"\n", "f:1:", []string{"known = ["}},
		{"guard = \"maybe\"\n", "f:1:", []string{"maybe", "on", "off"}},
		{"guard = true\n", "f:1:", []string{"guard = \"on\""}},
		{"\n\nblind = \"\"\n", "f:3:", []string{"contested"}},
		{"[classes]\ntemp = [\"[a\"]\n", "f:2:", []string{"[a", "temp = "}},
		{"[classes]\ntemp = [\"#x\"]\n", "f:2:", []string{"#x"}},
		{"[classes]\nsystem = [\"/\"]\n", "f:2:", []string{"system = "}},
		{"[limits]\nfloor = \"64Q\"\n", "f:2:", []string{"64Q", "64M"}},
		{"[limits]\nfloor = \"1M\"\n", "f:2:", []string{"1M", "8M"}},
		{"[limits]\nfloor = \"-64M\"\n", "f:2:", []string{"-64M"}},
		{"[limits]\nfloor = \"99999999G\"\n", "f:2:", []string{"1024G"}},
		{"[limits]\nfloor = \"64MM\"\n", "f:2:", []string{"64MM"}},
		{"[limits]\nfloor = 64\n", "f:2:", []string{"floor = \"64M\""}},
		{"guard = \"on\"\nguard = \"off\"\n", "f:2:", nil},
		{"guard = \n", "f:1:", nil},
		{"\x00", "f:1:", nil},
		{"guard", "f:1:", nil},
	} {
		_, err := parseConfig("f", []byte(c.text))
		if !errors.Is(err, overlay.Invalid) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		for _, s := range append(c.says, c.at) {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q: %q is not in: %v", c.text, s, err)
			}
		}
		for _, s := range []string{"fs.", "struct", "interface", "\n"} {
			if strings.Contains(err.Error(), s) {
				t.Errorf("%q: that is no sentence for a person: %v", c.text, err)
			}
		}
	}
}

// workspace is a directory and a descriptor of it as the store has it.
func workspace(t *testing.T) (dir string, root int) {
	t.Helper()
	dir = t.TempDir()
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(root) })
	return dir, root
}

func TestConfigIsReadFromTheWorkspaceOnly(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "other.toml")
	if err := os.WriteFile(elsewhere, []byte("blind = \"deny\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	uid := uint32(os.Getuid())
	for name, make := range map[string]func(at string) error{
		"a link to outside":    func(at string) error { return os.Symlink(elsewhere, at) },
		"a link to nothing":    func(at string) error { return os.Symlink("nothing", at) },
		"a directory":          func(at string) error { return os.Mkdir(at, 0o700) },
		"a fifo":               func(at string) error { return syscall.Mkfifo(at, 0o600) },
		"more than a MiB":      func(at string) error { return os.WriteFile(at, []byte(strings.Repeat("#\n", 1<<19+1)), 0o600) },
		"an unknown key in it": func(at string) error { return os.WriteFile(at, []byte("x = 1\n"), 0o600) },
	} {
		dir, root := workspace(t)
		if err := make(filepath.Join(dir, ConfigName)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := loadConfig(root, "", uid); !errors.Is(err, overlay.Invalid) || !strings.Contains(err.Error(), ConfigName) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir, root := workspace(t)
	if c, _, err := loadConfig(root, "", uid); err != nil || !reflect.DeepEqual(c, config{}) {
		t.Errorf("without a file: %+v, %v", c, err)
	}
	at := filepath.Join(dir, ConfigName)
	if err := os.WriteFile(at, []byte(strings.Repeat("#\n", 1<<19)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := loadConfig(root, "", uid); err != nil {
		t.Errorf("a MiB: %v", err)
	}
	if uid == 0 { // only root can give a file away
		if err := os.Chown(at, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if _, _, err := loadConfig(root, "", 0); !errors.Is(err, overlay.Invalid) || !strings.Contains(err.Error(), "12345") {
			t.Errorf("a file of another user's: %v", err)
		}
		if _, _, err := loadConfig(root, "", 12345); err != nil {
			t.Errorf("the owner's: %v", err)
		}
	}
	if c, _, err := loadConfig(root, elsewhere, uid); err != nil || c.Blind.s != "deny" {
		t.Errorf("a named file: %+v, %v", c, err)
	}
	if _, _, err := loadConfig(root, elsewhere+".not", uid); !errors.Is(err, overlay.Invalid) || !strings.Contains(err.Error(), elsewhere+".not") {
		t.Errorf("a named file that is not there: %v", err)
	}
}

// TestConfigRefusesTheMount: before anything is made.
func TestConfigRefusesTheMount(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ConfigName), []byte("guards = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openStore(storeOptions{dir: dir, create: true, mount: true})
	if s != nil || !errors.Is(err, overlay.Invalid) || !strings.Contains(err.Error(), ConfigName+":1:") {
		t.Fatalf("%v, %v", s, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, overlay.StoreName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the store was made: %v", err)
	}
}

// FuzzConfig: whatever the file holds, it is understood or refused with a line.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"known = [\"a\\u002f\", 1, true, 1.5, 2026-01-02]", "guard = \"\\tx\"", "[classes]\ntemp = [[1]]", "[[classes]]\ntemp = []",
		"limits = {floor = 1}", "limits.floor = \"8M\"", "classes = 3", "floor = \"é\"", "\"\" = 1", "[a.b.c]\n[classes.temp.x]\ny = 1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := parseConfig("f", b); err != nil && (!errors.Is(err, overlay.Invalid) || strings.Contains(err.Error(), "f:0:")) {
			t.Fatal(err)
		}
	})
}
