package integration

// crashWriter makes changes number FROM to TO of a sequence that depends on
// nothing but the numbers, one changing system call each, and writes a line to
// the log when a change was acknowledged. Those before FROM are only worked out.
// A write stays within one page: a kill may cut a longer one short at a page
// boundary (mm/filemap.c, generic_perform_write), on any filesystem.
//
//	start                  makes the tree that everything begins with
//	run FROM TO LOG        ends with 0 when the filesystem has gone away
const crashWriter = `
import errno, os, random, sys, time

def start():
    for d in ("d0", "d1"):
        os.mkdir(d)
        for i in range(20):
            with open(f"{d}/f{i}", "wb") as f: f.write(b"%d " % i * (i * 100))
    with open("d0/big", "wb") as f: f.write(b"0123456789abcdef" * 20000)

files = [f"d{d}/f{i}" for d in range(2) for i in range(20)] + ["d0/big"]
dirs = ["d0", "d1"]
size = {f: len(b"%d " % int(f[4:]) * (int(f[4:]) * 100)) if f != "d0/big" else 320000 for f in files}
dry = True

def do(call):
    if not dry: call()

def opened(path, flags, act):
    fd = os.open(path, flags, 0o644)
    try: act(fd)
    finally: os.close(fd)

def change(n):
    r = random.Random(n * 7919 + 1)
    op = r.choice(["create", "write", "write", "write", "append", "append", "trunc", "cut", "rename", "over",
                   "unlink", "mkdir", "rmdir", "mvdir", "chmod", "link", "symlink", "xattr", "exchange"])
    if len(files) < 10: op = "create"
    f, g, d = r.choice(files), r.choice(files), r.choice(dirs)
    new = f"{d}/n{n}"
    data = bytes([65 + n % 26]) * r.choice([1, 100, 1000, 4096])
    def fit(at): return data[:4096 - at % 4096]
    if op == "create":
        do(lambda: opened(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, lambda fd: None)); files.append(new); size[new] = 0
    elif op == "write":
        at = r.randrange(size[f] + 1)
        do(lambda: opened(f, os.O_WRONLY, lambda fd: os.pwrite(fd, fit(at), at))); size[f] = max(size[f], at + len(fit(at)))
    elif op == "append":
        do(lambda: opened(f, os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, fit(size[f])))); size[f] += len(fit(size[f]))
    elif op == "trunc":
        do(lambda: opened(f, os.O_WRONLY | os.O_TRUNC, lambda fd: None)); size[f] = 0
    elif op == "cut":
        at = r.randrange(size[f] * 2 + 1)
        do(lambda: os.truncate(f, at)); size[f] = at
    elif op == "rename":
        do(lambda: os.rename(f, new)); files.remove(f); files.append(new); size[new] = size.pop(f)
    elif op == "over" and f != g:
        do(lambda: os.rename(f, g)); files.remove(f); size[g] = size.pop(f)
    elif op == "unlink":
        do(lambda: os.unlink(f)); files.remove(f); del size[f]
    elif op == "mkdir":
        do(lambda: os.mkdir(f"m{n}")); dirs.append(f"m{n}")
    elif op == "rmdir" and d not in ("d0", "d1") and not any(f.startswith(d + "/") for f in files):
        do(lambda: os.rmdir(d)); dirs.remove(d)
    elif op == "mvdir" and d not in ("d0", "d1"):
        do(lambda: os.rename(d, f"v{n}")); dirs.remove(d); dirs.append(f"v{n}")
        for i, f in enumerate(files):
            if f.startswith(d + "/"):
                files[i] = f"v{n}/" + f.split("/")[1]; size[files[i]] = size.pop(f)
    elif op == "chmod":
        mode = r.choice([0o600, 0o644, 0o755])
        do(lambda: os.chmod(f, mode))
    elif op == "xattr":
        do(lambda: os.setxattr(f, "user.n", b"%d" % n))
    elif op == "symlink":
        do(lambda: os.symlink(f, f"s{n}"))
    elif op == "link":
        do(lambda: os.link(f, f"l{n}"))
    elif op == "exchange" and f != g:
        t = f"{d}/t{n}"
        do(lambda: os.rename(f, t)); files.remove(f); files.append(t); size[t] = size.pop(f)

gone = (errno.ENOTCONN, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECANCELED)

# A daemon that is killed while it copies a request gives EIO to who sent it
# (fs/fuse/dev.c, fuse_dev_do_read); with a daemon that lives on it is an error.
def dying():
    for _ in range(10000):
        try: os.statvfs(".")
        except OSError as e:
            if e.errno in gone: return True
        time.sleep(0.001)
    return False

if sys.argv[1] == "start":
    start()
else:
    first, last = int(sys.argv[2]), int(sys.argv[3])
    log = os.open(sys.argv[4], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for n in range(first): change(n)
    dry = False
    for n in range(first, last):
        try: change(n)
        except OSError as e:
            if e.errno in gone or e.errno == errno.EIO and dying(): sys.exit(0)
            raise
        os.write(log, b"%d\n" % n)
`
