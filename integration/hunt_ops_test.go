package integration

// huntOps is the first half of the program of TestHunt: what it does to a tree, and how it pictures one.
const huntOps = `import os, sys, random, mmap, stat, hashlib, ctypes, errno, subprocess, time, fcntl, struct, signal
TTFS, WS, SEED, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
FLAGS = sys.argv[5:]
R = random.Random(SEED)
libc = ctypes.CDLL(None, use_errno=True)
for f in ("renameat2", "linkat", "fallocate", "copy_file_range"): getattr(libc, f)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
libc.copy_file_range.restype = ctypes.c_ssize_t
libc.copy_file_range.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
def sysc(name, *a):
    r = getattr(libc, name)(*a)
    if r < 0: raise OSError(ctypes.get_errno(), name)
    return r
def cmd(line, ok=True):
    fd = os.open(WS + "/.tt/ctl", os.O_RDWR)
    try:
        try: os.write(fd, line.encode())
        except OSError as e:
            if ok: raise Exception("%s: %s: %s" % (line, e, open(WS + "/.tt/why").read()))
            return None
        return os.read(fd, 1 << 20).decode()
    finally: os.close(fd)
def status():
    return dict(l.split("=", 1) for l in open(WS + "/.tt/status").read().splitlines())
def snap(top=None):
    for m in HELD[True][1] + HELD[False][1]: m.flush() # where it is not passed through, that is when the time changes
    top = (top or WS).encode(); out = {}; groups = {}
    def one(p, rel):
        st = os.lstat(p); e = [stat.S_IFMT(st.st_mode), st.st_mode & 0o7777, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_rdev]
        xs = {}
        for n in os.listxattr(p, follow_symlinks=False):
            xs[n] = os.getxattr(p, n, follow_symlinks=False)
        e.append(sorted(xs.items()))
        if stat.S_ISREG(st.st_mode):
            with open(p, "rb") as f: e.append((st.st_size, hashlib.sha1(f.read()).hexdigest()))
        elif stat.S_ISLNK(st.st_mode): e.append(os.readlink(p))
        if not stat.S_ISDIR(st.st_mode):
            e.append(st.st_nlink); groups.setdefault(st.st_ino, []).append(rel)
        out[rel] = e
        if stat.S_ISDIR(st.st_mode):
            for n in sorted(os.listdir(p)): one(p + b"/" + n, rel + b"/" + n)
    one(top, b"")
    for g in groups.values():
        for p in g: out[p].append(tuple(sorted(g)))
    return out
compared = 0
def same(a, b, what):
    global compared
    compared += sum(e[7][0] for e in b.values() if e[0] == stat.S_IFREG)
    if a == b: return True
    print("SEED", SEED, "DIFF", what)
    for k in sorted(set(a) | set(b)):
        if a.get(k) != b.get(k): print("  ", k[:80], "\n     want", str(a.get(k))[:400], "\n     got ", str(b.get(k))[:400])
    return False
held, maps = [], []
HELD = {True: (held, maps), False: ([], [])}
def scan(top):
    fs, ds = [], [top]
    for d, dn, fn in os.walk(top):
        if d == top: dn[:] = [x for x in dn if x != ".tt"]
        for x in dn:
            p = os.path.join(d, x)
            if os.path.islink(p): fs.append(p)
            else: ds.append(p)
        for x in fn: fs.append(os.path.join(d, x))
    return fs, ds
def name():
    r = R.random()
    if r < .05: return "L" * 250 + "%05d" % R.randrange(5)
    if r < .1: return R.choice(["new\nline", "tab\t", "-rf", "*", "\xff\u00e9", " ", "a\\b", ".hidden", "..x", "o1", "c1"])
    return R.choice("abcdefgh") + str(R.randrange(6))
def data(): 
    k = R.random()
    n = R.choice([0, 1, 100, 4095, 4096, 4097, 20000, 131072, 131073, 300000, 700000])
    return (R.randbytes(64) * (n // 64 + 1))[:n] if k < .5 else R.randbytes(n)
count = {}
def op(top):
    global held, maps
    held, maps = HELD[top == WS]
    fs, ds = scan(top)
    reg = [f for f in fs if stat.S_ISREG(os.lstat(f).st_mode)]
    d = R.choice(ds); new = os.path.join(d, name()); f = R.choice(reg) if reg else None; anyf = R.choice(fs) if fs else None
    k = R.choice(["create","create","create","append","pwrite","pwrite","trunc","rewrite","unlink","rmdir","mkdir","mkdir","symlink","link","link","rename","rename","renameover","renameover","exchange","xattr","chmod","chown","utime",
      "punch","zero","collapse","insert","extend","tmpfile","fifo","dev","mmap","mmap","hold","heldwrite","heldwrite","heldtrunc","cfr","rmtree","dir2file","editor","fsyncold","mapwrite","setgid","acl","whiteout","holdrdwr_unlink","sock"])
    try:
        if k == "create":
            with open(new, "xb") as h: h.write(data())
        elif k == "append" and f:
            with open(f, "ab") as h: h.write(data())
        elif k == "pwrite" and f:
            fd = os.open(f, os.O_WRONLY)
            try:
                for _ in range(R.randrange(1, 4)): os.pwrite(fd, R.randbytes(R.choice([1, 10, 4096, 70000])), R.randrange(0, 400000) if R.random() < .3 else R.randrange(0, os.fstat(fd).st_size + 1))
            finally: os.close(fd)
        elif k == "trunc" and f: os.truncate(f, R.choice([0, 1, 5000, 100000, 1000000]))
        elif k == "rewrite" and f:
            with open(f, "wb") as h: h.write(data())
        elif k == "unlink" and anyf: os.unlink(anyf)
        elif k == "rmdir" and d != top: os.rmdir(d)
        elif k == "mkdir": os.mkdir(new, R.choice([0o755, 0o700, 0o2775, 0o1777]))
        elif k == "symlink": os.symlink(R.choice(["a0", "../b1", "/etc/passwd", "x" * 3000, "."]), new)
        elif k == "link" and anyf: os.link(anyf, new, follow_symlinks=False)
        elif k == "rename": os.rename(R.choice(fs + ds[1:]), new)
        elif k == "renameover" and len(fs) > 1: os.rename(R.choice(fs), R.choice(fs))
        elif k == "exchange":
            a, b = R.choice(fs + ds[1:]), R.choice(fs + ds[1:])
            sysc("renameat2", -100, os.fsencode(a), -100, os.fsencode(b), 2)
        elif k == "xattr" and anyf:
            t = R.choice([f or anyf, d])
            if R.random() < .6: os.setxattr(t, "user.k%d" % R.randrange(3), R.randbytes(R.choice([0, 3, 200, 1500])))
            else: os.removexattr(t, "user.k%d" % R.randrange(3))
        elif k == "acl":
            os.setxattr(d, R.choice(["system.posix_acl_default", "system.posix_acl_access"]), struct.pack("<I", 2) + b"".join(struct.pack("<HHI", t, p, i) for t, p, i in [(1, 7, 0xffffffff), (2, 7, 1000), (4, 5, 0xffffffff), (16, 7, 0xffffffff), (32, 5, 0xffffffff)]))
        elif k == "chmod": os.chmod(R.choice([x for x in [f, d] if x]), R.choice([0o644, 0o600, 0o755, 0o4755, 0o000, 0o2755]))
        elif k == "chown": os.chown(R.choice([x for x in [anyf, d] if x and x != WS] or [new]), R.choice([0, 1000, 65534]), R.choice([0, 1000]), follow_symlinks=False)
        elif k == "utime": os.utime(R.choice([x for x in [anyf, d] if x]), ns=(R.randrange(1 << 60), R.randrange(1 << 60)), follow_symlinks=False)
        elif k in ("punch", "zero", "collapse", "insert", "extend") and f:
            fd = os.open(f, os.O_RDWR)
            try:
                mode = {"punch": 3, "zero": 0x10, "collapse": 8, "insert": 0x20, "extend": 0}[k]
                off = R.randrange(0, 60) * 4096; ln = R.randrange(1, 20) * 4096
                if k in ("punch", "zero"): off += R.randrange(4096)
                sysc("fallocate", fd, mode, off, ln)
            finally: os.close(fd)
        elif k == "tmpfile":
            fd = os.open(d, os.O_TMPFILE | os.O_RDWR, 0o640)
            try:
                os.write(fd, data())
                if R.random() < .8: os.link("/proc/self/fd/%d" % fd, new, follow_symlinks=True)
                if R.random() < .5: os.write(fd, b"after the link")
            finally:
                if R.random() < .3 and len(held) < 8: held.append(fd)
                else: os.close(fd)
        elif k == "fifo": os.mkfifo(new)
        elif k == "dev": os.mknod(new, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        elif k == "whiteout": os.mknod(new, stat.S_IFCHR | 0o600, os.makedev(0, 0))
        elif k == "sock": os.mknod(new, stat.S_IFSOCK | 0o600)
        elif k == "mmap" and f and os.path.getsize(f) > 0 and len(maps) < 8:
            fd = os.open(f, os.O_RDWR); m = mmap.mmap(fd, 0); os.close(fd)
            at = R.randrange(len(m)); m[at:at + 1] = R.randbytes(1); maps.append(m)
        elif k == "mapwrite" and maps:
            m = R.choice(maps)
            at = R.randrange(len(m)); b = R.randbytes(1); 
            try:
                if m.size() > at: m[at:at + 1] = b
            except (ValueError, OSError): pass
        elif k == "hold" and f and len(held) < 8: held.append(os.open(f, R.choice([os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_TRUNC])))
        elif k == "holdrdwr_unlink" and f and len(held) < 8: held.append(os.open(f, os.O_RDWR)); os.unlink(f)
        elif k == "heldwrite" and held:
            fd = R.choice(held); os.pwrite(fd, R.randbytes(R.choice([1, 100, 5000])), R.randrange(0, 200000))
        elif k == "heldtrunc" and held: os.ftruncate(R.choice(held), R.randrange(0, 100000))
        elif k == "fsyncold" and held: os.fsync(R.choice(held))
        elif k == "cfr" and len(reg) > 1:
            a, b = os.open(R.choice(reg), os.O_RDONLY), os.open(R.choice(reg), os.O_WRONLY)
            try: sysc("copy_file_range", a, None, b, None, R.choice([10, 5000, 1 << 20]), 0)
            finally: os.close(a); os.close(b)
        elif k == "rmtree" and d != top and R.random() < .5: subprocess.run(["rm", "-rf", d])
        elif k == "dir2file" and d != top:
            subprocess.run(["rm", "-rf", d]); open(d, "wb").write(data())
        elif k == "editor" and f:
            with open(f + "~", "wb") as h: h.write(data())
            os.rename(f + "~", f)
        elif k == "setgid": os.chmod(d, 0o2775)
        else: return
        count[k] = count.get(k, 0) + 1
    except OSError as e:
        if e.errno in (errno.ESTALE, errno.EIO, errno.ENODATA, errno.EBUSY, errno.ENOTCONN, errno.ENOSPC) and not (k == "xattr" and e.errno == errno.ENODATA) : 
            if not (e.errno == errno.ENOSPC and k == "xattr") and not (e.errno == errno.EBUSY and not maps): print("SEED", SEED, "UNEXPECTED", k, e)
`
