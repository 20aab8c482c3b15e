package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// mountOptions are the flags of mount; those that were not given are "", so that the workspace's own configuration and then
// the defaults count.
type mountOptions struct {
	dir          string
	store        string
	config       string
	guard        string
	blind        string
	durability   string
	onStoreError string
	transport    string
	passthrough  string
	allowOther   bool
	foreground   bool
	supervise    string
	// ready is the descriptor on which a daemon says that it serves; 0: it is none.
	ready int
	// keeper is the descriptor of its supervisor's socket, 0: it has none; left are those of what that kept of a daemon before.
	keeper int
	left   map[string]int
}

// choices are the values that flags of mount can have, the default first.
var choices = []struct {
	flag   string
	values []string
	help   string
	field  func(*mountOptions) *string
}{
	{"guard", []string{"on", "off"}, "refuse writes that destroy what their agent has not seen", func(o *mountOptions) *string { return &o.guard }},
	{"blind", []string{"allow", "contested", "deny"}, "writes over what was never read", func(o *mountOptions) *string { return &o.blind }},
	{"durability", []string{"process", "power"}, "what history survives: the daemon's death, or a power cut", func(o *mountOptions) *string { return &o.durability }},
	{"on-store-error", []string{"refuse", "pass"}, "changes whose before-image cannot be kept", func(o *mountOptions) *string { return &o.onStoreError }},
	{"transport", []string{"auto", "classic", "uring"}, "how requests arrive from the kernel", func(o *mountOptions) *string { return &o.transport }},
	{"passthrough", []string{"auto", "off"}, "let the kernel read and write backing files itself", func(o *mountOptions) *string { return &o.passthrough }},
	{"supervise", []string{"auto", "off"}, "let another daemon go on with the mount when it is killed", func(o *mountOptions) *string { return &o.supervise }},
}

func newMount(g *global, s streams) *cobra.Command {
	o := mountOptions{}
	c := &cobra.Command{
		Use:     "mount [flags] DIR",
		Short:   "mount over DIR and return when it serves",
		Example: "  ttfs mount ~/project",
		Args:    positional(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			o.dir = args[0]
			for _, ch := range choices {
				if !c.Flags().Changed(ch.flag) {
					*ch.field(&o) = ""
				} else if *ch.field(&o) == "" {
					return usage("mount: --%s is %s, not empty", ch.flag, strings.Join(ch.values, " or "))
				}
			}
			return runMount(o, s)
		},
	}
	f := c.Flags()
	f.StringVar(&o.store, "store", "", "keep the history in `DIR` instead of .tt")
	f.StringVar(&o.config, "config", "", "read `FILE` instead of .ttfs.toml in the workspace; flags beat it")
	for _, ch := range choices {
		f.StringVar(ch.field(&o), ch.flag, ch.values[0], ch.help+" (`"+strings.Join(ch.values, "|")+"`)")
	}
	f.BoolVar(&o.allowOther, "allow-other", false, "let other users in, as far as permissions go")
	f.BoolVar(&o.foreground, "foreground", false, "stay, and log on stderr")
	f.IntVar(&o.ready, "ready", 0, "the descriptor on which to say that it serves")
	f.IntVar(&o.keeper, "keeper", 0, "the descriptor of the supervisor's socket")
	f.StringToIntVar(&o.left, "left", nil, "descriptors of a daemon before this one")
	for _, name := range []string{"ready", "keeper", "left"} {
		if err := f.MarkHidden(name); err != nil {
			panic(err) // the flag is defined on the lines before
		}
	}
	return c
}

// check refuses what cannot be before anything happens, and makes paths absolute.
func (o *mountOptions) check() error {
	for _, c := range choices {
		if v := *c.field(o); v != "" && !slices.Contains(c.values, v) {
			return usage("mount: --%s is %s, not %q", c.flag, strings.Join(c.values, " or "), v)
		}
	}
	real, err := realDir(o.dir)
	if err != nil {
		return &failure{code: exitFailed, text: "mount", err: err, next: "name a directory that exists"}
	}
	o.dir = real
	if o.store != "" {
		if o.store, err = filepath.Abs(o.store); err != nil {
			return failed("mount: --store", err, "name the store by its absolute path")
		}
	}
	if o.config != "" {
		if o.config, err = filepath.Abs(o.config); err != nil {
			return failed("mount: --config", err, "name the file by its absolute path")
		}
	}
	return nil
}

func runMount(o mountOptions, s streams) error {
	if o.ready != 0 { // what started it has checked; of a daemon that goes on, the directory is its own mount
		return runDaemon(o)
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := clearTheWay(o.dir, s.err); err != nil {
		return err
	}
	info, err := os.Stat(o.dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", o.dir)
	}
	if err != nil {
		return &failure{code: exitFailed, text: "mount", err: err, next: "name a directory that exists"}
	}
	if o.foreground {
		return runForeground(o, s)
	}
	return startDaemon(o, s.err)
}

// clearTheWay refuses a directory that is mounted, and detaches mounts whose daemon is dead. Nobody can use such a mount
// again. That its daemon is not merely cut off from it, and still has the store, the store's lock tells.
func clearTheWay(dir string, told io.Writer) error {
	for {
		w, err := atDir(dir)
		if err != nil || !w.mounted {
			return err
		}
		if !w.dead() {
			text := dir + " is mounted already"
			if m, err := w.client(); err == nil {
				if pid, err := m.pid(); err == nil {
					text += fmt.Sprintf(", by process %d", pid)
				}
			}
			return &failure{code: exitFailed, text: text, next: "use it, or take it away with `ttfs unmount " + quoteArg(dir) + "`"}
		}
		if err := detach(dir, true); err != nil {
			return &failure{code: exitFailed, text: "the daemon of the last mount of " + dir + " has died, and its mount cannot be taken away", err: err,
				next: "do it as root: umount -l " + quoteArg(dir)}
		}
		fmt.Fprintf(told, "ttfs: the daemon of the last mount of %s had died; its mount was taken away\n", dir)
	}
}

// isBusy says whether an unmount was refused because somebody uses the mount.
func isBusy(err error) bool { return errors.Is(err, syscall.EBUSY) }
