package fs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ttfs/ttfs/fs/overlay"
)

// TestOlderFormats: a store of an older format is read as it is, becomes one of this format when it is opened for writing,
// and one that is not known is left alone.
func TestOlderFormats(t *testing.T) {
	dir := t.TempDir()
	open := func(o storeOptions) error {
		o.dir = dir
		s, err := openStore(o)
		if err == nil {
			err = s.close()
		}
		return err
	}
	format := func() string {
		b, err := os.ReadFile(filepath.Join(dir, overlay.StoreName, "format"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := open(storeOptions{create: true}); err != nil || format() != formatLine {
		t.Fatalf("a new store has format %q: %v", format(), err)
	}
	for _, older := range append(olderFormats, formatLine) {
		if err := os.WriteFile(filepath.Join(dir, overlay.StoreName, "format"), []byte(older), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := open(storeOptions{readOnly: true}); err != nil || format() != older {
			t.Errorf("%q, read only, is %q: %v", older, format(), err)
		}
		if err := open(storeOptions{}); err != nil || format() != formatLine {
			t.Errorf("%q becomes %q: %v", older, format(), err)
		}
	}
	for _, unknown := range []string{"ttfs 0\n", "ttfs 3\n", "ttfs 1", "ttfs 22\n"} {
		if err := os.WriteFile(filepath.Join(dir, overlay.StoreName, "format"), []byte(unknown), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := open(storeOptions{}); !errors.Is(err, overlay.Foreign) || format() != unknown {
			t.Errorf("%q is %q after %v", unknown, format(), err)
		}
	}
}
