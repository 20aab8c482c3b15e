package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// pebbleFormat is that of the index.
const pebbleFormat = pebble.FormatValueSeparation

// Recognize says whether this version can read the journal in dir, as far as its files tell without being opened for
// writing: the headers of the segments and the index's format. It changes nothing. What is missing or damaged is no matter
// of its. Errors: ErrFormat.
func Recognize(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range names {
		if _, ok := segNumber(e.Name()); !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if h, ok := headerOf(path); ok && h.version != formatVersion {
			return fail("open", path, ErrFormat, fmt.Errorf("version %d", h.version))
		}
	}
	at := filepath.Join(dir, indexDir)
	if _, err := os.Stat(at); err != nil {
		return nil
	}
	marker, err := atomicfs.ReadMarker(vfs.Default, at, "format-version")
	if err != nil {
		return nil
	}
	if v, err := strconv.ParseUint(strings.TrimSpace(marker), 10, 64); err == nil && pebble.FormatMajorVersion(v) > pebbleFormat {
		return fail("open", at, ErrFormat, fmt.Errorf("pebble format %d", v))
	}
	return nil
}

// headerOf is the header of a segment; ok is false when it cannot be read or is damaged.
func headerOf(path string) (h header, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return h, false
	}
	defer f.Close()
	b := make([]byte, headerBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return h, false
	}
	return decodeHeader(b)
}
