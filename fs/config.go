package fs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// ConfigName is the file in the root of the workspace that is read at mount. It is read once, from below the mount, and never
// again: what an agent writes into it counts from the next mount on, which a person makes.
const ConfigName = ".ttfs.toml"

// maxConfigBytes is the size above which a configuration is refused.
const maxConfigBytes = 1 << 20

// config is what the file says. Flags beat it.
type config struct {
	Known   []program    `toml:"known" write:"known = [\"mybot\"]"`
	Guard   onOff        `toml:"guard" write:"guard = \"on\" (or \"off\")"`
	Blind   blindRule    `toml:"blind" write:"blind = \"allow\" (or \"contested\", \"deny\")"`
	Classes classConfig  `toml:"classes" write:"[classes]"`
	Limits  limitsConfig `toml:"limits" write:"[limits]"`
}

// classConfig are patterns in gitignore's syntax, after the built-in ones: the last that matches a path decides, and a
// leading ! takes it out of the class.
type classConfig struct {
	Temp     []pattern `toml:"temp" write:"temp = [\"out/\", \"*.bak\"]"`
	System   []pattern `toml:"system" write:"system = [\"deploy.toml\"]"`
	Platform []pattern `toml:"platform" write:"platform = [\".mybot/\"]"`
	User     []pattern `toml:"user" write:"user = [\"important.log\"]"`
}

type limitsConfig struct {
	// Floor is the free space that the store leaves on its disk: below it, changes are refused.
	Floor byteCount `toml:"floor" write:"floor = \"64M\" (K, M, G; 8M to 1024G)"`
	// Keep and MaxSize say how much history is kept: by age, and by what it takes on the disk. None: all.
	Keep    keepTime  `toml:"keep" write:"keep = \"30d\" (s, m, h, d, w)"`
	MaxSize storeSize `toml:"max_size" write:"max_size = \"10G\" (K, M, G, T; 64M at least)"`
	// Full says what happens when the disk is nearly full: changes are refused, or the oldest history is forgotten.
	Full whenFull `toml:"full" write:"full = \"refuse\" (or \"forget\")"`
}

func (c *classConfig) classes() overlay.Classes {
	return overlay.Classes{Temp: texts(c.Temp), System: texts(c.System), Platform: texts(c.Platform), User: texts(c.User)}
}

func (c *config) known() []string { return texts(c.Known) }

// texts are the words of wrappers.
func texts[T interface{ String() string }](all []T) []string {
	var out []string
	for _, t := range all {
		out = append(out, t.String())
	}
	return out
}

// word is a string that its wrapper has checked. It is no string itself, so that the decoder asks the wrapper, and an error
// has the line of the value; for a value that is no string, only the decoder's own error type gets it.
type word struct{ s string }

// String is the word.
func (w word) String() string { return w.s }

type (
	program   struct{ word }
	pattern   struct{ word }
	onOff     struct{ word }
	blindRule struct{ word }
	whenFull  struct{ word }
	byteCount struct{ n int64 }
	storeSize struct{ n int64 }
	keepTime  struct{ d time.Duration }
)

// UnmarshalText takes the name of a program; an agent's name is made of it and a pid.
func (p *program) UnmarshalText(b []byte) error {
	p.s = string(b)
	if p.s == "" || !identity.ValidName(tasktree.Agent(p.s+"-4194304")) {
		return unstable.NewParserError(b, "%q is no name of a program: up to 56 letters, digits, dots, dashes and underscores", p.s)
	}
	return nil
}

// UnmarshalText takes a pattern.
func (p *pattern) UnmarshalText(b []byte) error {
	p.s = string(b)
	_, err := path.Match(p.s, "")
	if err != nil || strings.Trim(p.s, " !/") == "" || strings.HasPrefix(p.s, "#") || strings.ContainsAny(p.s, "\n\r\x00") {
		return unstable.NewParserError(b, "%q is no pattern as in a .gitignore", p.s)
	}
	return nil
}

// UnmarshalText takes on or off.
func (o *onOff) UnmarshalText(b []byte) error {
	if o.s = string(b); o.s != "on" && o.s != "off" {
		return unstable.NewParserError(b, "%q is neither on nor off", o.s)
	}
	return nil
}

// UnmarshalText takes a rule as --blind does.
func (r *blindRule) UnmarshalText(b []byte) error {
	r.s = string(b)
	if _, err := overlay.ParseBlind(r.s); err != nil || r.s == "" {
		return unstable.NewParserError(b, "%q is none of allow, contested, deny", r.s)
	}
	return nil
}

// UnmarshalText takes refuse or forget.
func (w *whenFull) UnmarshalText(b []byte) error {
	if w.s = string(b); w.s != "refuse" && w.s != "forget" {
		return unstable.NewParserError(b, "%q is neither refuse nor forget", w.s)
	}
	return nil
}

// UnmarshalText takes a time as `prune --keep` does.
func (k *keepTime) UnmarshalText(b []byte) (err error) {
	if k.d, err = control.ParseKeep(string(b)); err != nil {
		return unstable.NewParserError(b, "%v", err)
	}
	return nil
}

// UnmarshalText takes a size as `prune --max-size` does.
func (c *storeSize) UnmarshalText(b []byte) (err error) {
	if c.n, err = control.ParseBytes(string(b)); err != nil {
		return unstable.NewParserError(b, "%v", err)
	}
	return nil
}

