package transport

import "strconv"

// opcodes is the number of operations that are counted one by one; what is above counts as the last.
const opcodes = 64

const (
	opLookup      = 1
	opForget      = 2
	opGetAttr     = 3
	opSetAttr     = 4
	opUnlink      = 10
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opGetXAttr    = 22
	opInit        = 26
	opCreate      = 35
	opInterrupt   = 36
	opDestroy     = 38
	opRelease     = 18
	opOpenDir     = 27
	opReleaseDir  = 29
	opBatchForget = 42
)

// opNames are the operations' names. Source: enum fuse_opcode.
var opNames = [opcodes]string{
	1: "lookup", 2: "forget", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir", 10: "unlink", 11: "rmdir",
	12: "rename", 13: "link", 14: "open", 15: "read", 16: "write", 17: "statfs", 18: "release", 20: "fsync", 21: "setxattr", 22: "getxattr",
	23: "listxattr", 24: "removexattr", 25: "flush", 26: "init", 27: "opendir", 28: "readdir", 29: "releasedir", 30: "fsyncdir", 31: "getlk",
	32: "setlk", 33: "setlkw", 34: "access", 35: "create", 36: "interrupt", 37: "bmap", 38: "destroy", 39: "ioctl", 40: "poll",
	41: "notify_reply", 42: "batch_forget", 43: "fallocate", 44: "readdirplus", 45: "rename2", 46: "lseek", 47: "copy_file_range",
	48: "setupmapping", 49: "removemapping", 50: "syncfs", 51: "tmpfile", 52: "statx", 53: "copy_file_range_64", opcodes - 1: "other",
}

func opName(op uint32) string {
	if int(op) < len(opNames) && opNames[op] != "" {
		return opNames[op]
	}
	return "op" + strconv.Itoa(int(op))
}
