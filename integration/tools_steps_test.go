package integration

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

// toolStep is one task: a script for sh, or a program for python.
type toolStep struct{ name, script, python string }

var toolSteps = []toolStep{
	{name: "git commit", script: `cd repo; git checkout -q -b feature; echo line >>README.md; git commit -qam one`},
	{name: "git stash", script: `cd repo; echo dirty >>LICENSE; echo new >untracked.txt; git stash -q -u`},
	{name: "git stash pop", script: `cd repo; git stash pop -q; git add -A; git commit -qm wip`},
	{name: "git rebase", script: `cd repo; git checkout -q main; echo m >main.txt; git add main.txt; git commit -qm main
		git checkout -q feature; git rebase -q main`},
	{name: "git merge", script: `cd repo; git checkout -q main; git merge -q --no-ff -m merge feature`},
	{name: "git staged", script: `cd repo; echo staged >>Makefile; git add Makefile; echo more >>Makefile; git rm -q --cached LICENSE`},
	{name: "sed over many", script: `cd repo; grep -rlZ --include='*.go' pebble . | xargs -0 sed -i s/pebble/gravel/g`},
	{name: "git checkout back", script: `cd repo; git reset -q --hard`},
	{name: "tar", script: `tar cf "$HOME/t.tar" -C repo/sstable .; mkdir fromtar; tar xf "$HOME/t.tar" -C fromtar`},
	{name: "tar over itself", script: `echo x >>fromtar/reader.go; tar xf "$HOME/t.tar" -C fromtar; rm "$HOME/t.tar"`},
	{name: "rsync", script: `rsync -a repo/internal/ synced/`},
	{name: "rsync --delete", script: `rsync -a --delete repo/vfs/ synced/; rsync -a --inplace repo/LICENSE synced/`},
	{name: "sqlite", script: `sqlite3 data.db "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
		WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<3000) INSERT INTO t SELECT x, printf('%060d',x) FROM c;"`},
	{name: "sqlite update", script: `sqlite3 data.db "UPDATE t SET v=v||'x' WHERE id%7=0; DELETE FROM t WHERE id%11=0; VACUUM;"`},
	{name: "sqlite WAL", script: `sqlite3 data.db "PRAGMA journal_mode=WAL" ".dbconfig no_ckpt_on_close on" "UPDATE t SET v='w' WHERE id%5=0" >/dev/null; test -s data.db-wal`},
	{name: "sqlite WAL closed", script: `sqlite3 data.db "INSERT INTO t(v) VALUES('last')"; test ! -e data.db-wal`},
	{name: "python in place", python: pythonInPlace},
	{name: "python again in place", python: pythonAgain},
	{name: "python system calls", python: pythonCalls},
	{name: "python O_TMPFILE", python: pythonNameless},
	{name: "rm -rf", script: `rm -rf repo/sstable`},
	{name: "mv directories", script: `mv repo/internal repo/moved; mv repo/record repo/vfs/record; mv repo/vfs/record/log_writer.go .`},
	{name: "cp -a", script: `cp -a repo/vfs copied`},
	{name: "chmod -R", script: `chmod -R go-rwx copied; chmod 4755 repo/LICENSE; chmod 1777 repo/docs; chmod 000 repo/README.md`},
	{name: "chown", script: `chown -R 12:34 copied || test "$(awk '{print $3}' /proc/self/uid_map)" = 1; touch -d @1000000000.123456789 copied`},
	{name: "links", script: `ln log_writer.go hard1; ln hard1 copied/hard2; ln -s repo/docs soft; ln -sfn nowhere soft; echo more >>copied/hard2`},
	{name: "links broken", script: `rm log_writer.go; cp hard1 x; mv x hard1; ln -sfn repo soft`},
	{name: "mkfifo", script: `mkfifo -m 600 fifo; mkdir -p deep/er/and/deeper; rm -f soft`},
	{name: "fifo to directory", script: `rm fifo; mkdir fifo; echo in >fifo/file; rmdir deep/er/and/deeper; echo file >deep/er/and/deeper`},
	{name: "sparse", script: `truncate -s 64M sparse; printf mid | dd of=sparse bs=1 seek=20000000 conv=notrunc status=none
		fallocate -l 300K full; dd if=/dev/zero of=zeros bs=64K count=16 status=none; fallocate -p -o 131072 -l 262144 zeros`},
	{name: "sparse edited", script: `fallocate -p -o 19996672 -l 8192 sparse; printf end | dd of=sparse bs=1 seek=60000000 conv=notrunc status=none
		truncate -s 61M sparse; fallocate -p -o 0 -l 65536 zeros; cp --sparse=always zeros holes; truncate -s 100K full`},
	{name: "acl and xattr", script: `setfacl -m u:12:rwx,g:34:r hard1; setfacl -d -m u:12:rx repo/docs; setfattr -n user.color -v blue hard1 repo/docs; echo x >repo/docs/inherits`},
	{name: "acl and xattr changed", script: `setfacl -b hard1; setfattr -x user.color hard1; setfattr -n user.color -v red repo/docs; setfacl -k repo/docs`},
	{name: "go build", script: `mkdir -p app/part; cd app; printf 'module example.org/app\n\ngo 1.21\n' >go.mod
		printf 'package part\n\nconst Name = "part"\n' >part/part.go
		printf 'package main\n\nimport "example.org/app/part"\n\nfunc main() { println(part.Name) }\n' >main.go
		go build -o bin/app .; ./bin/app 2>&1 | grep -q part`},
	{name: "go build again", script: `cd app; sed -i s/part\"$/other\"/ part/part.go; go build -o bin/app .; gofmt -l . `},
	{name: "npm install", script: `mkdir -p lib web; cd lib; mkdir src; for i in 1 2 3 4 5 6 7 8 9; do echo "module.exports=$i" >src/$i.js; done
		echo '{"name":"lib","version":"1.0.0","main":"src/1.js"}' >package.json; npm pack --silent --offline >/dev/null
		cd ../web; echo '{"name":"web","version":"1.0.0","private":true}' >package.json
		npm install --silent --offline --no-audit --no-fund ../lib/lib-1.0.0.tgz; node -e 'if (require("lib")!==1) process.exit(1)'`},
	{name: "npm uninstall", script: `cd web; npm uninstall --silent --offline --no-audit --no-fund lib; test ! -e node_modules/lib`},
	{name: "editor saves", script: `cd repo; for f in open.go db.go batch.go; do cp -p $f $f~; sed s/DB/db/ $f >$f.tmp; mv $f.tmp $f; ln $f $f.bak; done`},
	{name: "git gc", script: `cd repo; git add -A; git commit -qm all; git gc -q --prune=now`},
	{name: "rm most", script: `rm -rf copied fromtar synced web lib deep sparse full; find repo -name '*_test.go' -delete`},
	{name: "nothing", script: `:`},
}

