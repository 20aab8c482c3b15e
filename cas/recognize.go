package cas

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Recognize says whether this version can read the store in dir, as far as its files tell without being opened for
// writing. It changes nothing; what is missing or damaged is no matter of its. Errors: ErrFormat.
func Recognize(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	if err := checkPebbleFormat(vfs.Default, dir); errors.Is(err, ErrFormat) {
		return err
	}
	return nil
}
