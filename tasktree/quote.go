package tasktree

import (
	"fmt"
	"strings"
)

// Quote makes a path fit on a line. Shape: as it is, unless it has a control character or begins with a double quote;
// then in double quotes, with \n, \t, \r, \\, \" and three octal digits for the rest. Source: git's core.quotePath=false.
func Quote(path string) string {
	if !strings.HasPrefix(path, `"`) && strings.IndexFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 {
		return path
	}
	s := []byte{'"'}
	for _, c := range []byte(path) {
		switch {
		case c == '\n':
			s = append(s, `\n`...)
		case c == '\t':
			s = append(s, `\t`...)
		case c == '\r':
			s = append(s, `\r`...)
		case c == '"' || c == '\\':
			s = append(s, '\\', c)
		case c < ' ' || c == 0x7f:
			s = fmt.Appendf(s, `\%03o`, c)
		default:
			s = append(s, c)
		}
	}
	return string(append(s, '"'))
}

// Unquote takes back what Quote did, byte for byte. What Quote does not write stays as it is.
func Unquote(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	plain := make([]byte, 0, len(s))
	for in := s[1 : len(s)-1]; in != ""; {
		c := in[0]
		if in = in[1:]; c != '\\' {
			plain = append(plain, c)
			continue
		}
		if in == "" {
			return s
		}
		if i := strings.IndexByte(`ntr"\`, in[0]); i >= 0 {
			plain, in = append(plain, "\n\t\r\"\\"[i]), in[1:]
			continue
		}
		if len(in) < 3 || strings.Trim(in[:3], "01234567") != "" || in[0] > '3' {
			return s
		}
		plain, in = append(plain, (in[0]-'0')<<6|(in[1]-'0')<<3|(in[2]-'0')), in[3:]
	}
	return string(plain)
}