// UnmarshalText takes a number and K, M or G.
func (c *byteCount) UnmarshalText(b []byte) error {
	const least, most = 8 << 20, 1 << 40
	digits := strings.TrimRight(string(b), "KMG")
	shift, known := map[string]uint{"": 0, "K": 10, "M": 20, "G": 30}[string(b[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > most>>shift || n<<shift < least {
		return unstable.NewParserError(b, "%q is no size from 8M to 1024G", b)
	}
	c.n = n << shift
	return nil
}

// loadConfig reads the configuration: named, or ConfigName in the workspace, which may be missing. root is a descriptor of
// the workspace below the mount, uid its owner. Errors: Invalid, with the file and the line; nothing has changed.
func loadConfig(root int, named string, uid uint32) (c config, text []byte, err error) {
	text, err = readConfig(root, named, uid)
	if err == unix.ENOENT && named == "" {
		return config{}, nil, nil
	}
	if err != nil {
		return config{}, nil, &overlay.Error{Op: "read", Path: cmp.Or(named, ConfigName), Kind: overlay.Invalid, Err: err}
	}
	c, err = parseConfig(cmp.Or(named, ConfigName), text)
	return c, text, err
}

// inheritConfig is loadConfig for a daemon that goes on with another's mount: what that one read, whatever the file says by
// now. To open the file would be to wait for the own mount, too, where it is below it. The
// descriptor is taken over.
func inheritConfig(fd int, named string) (c config, text []byte, err error) {
	defer unix.Close(fd)
	text = make([]byte, maxConfigBytes)
	n, err := unix.Pread(fd, text, 0)
	if err != nil {
		return config{}, nil, fmt.Errorf("read the configuration of the daemon before: %w", err)
	}
	text = text[:n]
	c, err = parseConfig(cmp.Or(named, ConfigName), text)
	return c, text, err
}

// readConfig reads a regular file of the workspace's owner, of root, or, where it was named, of who mounts.
func readConfig(root int, named string, uid uint32) ([]byte, error) {
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	var fd int
	var err error
	if named != "" {
		fd, err = unix.Open(named, flags, 0)
	} else {
		fd, err = unix.Openat2(root, ConfigName, &unix.OpenHow{Flags: flags | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	}
	if err == unix.ELOOP {
		return nil, errors.New("it is a symbolic link; put the file itself there, or name it with --config")
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ConfigName)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("it is no regular file")
	case st.Uid != uid && st.Uid != 0 && (named == "" || int(st.Uid) != os.Geteuid()):
		return nil, fmt.Errorf("it belongs to user %d; it must be of the workspace's owner (user %d) or of root", st.Uid, uid)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err == nil && len(b) > maxConfigBytes {
		err = fmt.Errorf("it is longer than %d bytes", maxConfigBytes)
	}
	return b, err
}

// parseConfig understands all, or refuses: a key that is not known is an error.
func parseConfig(name string, b []byte) (config, error) {
	var c config
	d := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields()
	err := d.Decode(&c)
	if err == nil {
		return c, nil
	}
	line, text := 0, strings.TrimPrefix(err.Error(), "toml: ")
	var unknown *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		first := unknown.Errors[0]
		line, _ = first.Position()
		text = fmt.Sprintf("unknown key %s; allowed here: %s", strings.Join(first.Key(), "."), strings.Join(allowedBeside(first.Key()), ", "))
	case errors.As(err, &bad):
		line, _ = bad.Position()
		if write := exampleOf(bad.Key()); write != "" {
			why := "it is not understood" // the decoder's words are about types of Go; ours begin with what was given
			if strings.HasPrefix(text, `"`) {
				why = text
			}
			text = fmt.Sprintf("%s: %s; write %s", strings.Join(bad.Key(), "."), why, write)
		}
	}
	return config{}, &overlay.Error{Op: "read", Path: fmt.Sprintf("%s:%d", name, line), Kind: overlay.Invalid, Err: errors.New(text)}
}

// fieldOf finds a key in a table, which is a struct.
func fieldOf(table reflect.Type, key string) (reflect.StructField, bool) {
	for i := range table.NumField() {
		if f := table.Field(i); strings.EqualFold(f.Tag.Get("toml"), key) {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// allowedBeside are examples of the keys of the table that a key is in, as far as that table is known.
func allowedBeside(key []string) []string {
	table := reflect.TypeFor[config]()
	for _, k := range key[:max(len(key)-1, 0)] {
		f, has := fieldOf(table, k)
		if !has || f.Type.Kind() != reflect.Struct || !strings.HasPrefix(f.Tag.Get("write"), "[") {
			break
		}
		table = f.Type
	}
	var all []string
	for i := range table.NumField() {
		all = append(all, table.Field(i).Tag.Get("write"))
	}
	return all
}

// exampleOf is how a key is written; "" for one that is not known.
func exampleOf(key []string) string {
	table, write := reflect.TypeFor[config](), ""
	for _, k := range key {
		f, has := fieldOf(table, k)
		if !has {
			break
		}
		write = f.Tag.Get("write")
		if !strings.HasPrefix(write, "[") {
			break
		}
		table = f.Type
	}
	return write
}
