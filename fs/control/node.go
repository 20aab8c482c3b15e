package control

// NodeKind is what a node is.
type NodeKind int

// The kinds of nodes.
const (
	// Dir has Lookup and List.
	Dir NodeKind = iota
	// File has Content, made anew at each open.
	File
	// Symlink has its target as Content.
	Symlink
	// Ctl is opened as a Session.
	Ctl
	// Foreign is the backend's: Open gives what it is.
	Foreign
)

// Node is one name below `.tt`. Nodes are values without state: looking one up again gives an equal one.
type Node interface {
	// Kind says which of the methods below have a meaning; the others give NoFile.
	Kind() NodeKind
	// Path is the name from `.tt` down, "" for `.tt` itself: the identity of the node.
	Path() string
	// Mode is the permission bits.
	Mode() uint32
	// Lookup finds a name in a directory. Errors: NoFile.
	Lookup(name string) (Node, error)
	// List names all that Lookup finds, in a steady order.
	List() ([]Node, error)
	// Content is what an open by that caller is to read. Errors: any Kind.
	Content(c Caller) ([]byte, error)
	// Open is what stands behind a Foreign node, for that caller (below `at`, it differs from agent to agent).
	Open(c Caller) (any, error)
}

// Tree is the root of `.tt`.
func Tree(b Backend) Node { return root(b) }

// none is a node without meaning of its own; the kinds below embed it.
type none struct {
	path string
	mode uint32
}

func (n none) Path() string                     { return n.path }
func (n none) Mode() uint32                     { return n.mode }
func (n none) Lookup(name string) (Node, error) { return nil, n.missing(name) }
func (n none) List() ([]Node, error)            { return nil, n.missing("") }
func (n none) Content(Caller) ([]byte, error)   { return nil, n.missing("") }
func (n none) Open(Caller) (any, error)         { return nil, n.missing("") }

func (n none) missing(name string) error {
	p := ".tt"
	if n.path != "" {
		p += "/" + n.path
	}
	if name != "" {
		p += "/" + clip(name)
	}
	return &Error{Op: p, Kind: NoFile}
}

// dir is a directory: fixed names, then those that more makes and find finds.
type dir struct {
	none
	fixed []Node
	names []string
	// find looks up a name that is not fixed; more lists those.
	find func(name string) (Node, bool)
	more func() []Node
}

func (d *dir) Kind() NodeKind { return Dir }

func (d *dir) Lookup(name string) (Node, error) {
	for i, n := range d.names {
		if n == name {
			return d.fixed[i], nil
		}
	}
	if d.find != nil {
		if n, ok := d.find(name); ok {
			return n, nil
		}
	}
	return nil, d.missing(name)
}

func (d *dir) List() ([]Node, error) {
	all := append([]Node(nil), d.fixed...)
	if d.more != nil {
		all = append(all, d.more()...)
	}
	return all, nil
}

// file is a file whose content is made at open.
type file struct {
	none
	content func(c Caller) ([]byte, error)
}

func (f *file) Kind() NodeKind                   { return File }
func (f *file) Content(c Caller) ([]byte, error) { return f.content(c) }

// ctl is the control file.
type ctl struct{ none }

func (ctl) Kind() NodeKind { return Ctl }

// foreign is the backend's.
type foreign struct {
	none
	open func(c Caller) (any, error)
}

func (f *foreign) Kind() NodeKind             { return Foreign }
func (f *foreign) Open(c Caller) (any, error) { return f.open(c) }

// builder makes a directory.
type builder struct{ d *dir }

func newDir(path string) builder {
	return builder{&dir{none: none{path: path, mode: 0o555}}}
}

func (b builder) at(name string) none {
	p := name
	if b.d.path != "" {
		p = b.d.path + "/" + name
	}
	return none{path: p, mode: 0o444}
}

func (b builder) add(name string, n Node) {
	b.d.names, b.d.fixed = append(b.d.names, name), append(b.d.fixed, n)
}

// file adds a file.
func (b builder) file(name string, content func(c Caller) ([]byte, error)) {
	b.add(name, &file{none: b.at(name), content: content})
}

// foreign adds a node of the backend's.
func (b builder) foreign(name string, open func(c Caller) (any, error)) {
	b.add(name, &foreign{none: b.at(name), open: open})
}