const pythonInPlace = `
import os, mmap
os.mkdir("py")
with open("py/big", "wb") as f: f.write(bytes(range(256)) * 8192)
with open("py/log", "w") as f: f.write("start\n")
with open("repo/db.go", "r+b") as f:
    f.seek(100); f.write(b"in the middle"); f.truncate(50000)
with open("py/big", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0); m[5000:5010] = b"0123456789"; m[2000000:2000003] = b"end"; m.flush(); m.close()
for i in range(50):
    fd = os.open("py/log", os.O_WRONLY | os.O_APPEND); os.write(fd, b"line %d\n" % i); os.close(fd)
`

const pythonAgain = `
import os, mmap
with open("py/big", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0); m[5000:5010] = b"9876543210"; m[0:1] = b"!"; m.close()
    f.seek(1000000); f.write(b"x" * 5000)
with open("py/log", "r+b") as f: f.truncate(20)
with open("repo/db.go", "a") as f: f.write("// appended\n")
with open("repo/open.go", "w") as f: f.write("package gone\n")
os.truncate("repo/batch.go", 1234)
`

const pythonCalls = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
AT_FDCWD, EXCHANGE, NOREPLACE = -100, 2, 1
check(libc.renameat2(AT_FDCWD, b"repo/vfs", AT_FDCWD, b"py/log", EXCHANGE))
check(libc.renameat2(AT_FDCWD, b"py/log", AT_FDCWD, b"repo/vfs", EXCHANGE))
check(libc.renameat2(AT_FDCWD, b"repo/db.go", AT_FDCWD, b"repo/open.go", EXCHANGE))
check(libc.renameat2(AT_FDCWD, b"repo/batch.go", AT_FDCWD, b"py/moved.go", NOREPLACE))
os.rename("py/moved.go", "repo/batch.go")
a, b = os.open("py/big", os.O_RDONLY), os.open("py/log", os.O_RDWR)
os.copy_file_range(a, b, 4096, 0, 10)
os.posix_fallocate(b, 0, 9000)
os.close(a); os.close(b)
os.mkdir("py/name\nwith newline")
open(b"py/raw\xff\xfe", "w").close()
open("py/" + "n" * 255, "w").close()
`

const pythonNameless = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("py", os.O_TMPFILE | os.O_RDWR, 0o640)
os.write(fd, b"was nameless\n")
AT_FDCWD, FOLLOW = -100, 0x400
if libc.linkat(AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, b"py/named", FOLLOW) != 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
os.close(fd)
os.replace("py/named", "repo/LICENSE")
`
