package codec

import "unicode/utf8"

// maxDepth is the nesting at which a reader or writer gives up. encoding/json reports an error much later.
const maxDepth = 500

// Unmarshal is json.Unmarshal, or a function of this form.
type Unmarshal = func(text []byte, into any) error

// numbers is the type of numbers in dynamic values.
type numbers uint8

const (
	// floats are float64.
	floats numbers = iota
	// asWritten are json.Number.
	asWritten
	// integers are int64 if they are integers in its range, and float64 otherwise.
	integers
)

// reader reads a JSON text. Its methods return false to give up.
type reader struct {
	text string
	at   int
	// depth is the nesting at at.
	depth int
	// numbers is the type of numbers in dynamic values.
	numbers numbers
	// exact is true if upper and lower case of names matter.
	exact bool
	// other reads what this package does not know.
	other Unmarshal
	// values holds the elements of the lists that are being read.
	values []any
	names  []string
}

// peek skips white space and returns the next byte; 0 at the end.
func (r *reader) peek() byte {
	if r.at < len(r.text) && r.text[r.at] > ' ' {
		return r.text[r.at]
	}
	return r.peekSlowly()
}

func (r *reader) peekSlowly() byte {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// literal reads null, true or false.
func (r *reader) literal(word string) bool {
	if len(r.text)-r.at < len(word) || r.text[r.at:r.at+len(word)] != word {
		return false
	}
	r.at += len(word)
	return true
}

// next reads the separator after an element of a list or object, or end, which closes it: more is false then. ok is false for
// anything else.
func (r *reader) next(end byte) (more, ok bool) {
	c := r.peek()
	r.at++
	if c == end {
		r.depth--
		return false, true
	}
	return true, c == ','
}

// name reads the name of a member, and the colon.
func (r *reader) name() (string, bool) {
	if r.peek() != '"' {
		return "", false
	}
	name, ok := r.string()
	if !ok || r.peek() != ':' {
		return "", false
	}
	r.at++
	return name, true
}

// string reads a string, at its quote. The result shares the text's memory if it has no escapes.
func (r *reader) string() (string, bool) {
	start := r.at + 1
	for i := start; i < len(r.text); i++ {
		c := r.text[i]
		if c == '"' {
			r.at = i + 1
			return r.text[start:i], true
		}
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return r.escaped(start, i)
		}
	}
	return "", false
}

// escaped reads the rest of a string that began at start and has a special byte at i.
func (r *reader) escaped(start, i int) (string, bool) {
	var out []byte
	copied := start
	for ; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			r.at = i + 1
			s := r.text[start:i]
			if out != nil {
				s = string(append(out, r.text[copied:i]...))
			}
			// encoding/json replaces invalid bytes.
			return s, utf8.ValidString(s)
		case c < ' ':
			return "", false
		case c == '\\':
			if out == nil {
				out = make([]byte, 0, i-start+64)
			}
			out = append(out, r.text[copied:i]...)
			var size int
			if out, size = unescape(out, r.text[i:]); size == 0 {
				return "", false
			}
			i += size - 1
			copied = i + 1
		}
	}
	return "", false
}

// unescape appends the character of the escape that begins the text, and returns the escape's length; 0 for a wrong one and
// for surrogates.
func unescape(out []byte, text string) ([]byte, int) {
	if len(text) < 2 {
		return out, 0
	}
	switch c := text[1]; c {
	case '"', '\\', '/':
		return append(out, c), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		if len(text) < 6 {
			return out, 0
		}
		var char rune
		for _, c := range []byte(text[2:6]) {
			switch {
			case c >= '0' && c <= '9':
				char = char<<4 | rune(c-'0')
			case c|0x20 >= 'a' && c|0x20 <= 'f':
				char = char<<4 | rune(c|0x20-'a'+10)
			default:
				return out, 0
			}
		}
		if !utf8.ValidRune(char) {
			return out, 0
		}
		return utf8.AppendRune(out, char), 6
	}
	return out, 0
}

// number reads a number. integer is its value if it has at most 15 digits, no fraction and no exponent, and is not -0.
func (r *reader) number() (text string, integer int64, isInteger, ok bool) {
	start, i := r.at, r.at
	negative := i < len(r.text) && r.text[i] == '-'
	if negative {
		i++
	}
	first := i
	for ; i < len(r.text) && r.text[i] >= '0' && r.text[i] <= '9'; i++ {
		integer = integer*10 + int64(r.text[i]-'0')
	}
	digits := i - first
	if digits == 0 || digits > 1 && r.text[first] == '0' {
		return "", 0, false, false
	}
	isInteger = digits <= 15 && !(negative && integer == 0)
	if i < len(r.text) && r.text[i] == '.' {
		isInteger = false
		fraction := i + 1
		for i++; i < len(r.text) && r.text[i] >= '0' && r.text[i] <= '9'; i++ {
		}
		if i == fraction {
			return "", 0, false, false
		}
	}
	if i < len(r.text) && r.text[i]|0x20 == 'e' {
		isInteger = false
		if i++; i < len(r.text) && (r.text[i] == '+' || r.text[i] == '-') {
			i++
		}
		exponent := i
		for ; i < len(r.text) && r.text[i] >= '0' && r.text[i] <= '9'; i++ {
		}
		if i == exponent {
			return "", 0, false, false
		}
	}
	if negative {
		integer = -integer
	}
	r.at = i
	return r.text[start:i], integer, isInteger, true
}

// skip reads any value.
func (r *reader) skip() bool {
	switch c := r.peek(); c {
	case '"':
		_, ok := r.string()
		return ok
	case 'n':
		return r.literal("null")
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case '{', '[':
		return r.skipAll(c + 2)
	}
	_, _, _, ok := r.number()
	return ok
}

// skipAll reads a list or an object, at its first byte; end is the last one.
func (r *reader) skipAll(end byte) bool {
	more, ok := r.enter(end)
	for more && ok {
		if end == '}' {
			if _, ok = r.name(); !ok {
				return false
			}
		}
		if !r.skip() {
			return false
		}
		more, ok = r.next(end)
	}
	return ok
}

// enter reads the first byte of a list or an object, and the last one if it is empty: more is false then. ok is false if it is
// nested too deeply.
func (r *reader) enter(end byte) (more, ok bool) {
	r.at++
	if r.depth++; r.depth > maxDepth {
		return false, false
	}
	if r.peek() == end {
		r.at++
		r.depth--
		return false, true
	}
	return true, true
}
